"""Kinematic tree of a URDF: joints with axes and limits, and poses of links at given angles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from pixelgait.robot.spec import Array

FIXED, FREE = "fixed", "floating"
NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """A joint; a limit that the URDF does not state is None."""

    name: str
    kind: str  # revolute, continuous, fixed, ...
    parent: str
    child: str
    origin: Array  # (4, 4), in the parent's frame
    axis: Array  # (3,), in the joint's frame
    lower_rad: float | None
    upper_rad: float | None
    effort_nm: float | None
    velocity_rad_per_s: float | None


class UrdfTree:
    """Joints by name, and forward kinematics."""

    def __init__(self, root: Element) -> None:
        self.joints = {each.name: each for each in map(_joint, root.iterfind("joint"))}
        self.above = {joint.child: joint for joint in self.joints.values()}  # by link
        self.base = base_link(root)

    def pose(self, link: str, angles: Mapping[str, float] = NOTHING) -> Array:
        """Pose (4, 4) of a link in the base's frame; joints without an angle [rad] are at 0."""
        pose = np.eye(4)
        while link != self.base:
            joint = self.above[link]
            turned = joint.origin @ _turn(joint.axis, angles.get(joint.name, 0.0))
            pose, link = turned @ pose, joint.parent
        return pose

    def place(self, link: str, angles: Mapping[str, float] = NOTHING) -> Array:
        """Origin (3,) of a link's frame in the base's [m]."""
        return np.asarray(self.pose(link, angles)[:3, 3])

    def axis(self, joint: UrdfJoint) -> Array:
        """Axis (3,) of a joint in the base's frame, all joints at 0."""
        return np.asarray(self.pose(joint.child)[:3, :3] @ joint.axis)

    def reach(self, link: str, joint: UrdfJoint) -> list[float]:
        """Place (3,) of a joint below a link, across fixed joints, in the link's frame [m]."""
        pose = joint.origin
        while joint.parent != link:
            joint = self.above[joint.parent]
            pose = joint.origin @ pose
        place: list[float] = pose[:3, 3].tolist()
        return place

    def chain(self, link: str) -> list[UrdfJoint]:
        """The joints from the base to a link."""
        joints: list[UrdfJoint] = []
        while link != self.base:
            joints.insert(0, self.above[link])
            link = joints[0].parent
        return joints


def base_link(root: Element) -> str:
    """The root link of a URDF."""
    children = {linked(joint, "child") for joint in root.iterfind("joint")}
    return next(
        name for link in root.iterfind("link") if (name := link.get("name", "")) not in children
    )


def drop_world(root: Element) -> None:
    """Remove a link above the base, to which a floating joint or the name `world` binds it.

    Simulators let the base float anyway; below another link PyBullet would drop the robot, and a
    fixed joint would hang it in the air.
    """
    while len(below := [j for j in root.iterfind("joint") if _is_below(j, base_link(root))]) == 1:
        world = base_link(root)
        if world != "world" and below[0].get("type") != FREE:
            return
        root.remove(below[0])
        root.remove(next(link for link in root.iterfind("link") if link.get("name") == world))


def linked(joint: Element, which: str) -> str:
    """The parent or child link of a joint."""
    found = joint.find(which)
    assert found is not None  # URDF demands it
    return found.get("link", "")


def _is_below(joint: Element, link: str) -> bool:
    return linked(joint, "parent") == link


def _joint(element: Element) -> UrdfJoint:
    limit = element.find("limit")
    numbers = {} if limit is None else limit.attrib
    lower, upper, effort, velocity = (
        float(numbers[name]) if name in numbers else None
        for name in ("lower", "upper", "effort", "velocity")
    )
    axis = np.array(_three(element.find("axis"), "xyz", "1 0 0"))
    return UrdfJoint(
        element.get("name", ""),
        element.get("type", FIXED),
        linked(element, "parent"),
        linked(element, "child"),
        _origin(element.find("origin")),
        axis / (np.linalg.norm(axis) or 1.0),
        lower,
        upper,
        effort,
        velocity,
    )


def _three(element: Element | None, name: str, default: str) -> list[float]:
    text = default if element is None else element.get(name, default)
    return [float(each) for each in text.split()]


def _origin(element: Element | None) -> Array:
    """Pose (4, 4) of an `origin`; its roll, pitch and yaw are about fixed axes."""
    roll, pitch, yaw = _three(element, "rpy", "0 0 0")
    pose = np.eye(4)
    for axis, angle in ((2, yaw), (1, pitch), (0, roll)):
        pose = pose @ _turn(np.eye(3)[axis], angle)
    pose[:3, 3] = _three(element, "xyz", "0 0 0")
    return pose


def _turn(axis: Array, angle: float) -> Array:
    """A rotation (4, 4) about a unit axis (Rodrigues)."""
    x, y, z = axis.tolist()
    cross = np.array([(0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)])
    pose = np.eye(4)
    pose[:3, :3] += math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross
    return pose
