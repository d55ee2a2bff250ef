"""tf2_msgs/TFMessage, of which there is no wheel, built by the generators that come with others.

python -m tests.ros.tf2_msgs FOLDER    # the sources; `build` runs it, then the compilers
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

PREFIX = Path(sys.prefix)
INTERFACE = """
#include "geometry_msgs/msg/TransformStamped.idl"
module tf2_msgs { module msg { struct TFMessage {
  sequence<geometry_msgs::msg::TransformStamped> transforms;
}; }; };
"""
FLAGS = ("-O0", "-fPIC", "-shared", "-w")
HEADERS = ("rosidl_runtime_c", "geometry_msgs", "fastcdr")


def environment(folder: Path) -> dict[str, str]:
    """Additions to a process's environment, for it to find the built package."""
    return {"PYTHONPATH": str(folder / "python"), "LD_LIBRARY_PATH": str(folder / "lib")}


def build(folder: Path) -> None:
    """Build the package into a new folder.

    Raises:
        RuntimeError: headers are missing, or a generator or compiler fails.
    """
    if missing := [name for name in HEADERS if not (PREFIX / "include" / name).is_dir()]:
        raise RuntimeError(
            f"no headers of {missing} in {PREFIX / 'include'}: make clean, make test"
        )
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "tests.ros.tf2_msgs", folder)
    library, package = folder / "lib", folder / "python" / "tf2_msgs"
    library.mkdir()
    _compile(folder, library)
    module = f"tf2_msgs_s__rosidl_typesupport_c{sysconfig.get_config_var('EXT_SUFFIX')}"
    (package / "msg").mkdir(parents=True)
    (package / "__init__.py").touch()
    sources = folder / "c" / "tf2_msgs"
    for file in (sources / "msg").glob("*.py"):
        (package / "msg" / file.name).write_bytes(file.read_bytes())
    python = [f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    parts = [sources / "_tf2_msgs_s.ep.rosidl_typesupport_c.c", sources / "msg/_tf_message_s.c"]
    names = (*_own("generator_c", "typesupport_c"), "geometry_msgs__rosidl_generator_py")
    _gcc("gcc", folder, [*python, *parts], package / module, names)


def _compile(folder: Path, library: Path) -> None:
    """The message itself, what puts it on the wire, what describes it, and what finds either."""
    c, described = folder / "c" / "tf2_msgs" / "msg", folder / "described" / "tf2_msgs" / "msg"
    other = "geometry_msgs__rosidl_"
    fast, inspect = "typesupport_fastrtps_c", "typesupport_introspection_c"
    message = [
        c / f"detail/tf_message__{p}.c" for p in ("functions", "description", "type_support")
    ]
    runtime = ("rosidl_runtime_c", "rcutils")
    for compiler, sources, made, names in (
        ("gcc", message, "generator_c", (*runtime, f"{other}generator_c")),
        (
            *("g++", [c / "detail/tf_message__type_support_c.cpp"], fast),
            (*_own("generator_c"), f"{other}{fast}", f"rosidl_{fast}", f"rosidl_{fast}pp"),
        ),
        (
            *("gcc", [described / "detail/tf_message__type_support.c"], inspect),
            (*_own("generator_c"), f"{other}{inspect}", f"rosidl_{inspect}"),
        ),
        (
            *("g++", [c / "tf_message__type_support.cpp"], "typesupport_c"),
            (*_own("generator_c", fast), "rosidl_typesupport_c"),
        ),
    ):
        _gcc(compiler, folder, sources, library / f"lib{_own(made)[0]}.so", names)


def _own(*parts: str) -> tuple[str, ...]:
    return tuple(f"tf2_msgs__rosidl_{part}" for part in parts)


def _gcc(
    compiler: str, folder: Path, sources: list[str | Path], made: Path, libraries: tuple[str, ...]
) -> None:
    headers = PREFIX / "include"
    folders = [folder / "described", folder / "c", headers, *headers.iterdir()]
    there = [f"-L{folder / 'lib'}", f"-L{PREFIX / 'lib'}", *(f"-l{name}" for name in libraries)]
    _run(compiler, *FLAGS, *(f"-I{each}" for each in folders), *sources, "-o", made, *there)


def _run(*command: str | Path) -> None:
    environment = os.environ | {"AMENT_PREFIX_PATH": str(PREFIX)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")


def generate(folder: Path) -> None:
    """The sources, in C and Python; two generators give their files the same names."""
    from rosidl_generator_c.cli import GenerateC
    from rosidl_generator_py.cli import GeneratePython
    from rosidl_generator_type_description.cli import HashTypeDescription
    from rosidl_typesupport_c.cli import GenerateCTypesupport
    from rosidl_typesupport_fastrtps_c.cli import GenerateFastRTPSCTypesupport
    from rosidl_typesupport_introspection_c.cli import GenerateIntrospectionCTypesupport

    interface = folder / "interface" / "msg" / "TFMessage.idl"
    interface.parent.mkdir(parents=True)
    interface.write_text(INTERFACE)
    others = [
        str(PREFIX / "share" / name) for name in ("geometry_msgs", "std_msgs", "builtin_interfaces")
    ]
    what = ("tf2_msgs", [f"{folder / 'interface'}:msg/TFMessage.idl"], others)
    for where, generators in (
        ("c", (GenerateC, GenerateFastRTPSCTypesupport, GenerateCTypesupport, GeneratePython)),
        ("described", (GenerateIntrospectionCTypesupport,)),
    ):
        out = folder / where / "tf2_msgs"
        out.mkdir(parents=True)
        HashTypeDescription("hash").generate_type_hashes(*what, out)
        for generator in generators:
            generator(generator.__name__).generate(*what, out)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
