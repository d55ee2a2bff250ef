"""URDF files of the robots: found in Python packages and prepared for simulators."""

from __future__ import annotations

import math
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pybullet_data

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import RobotSpec

EXAMPLE_ROBOT_DATA = "example-robot-data"  # distribution on PyPI
PACKAGE = "package://"  # ROS's, before the name of a package
SHARE = "cmeel.prefix/share"  # its robots' folder below site-packages

# Radius of the camera's housing: half the depth and height of an Intel RealSense D435 (25 mm), and
# more than the distance of the near plane's corners, which must not be inside a wall.
HOUSING_M = 0.03
BONE_M = 0.03  # thickness of a leg in images
BONE_COLOUR = (0.2, 0.2, 0.2)
# Largest friction of feet: the maximum of randomised robots (`Randomisation.friction`); rubber on
# dry concrete has 1.0. A Mini Cheetah's URDF has 3, with which no gait was learned.
MOST_FRICTION = 1.25
# Row, column and attribute of a URDF's inertia tensor.
INERTIA = [(i, j, f"i{'xyz'[i]}{'xyz'[j]}") for i in range(3) for j in range(i, 3)]


def simulated_robot(spec: RobotSpec) -> tuple[Element, list[str]]:
    """The URDF of a robot prepared for simulators, and the names of its visible links.

    * Meshes have absolute paths.
    * The camera has a housing that collides.
    * Legs are drawn as two bones each: their meshes would take PyBullet's renderer 22 ms per image.
    * Feet have no `spinning_friction`: with the lever of a Mini Cheetah's URDF (0.3 m) or a
      Laikago's (0.1 m) neither could turn by walking.
    * Friction is limited to that of rubber.
    * Impossible inertias, as of a Mini Cheetah's thighs, are corrected: PyBullet would ignore them.

    Raises:
        UserError: if it is no URDF, or another robot's; see also `find_urdf` and `find_mesh`.
    """
    urdf = find_urdf(spec)
    root = _parsed(urdf, spec)
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(find_mesh(urdf, mesh.get("filename", ""))))
    links = {link.get("name", ""): link for link in root.iterfind("link")}
    for link in links.values():
        for visual in link.findall("visual"):
            link.remove(visual)
    for contact in root.iter("contact"):
        for lever in contact.findall("spinning_friction"):
            contact.remove(lever)
        for friction in contact.findall("lateral_friction"):
            friction.set("value", str(min(float(friction.get("value", "nan")), MOST_FRICTION)))
    for inertia in root.iter("inertia"):
        _make_possible(inertia)
    joints = {joint.get("name"): joint for joint in root.iterfind("joint")}
    parents = {_link(joint, "child"): joint for joint in joints.values()}
    _shape(
        links[base_link(root)], "collision", spec.camera.position_m, "sphere", radius=f"{HOUSING_M}"
    )
    seen = []
    for hip, knee, foot in zip(
        spec.joint_names[1::3], spec.joint_names[2::3], spec.foot_links, strict=True
    ):
        for upper, lower in ((joints[hip], joints[knee]), (joints[knee], parents[foot])):
            name = _link(upper, "child")
            _bone(links[name], lower)
            seen.append(name)
    return root, seen


def _parsed(urdf: Path, spec: RobotSpec) -> Element:
    """The root of a URDF that has the joints and feet of the robot."""
    try:
        root = ElementTree.parse(urdf).getroot()
    except ElementTree.ParseError as error:
        raise UserError(f"{urdf} is not a URDF: {error}") from None
    named = {each.get("name") for kind in ("joint", "link") for each in root.iterfind(kind)}
    missing = [name for name in (*spec.joint_names, *spec.foot_links) if name not in named]
    if missing:
        raise UserError(f"{urdf}: no {', '.join(missing)}, which a {spec.name} has")
    return root


