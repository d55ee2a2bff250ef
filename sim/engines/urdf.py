"""The robots' URDF files, wherever their Python package keeps them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pybullet_data

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec

EXAMPLE_ROBOT_DATA = "example-robot-data"  # distribution on PyPI
SHARE = "cmeel.prefix/share"  # where it installs its robots, below site-packages


def find_urdf(spec: RobotSpec) -> Path:
    """The URDF of a robot.

    Raises:
        UserError: its package is not installed, or lacks the file.
    """
    package, _, _ = spec.urdf.partition("/")
    path = _share(spec) / spec.urdf if package == EXAMPLE_ROBOT_DATA else _bullet() / spec.urdf
    if not path.is_file():
        raise UserError(f"robot '{spec.name}': no {path}")
    return path


def find_mesh(urdf: Path, name: str) -> Path:
    """A mesh a URDF refers to: relative to it, or to a package that one of its folders is."""
    package = "package://"
    if not name.startswith(package):
        return urdf.parent / name
    first = Path(name.removeprefix(package)).parts[0]
    root = next(folder for folder in urdf.parents if folder.name == first)
    return root.parent / name.removeprefix(package)


def _bullet() -> Path:
    return Path(pybullet_data.getDataPath())


def _share(spec: RobotSpec) -> Path:
    try:
        found = distribution(EXAMPLE_ROBOT_DATA)
    except PackageNotFoundError:
        raise UserError(
            f"robot '{spec.name}' needs {EXAMPLE_ROBOT_DATA}: pip install '.[go2]'"
        ) from None
    return Path(str(found.locate_file(SHARE)))
