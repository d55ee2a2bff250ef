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
from pixelgait.sim.engines.urdf_tree import UrdfTree, drop_world

EXAMPLE_ROBOT_DATA = "example-robot-data"  # distribution on PyPI
XACRO = "{http://www.ros.org/wiki/xacro}"  # namespace of its elements, as ElementTree writes it
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
LEAST_INERTIA_KG_M2 = 1e-7  # assumption, of flat or needle-like links
# Differences between a URDF and a specification that are no other robot's: assumptions. Makers'
# URDFs of an A1 differ by 3 mm in the place of the hips.
LEG_TOLERANCE_M, LIMIT_TOLERANCE_RAD = 0.03, 0.1
# Row, column and attribute of a URDF's inertia tensor.
INERTIA = [(i, j, f"i{'xyz'[i]}{'xyz'[j]}") for i in range(3) for j in range(i, 3)]


def simulated_robot(spec: RobotSpec) -> tuple[Element, list[str]]:
    """The URDF of a robot prepared for simulators, and the names of its visible links.

    * The camera has a housing that collides.
    * Legs are drawn as two bones each: their meshes would take PyBullet's renderer 22 ms per image.
    * Feet have no `spinning_friction`: with the lever of a Mini Cheetah's URDF (0.3 m) or a
      Laikago's (0.1 m) neither could turn by walking.
    * Friction is limited to that of rubber.
    * Impossible inertias, as of a Mini Cheetah's thighs, are corrected: PyBullet would ignore them.
    * Joints that turn without end stop at the specification's limits: a lying Mini Cheetah would
      fold its knees beyond them.

    Raises:
        UserError: as `read_urdf`.
    """
    root = read_urdf(spec)
    tree = UrdfTree(root)
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
    _add_stops(root, spec)
    base = links[tree.base]
    _shape(base, "collision", spec.camera.position_m, "sphere", radius=f"{HOUSING_M}")
    seen = []
    for hip, knee, foot in zip(
        spec.joint_names[1::3], spec.joint_names[2::3], spec.foot_links, strict=True
    ):
        thigh, shank = tree.joints[hip].child, tree.joints[knee].child
        for name, end in ((thigh, tree.joints[knee]), (shank, tree.above[foot])):
            _bone(links[name], tree.reach(name, end))
            seen.append(name)
    return root, seen


def read_urdf(spec: RobotSpec) -> Element:
    """The URDF of a robot, with absolute paths of meshes, without a `world` above its base.

    Raises:
        UserError: if it is no URDF, or another robot's; see also `find_urdf` and `find_mesh`.
    """
    urdf = find_urdf(spec)
    root = parse_urdf(urdf)
    named = {each.get("name") for kind in ("joint", "link") for each in root.iterfind(kind)}
    missing = [name for name in (*spec.joint_names, *spec.foot_links) if name not in named]
    if missing:
        raise UserError(f"{urdf}: no {', '.join(missing)}, which a {spec.name} has")
    _check_robot(urdf, UrdfTree(root), spec)
    return root


def parse_urdf(urdf: Path) -> Element:
    """The root of a URDF file, as `read_urdf`.

    Raises:
        UserError: if it is no URDF.
    """
    try:
        root = ElementTree.parse(urdf).getroot()
        if root.tag != "robot":  # an MJCF's is `mujoco`
            raise ValueError(f"its root element is <{root.tag}>, expected <robot>")
        if any(XACRO in each.tag for each in root.iter()):
            raise ValueError("it is a xacro file, make one by: xacro FILE > robot.urdf")
        if root.find("link") is None:
            raise ValueError("it has no link")
        drop_world(root)
        UrdfTree(root)  # its numbers can be read
    except (ElementTree.ParseError, ValueError, AssertionError, StopIteration) as error:
        raise UserError(f"{urdf} is not a URDF: {error}") from None
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(find_mesh(urdf, mesh.get("filename", ""))))
    return root


def missing_mesh(spec: RobotSpec) -> Path | None:
    """The first mesh of a robot's URDF that does not exist, or None.

    Raises:
        UserError: see `read_urdf`.
    """
    meshes = (Path(mesh.get("filename", "")) for mesh in read_urdf(spec).iter("mesh"))
    return next((mesh for mesh in meshes if not mesh.is_file()), None)