def _make_possible(inertia: Element) -> None:
    """Limit the largest principal moment to the sum of the others."""
    tensor = np.zeros((3, 3))
    for row, column, name in INERTIA:
        tensor[row, column] = tensor[column, row] = float(inertia.get(name, "0"))
    (small, middle, large), axes = np.linalg.eigh(tensor)
    if large <= small + middle:
        return
    # Less by a millionth, so that rounding does not exceed the limit.
    limited = axes @ np.diag((small, middle, (1.0 - 1e-6) * (small + middle))) @ axes.T
    for row, column, name in INERTIA:
        inertia.set(name, repr(float(limited[row, column])))


def base_link(root: Element) -> str:
    """The root link of a URDF."""
    children = {_link(joint, "child") for joint in root.iterfind("joint")}
    return next(
        name for link in root.iterfind("link") if (name := link.get("name", "")) not in children
    )


def _bone(link: Element, joint: Element) -> None:
    """Draw a link as a box from its origin to the joint at its end."""
    x, y, z = end = [float(value) for value in _origin(joint).split()]
    middle = (x / 2.0, y / 2.0, z / 2.0)
    size = f"{BONE_M} {BONE_M} {math.hypot(*end)}"
    turn = (0.0, math.atan2(math.hypot(x, y), z), math.atan2(y, x))  # its z axis along the bone
    visual = _shape(link, "visual", middle, "box", turn, size=size)
    material = SubElement(visual, "material", name="bone")
    SubElement(material, "color", rgba=" ".join(map(str, (*BONE_COLOUR, 1.0))))


def _shape(
    link: Element,
    use: str,
    position: tuple[float, ...],
    kind: str,
    turn: tuple[float, ...] = (0.0, 0.0, 0.0),
    **size: str,
) -> Element:
    """Add a visual or collision shape to a link."""
    element = SubElement(link, use)
    SubElement(element, "origin", xyz=" ".join(map(str, position)), rpy=" ".join(map(str, turn)))
    SubElement(SubElement(element, "geometry"), kind, size)
    return element


def _link(joint: Element, which: str) -> str:
    found = joint.find(which)
    assert found is not None  # URDF demands it
    return found.get("link", "")


def _origin(joint: Element) -> str:
    found = joint.find("origin")
    return "0 0 0" if found is None else found.get("xyz", "0 0 0")


def find_urdf(spec: RobotSpec) -> Path:
    """The URDF of a robot: its package's, or the file PIXELGAIT_<ROBOT>_URDF.

    Raises:
        UserError: if its package is not installed, or there is no such file.
    """
    if own := os.environ.get(_variable(spec)):
        if not Path(own).is_file():
            raise UserError(f"{_variable(spec)}: no file {own}, expected a URDF")
        return Path(own).resolve()
    package, _, below = spec.urdf.partition("/")
    path = _share(spec) / spec.urdf if package == EXAMPLE_ROBOT_DATA else _bullet() / below
    if not path.is_file():
        raise UserError(f"robot '{spec.name}': no {path}")
    return path


def find_mesh(urdf: Path, name: str) -> Path:
    """A mesh of a URDF, relative to the file or to a package folder above it.

    Raises:
        UserError: if no folder above has the package's name.
    """
    if not name.startswith(PACKAGE):
        return urdf.parent / name
    below = name.removeprefix(PACKAGE)
    package = below.partition("/")[0]
    for folder in urdf.parents:
        if folder.name == package:
            return folder.parent / below
    raise UserError(f"{urdf}: no folder above it is called {package}, as in '{name}'")


def _variable(spec: RobotSpec) -> str:
    return f"PIXELGAIT_{spec.name.upper()}_URDF"


def _bullet() -> Path:
    return Path(pybullet_data.getDataPath())


def _share(spec: RobotSpec) -> Path:
    try:
        found = distribution(EXAMPLE_ROBOT_DATA)
    except PackageNotFoundError:
        raise UserError(
            f"robot '{spec.name}' needs {EXAMPLE_ROBOT_DATA}: pip install -e '.[go2-model]' "
            f"(131 MB), or {_variable(spec)}=its manufacturer's URDF (docs/robot/go2.md)"
        ) from None
    return Path(str(found.locate_file(SHARE)))
