"""Start of the console scripts: what they import, Ctrl-C meanwhile, bytecode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pixelgait.robot.cli.commands import BYTECODE_FOLDER, COMMANDS, NO_BYTECODE
from tests.conftest import child_environment

HEAVY = ("torch", "onnxruntime", "pybullet", "mujoco", "rclpy", "cyclonedds", "onnx")
# Runs command lines, one after the other, each in a fork; prints what of HEAVY it has imported.
# An interrupt comes with the import whose number is the first argument; 0: none.
FORKS = """
import os, signal, sys
from importlib.abc import MetaPathFinder
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
interrupted, heavy = int(sys.argv[1]), sys.argv[2].split(",")

class Count(MetaPathFinder):
    left = interrupted
    def find_spec(self, *_):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

def run(line):
    sys.argv, sys.stdout = line.split(), open(os.devnull, "w")
    sys.meta_path.insert(0, Count())
    try:
        from pixelgait.robot.cli.commands import main
        main()
    finally:
        found = [name for name in heavy if name in sys.modules]
        os.write(1, f"{line}: {','.join(found) or 'nothing'}\\n".encode())

if not interrupted:
    import cv2, numpy, tyro  # once for all

for line in sys.stdin.read().splitlines():
    if not os.fork():
        run(line)
        sys.exit()
    os.write(1, f"{os.waitstatus_to_exitcode(os.wait()[1])}\\n".encode())
"""
REFUSED = (
    "pixelgait-run nowhere",
    "pixelgait-run rover --link nothing",
    "pixelgait-run rover --link go2:nothing0",
    "pixelgait-eval nowhere",
    "pixelgait-profile nowhere",
    "pixelgait-export --low-level nowhere --out nowhere",
    "pixelgait-export --low-level walk --high-level nowhere --out nowhere",
    "pixelgait-replay nowhere.mcap",
    "pixelgait-sim --scene nowhere",
    "pixelgait-demo --robot nowhere",
    "pixelgait-train nothing",
    "pixelgait-train walk --iterations -1",
    "pixelgait-train walk --out w --robot nowhere",
    "pixelgait-train walk --out w --start nowhere",
    "pixelgait-train imitate --out i --scene nowhere",
    "pixelgait-train course --out c --low-level nowhere",
)


def forked(lines: list[str], interrupted: int = 0) -> tuple[list[str], str]:
    """What every line has printed, with its exit code; standard error of all."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(interrupted), ",".join(HEAVY)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env=child_environment(),
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
def test_help_and_refusals_import_no_heavy_library() -> None:
    """Neither do command lines with an option that does not exist."""
    helped = [f"{name} --help" for name in COMMANDS]
    refused = [*(f"{name} --nonsense" for name in COMMANDS), *REFUSED]
    said, errors = forked([*helped, *refused])
    wanted = [part for line in helped for part in (f"{line}: nothing", "0")]
    assert said == wanted + [part for line in refused for part in (f"{line}: nothing", "1")]
    assert len(errors.splitlines()) == len(refused)


@pytest.mark.parametrize("imports", [6, 60, 120])
def test_an_interrupt_during_imports_is_one_line(imports: int) -> None:
    few = ("pixelgait-order",) if imports > 100 else ()  # an emergency stop imports little
    names = [name for name in COMMANDS if name not in few]
    said, errors = forked([f"{name} --help" for name in names], imports)
    assert said == ["130"] * len(names)
    assert errors == "error: interrupted\n" * len(names)


def listed(folder: Path, **environment: str) -> list[Path]:
    """The bytecode in a user's cache folder after a command; numpy has none of its own."""
    dropped = (NO_BYTECODE, BYTECODE_FOLDER)
    kept = {key: value for key, value in child_environment().items() if key not in dropped}
    code = "import sys; sys.argv = ['pixelgait-demo', '--help']\n"
    code += "from pixelgait.robot.cli import commands\n"
    code += "commands._bytecode_of_a_library = lambda: ''; commands.main()"
    subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"XDG_CACHE_HOME": str(folder)} | environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return list(folder.rglob("*.pyc"))


@pytest.mark.slow
def test_bytecode_is_kept_where_python_writes_none(tmp_path: Path) -> None:
    found = listed(tmp_path / "kept", **{NO_BYTECODE: "1"})
    assert any(path.name.startswith("_tyro") or "tyro" in path.parts for path in found)
    elsewhere = {NO_BYTECODE: "1", BYTECODE_FOLDER: str(tmp_path / "elsewhere")}
    assert listed(tmp_path / "unused", **elsewhere) == []
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ROS_DOMAIN_ID", "300", "is '300', expected a number from 0 to 232"),
        (
            *("RMW_IMPLEMENTATION", "rmw_none_cpp"),
            "is 'rmw_none_cpp', which is not installed beside this rclpy: unset it, or install "
            "ros-$ROS_DISTRO-rmw-none-cpp",
        ),
    ],
)
def test_an_environment_without_middleware_is_one_line(name: str, value: str, reason: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "pixelgait-run", "walk"],
        capture_output=True,
        text=True,
        env=child_environment() | {name: value},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {name} {reason}\n"
