"""The graph of the code: which room may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "robot": set(),
    "sim": {"robot"},
    "policies": {"robot", "sim"},
    "export": {"robot", "sim", "policies"},
}
ROBOT_LIBRARIES = {"numpy", "onnxruntime", "cv2", "tyro", "rclpy", "sensor_msgs"}
ROBOT_LIBRARIES |= {"builtin_interfaces"}


def imports(path: Path) -> set[str]:
    """Dotted names a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_what_lies_below_them(room: str) -> None:
    for path in (ROOT / room).glob("*.py"):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "pixelgait":
                assert parts[1] in MAY_IMPORT[room] | {room}, f"{path.name} imports {name}"


def test_the_robot_room_needs_only_what_a_robot_has() -> None:
    for path in (ROOT / "robot").glob("*.py"):
        foreign = {n.split(".")[0] for n in imports(path)} - ROBOT_LIBRARIES - {"pixelgait"}
        assert foreign <= set(sys.stdlib_module_names), f"{path.name} imports {foreign}"


def test_modules_do_not_import_in_circles() -> None:
    modules = {
        f"pixelgait.{room}.{path.stem}": imports(path)
        for room in MAY_IMPORT
        for path in (ROOT / room).glob("*.py")
    }
    graph = {
        module: {m for m in modules if any(n == m or n.startswith(f"{m}.") for n in names)}
        for module, names in modules.items()
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for other in graph[module] - {module}:
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_runtime_runs_without_torch_simulator_or_ros() -> None:
    code = """
import sys
for name in ("torch", "pybullet", "gymnasium", "onnx", "rclpy", "matplotlib", "ray"):
    sys.modules[name] = None
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.controller import Controller
import pixelgait.robot.node, pixelgait.robot.profile
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_stay_short_and_launch_is_no_package() -> None:
    for room in MAY_IMPORT:
        for path in (ROOT / room).glob("*.py"):
            assert len(path.read_text().splitlines()) <= 300, path
    assert not (ROOT / "launch" / "__init__.py").exists()  # it would shadow ROS 2's own package
    assert not (ROOT / "pixelgait").exists()
