"""The graph of the code: folders in layers, each importing only what lies below it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOP_FOLDERS = ("robot", "sim", "policies", "export")

# From the bottom up. A folder may import itself and folders of earlier rows.
LAYERS = (
    ("robot",),
    ("robot.estimation",),
    ("robot.cli", "robot.mapping", "robot.safety", "sim.world"),
    ("robot.control", "robot.ros.common"),
    ("robot.bundle", "robot.runtime", "policies.encoders"),
    (
        "policies.encoders.iap",
        "policies.encoders.sit",
        "policies.encoders.ge_vit",
        "policies.encoders.latformer",
    ),
    ("sim.rendering", "sim.scenes.courses", "sim.scenes.houses"),
    (
        "robot.recording",
        "robot.profiling",
        "robot.unitree",
        "robot.ros.commands",
        "robot.ros.links",
    ),
    ("robot.ros.monitoring", "robot.viewing", "robot.direct"),
    ("robot.ros", "sim.body", "sim.scenes"),
    ("policies", "sim.engines"),
    ("sim.tasks", "sim.workers"),
    ("policies.runs", "sim"),
    ("sim.viewing", "sim.batched"),
    ("sim.environments", "sim.ros", "policies.evaluation"),
    ("sim.benchmarks", "export.walkers"),
    ("policies.training", "export"),
    ("export.encoder_profile", "export.demo"),
)
ROBOT_LIBRARIES = {"numpy", "onnxruntime", "cv2", "tyro", "rclpy", "sensor_msgs"}
ROBOT_LIBRARIES |= {"builtin_interfaces", "geometry_msgs", "nav_msgs", "std_msgs", "std_srvs"}
ROBOT_LIBRARIES |= {"trajectory_msgs"}
ROBOT_LIBRARIES |= {"mcap", "mcap_ros2", "zstandard", "cyclonedds", "rerun"}
ROBOT_LIBRARIES |= {"rosbags", "imageio", "yaml"}  # recordings of others, and films of them
ROBOT_LIBRARIES |= {"diagnostic_msgs", "rcl_interfaces", "tf2_msgs"}

FOLDERS = [folder for layer in LAYERS for folder in layer]
MODULES = sorted(path for folder in TOP_FOLDERS for path in (ROOT / folder).rglob("*.py"))


def folder_of(path: Path) -> str:
    """Dotted, as in sim.engines."""
    return ".".join(path.relative_to(ROOT).parent.parts)


def name_of(path: Path) -> str:
    """Dotted, as imported; of a package's __init__ the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("pixelgait", *(parts[:-1] if parts[-1] == "__init__" else parts)))


NAMES = {name_of(path): path for path in MODULES}


def imports(path: Path) -> set[str]:
    """Dotted names a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(path: Path) -> set[str]:
    """The project's modules among a file's imports."""
    found = set()
    for name in imports(path):
        while name.startswith("pixelgait.") and name not in NAMES:
            name = name.rpartition(".")[0]
        if name in NAMES:
            found.add(name)
    return found - {name_of(path)}


def test_every_folder_has_a_layer() -> None:
    assert {folder_of(path) for path in MODULES} == set(FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_only_lower_layers(folder: str) -> None:
    level = next(i for i, layer in enumerate(LAYERS) if folder in layer)
    allowed = {folder, *(below for layer in LAYERS[:level] for below in layer)}
    for path in MODULES:
        if folder_of(path) == folder:
            for name in own_imports(path):
                assert folder_of(NAMES[name]) in allowed, f"{path} imports {name}"


def test_the_robot_folder_imports_robot_libraries_only() -> None:
    for path in (ROOT / "robot").rglob("*.py"):
        foreign = {n.split(".")[0] for n in imports(path)} - ROBOT_LIBRARIES - {"pixelgait"}
        assert foreign <= set(sys.stdlib_module_names), f"{path} imports {foreign}"
        outside = [n for n in own_imports(path) if not n.startswith("pixelgait.robot")]
        assert not outside, f"{path} imports {outside}"


def test_modules_do_not_import_in_circles() -> None:
    graph = {name: own_imports(path) for name, path in NAMES.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_no_file_shadows_a_library() -> None:
    """`python sim/envs.py` puts sim/ before everything else that can be imported."""
    libraries = set(sys.stdlib_module_names) | set(packages_distributions()) - {"pixelgait"}
    for path in MODULES:
        assert path.stem not in libraries - {"__init__"}, path
    for folder in FOLDERS:
        assert folder.rpartition(".")[2] not in libraries, folder


@pytest.mark.parametrize(
    "script",
    [
        "policies/evaluation/evaluate.py",
        "robot/profiling/profile_bundle.py",
        "policies/training/train.py",
    ],
)
def test_a_file_runs_by_its_path(script: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_the_runtime_runs_without_torch_simulator_or_ros() -> None:
    code = """
import sys
for name in ("torch", "pybullet", "gymnasium", "onnx", "rclpy", "matplotlib", "ray"):
    sys.modules[name] = None
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Controller
import pixelgait.robot.ros.run, pixelgait.robot.profiling.profile_bundle
import pixelgait.robot.direct.run, pixelgait.robot.unitree.sport
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scenes_are_described_without_a_simulator() -> None:
    code = """
import sys
for name in ("pybullet", "mujoco", "torch"):
    sys.modules[name] = None
from pixelgait.sim.scenes.registry import SCENES, make_scene
from pixelgait.sim.body.camera import Camera
for name in SCENES:
    make_scene(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_launch_is_no_package() -> None:
    assert not (ROOT / "launch" / "__init__.py").exists()  # it would shadow ROS 2's own package
    assert not (ROOT / "pixelgait").exists()