def _check_robot(urdf: Path, tree: UrdfTree, spec: RobotSpec) -> None:
    """Check that legs and limits are those of the specification.

    Otherwise a robot would fall without a word: by knees that turn the other way, or by limits
    that hold a joint back.
    """
    pose = dict(zip(spec.joint_names, spec.default_pose_rad.tolist(), strict=True))
    hips = spec.joint_names[1::3]
    for foot, hip, (x, y) in zip(spec.foot_links, hips, spec.feet_m.tolist(), strict=True):
        there = tree.place(foot, pose)
        depth = float(tree.place(tree.joints[hip].child, pose)[2] - there[2])
        found, stated = (*there[:2].tolist(), depth), (x, y, spec.leg_length_m)
        if max(abs(a - b) for a, b in zip(found, stated, strict=True)) > LEG_TOLERANCE_M:
            raise UserError(
                f"{urdf}: as robot {spec.name} stands, {foot} is at {found[0]:.2f}, "
                f"{found[1]:.2f} m and {depth:.2f} m below its hip, expected {x:.2f}, {y:.2f} and "
                f"{spec.leg_length_m:.2f} m: another robot, or a joint that turns the other way"
            )
    limits = zip(spec.joint_names, spec.joint_lower_rad, spec.joint_upper_rad, strict=True)
    for name, lower, upper in limits:
        joint = tree.joints[name]
        if joint.kind != "revolute" or joint.lower_rad is None or joint.upper_rad is None:
            continue
        if joint.lower_rad > lower + LIMIT_TOLERANCE_RAD or (
            joint.upper_rad < upper - LIMIT_TOLERANCE_RAD
        ):
            raise UserError(
                f"{urdf}: {name} turns from {joint.lower_rad:g} to {joint.upper_rad:g} rad, "
                f"robot {spec.name} from {lower:g} to {upper:g} rad"
            )


def _add_stops(root: Element, spec: RobotSpec) -> None:
    """Give joints without limits those of the specification."""
    lower, upper = spec.joint_lower_rad.tolist(), spec.joint_upper_rad.tolist()
    joints = {joint.get("name"): joint for joint in root.iterfind("joint")}
    for name, least, most in zip(spec.joint_names, lower, upper, strict=True):
        if joints[name].get("type") == "continuous":
            joints[name].set("type", "revolute")
            limit = joints[name].find("limit")
            limit = SubElement(joints[name], "limit") if limit is None else limit
            limit.attrib |= {"lower": repr(least), "upper": repr(most)}


def _make_possible(inertia: Element) -> None:
    """Limit the largest principal moment to the sum of the others, and all to positive ones."""
    tensor = np.zeros((3, 3))
    for row, column, name in INERTIA:
        tensor[row, column] = tensor[column, row] = float(inertia.get(name, "0"))
    moments, axes = np.linalg.eigh(tensor)
    if not tensor.any() or (moments[0] > 0.0 and moments[2] <= moments[0] + moments[1]):
        return
    small, middle, large = np.maximum(moments, LEAST_INERTIA_KG_M2)
    # Less by a millionth, so that rounding does not exceed the limit.
    large = min(large, (1.0 - 1e-6) * (small + middle))
    limited = axes @ np.diag((small, middle, large)) @ axes.T
    for row, column, name in INERTIA:
        inertia.set(name, repr(float(limited[row, column])))


def _bone(link: Element, end: list[float]) -> None:
    """Draw a link as a box from its origin to the joint at its end (3,) [m]."""
    x, y, z = end
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
    if not package:  # a file
        if not Path(spec.urdf).is_file():
            raise UserError(f"robot '{spec.name}': no file {spec.urdf}; or {_variable(spec)}=URDF")
        return Path(spec.urdf)
    path = _share(spec) / spec.urdf if package == EXAMPLE_ROBOT_DATA else _bullet() / below
    if not path.is_file():
        raise UserError(f"robot '{spec.name}': no {path}")
    return path


def packaged(urdf: Path) -> str:
    """`RobotSpec.urdf` of a file: below its package, if that is one of `find_urdf`."""
    urdf = urdf.resolve()
    if urdf.is_relative_to(bullet := _bullet().resolve()):
        return f"pybullet_data/{urdf.relative_to(bullet)}"
    folders = urdf.as_posix().partition(f"/{SHARE}/{EXAMPLE_ROBOT_DATA}/")
    return f"{EXAMPLE_ROBOT_DATA}/{folders[2]}" if folders[2] else str(urdf)


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
            f"robot '{spec.name}' needs {EXAMPLE_ROBOT_DATA}: pip install 'pixelgait[go2-model]' "
            f"(131 MB), or {_variable(spec)}=its manufacturer's URDF (docs/robot/go2.md)"
        ) from None
    return Path(str(found.locate_file(SHARE)))
