"""Leg kinematics against the robots' URDFs, and their Jacobians against finite differences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.spec import LEGS, ROBOTS, Array, RobotSpec
from pixelgait.sim.engines.urdf import find_urdf

EACH = pytest.mark.parametrize("spec", ROBOTS.values(), ids=ROBOTS)


def rotation(axis: str, angle: float) -> Array:
    """Rotation (4, 4) about one of a frame's axes, by Rodrigues' formula."""
    x, y, z = np.array([float(each) for each in axis.split()])
    cross = np.array([(0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)])
    pose = np.eye(4)
    pose[:3, :3] += math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross
    return pose


def origin(joint: Element) -> Array:
    """Pose (4, 4) of a joint's frame in its parent's."""
    found = joint.find("origin")
    values = {} if found is None else found.attrib
    roll, pitch, yaw = (float(each) for each in values.get("rpy", "0 0 0").split())
    pose = rotation("0 0 1", yaw) @ rotation("0 1 0", pitch) @ rotation("1 0 0", roll)
    pose[:3, 3] = [float(each) for each in values.get("xyz", "0 0 0").split()]
    return pose


def chain(spec: RobotSpec, foot: str) -> Iterator[Element]:
    """The URDF's joints from a foot up to the base."""
    root = ElementTree.parse(find_urdf(spec)).getroot()
    joints = {each.find("child").get("link"): each for each in root.iterfind("joint")}
    while foot in joints:
        yield joints[foot]
        foot = joints[foot].find("parent").get("link")


def urdf_foot(spec: RobotSpec, foot: str, angles: Array) -> Array:
    """A foot's place in the base frame (3,) [m], by the URDF."""
    angle = dict(zip(spec.joint_names, angles.tolist(), strict=True))
    pose = np.eye(4)
    for joint in chain(spec, foot):
        axis = joint.find("axis")
        turned = angle.get(joint.get("name"))
        own = np.eye(4) if turned is None else rotation(axis.get("xyz"), turned)
        pose = origin(joint) @ own @ pose
    return pose[:3, 3]


def random_angles(spec: RobotSpec) -> Iterator[Array]:
    rng = np.random.default_rng(0)
    for _ in range(20):
        yield rng.uniform(spec.joint_lower_rad, spec.joint_upper_rad)


@EACH
def test_feet_are_where_the_urdf_has_them(spec: RobotSpec) -> None:
    kinematics = LegKinematics(spec)
    for angles in random_angles(spec):
        found = [foot.position for foot in kinematics.feet(angles.tolist())]
        wanted = [urdf_foot(spec, foot, angles) for foot in spec.foot_links]
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@EACH
def test_jacobians_are_the_finite_differences_of_the_feet(spec: RobotSpec) -> None:
    kinematics, step = LegKinematics(spec), 1e-6
    for angles in random_angles(spec):
        jacobians = kinematics.jacobians(angles)
        for joint in range(12):
            moved = [angles + sign * step * np.eye(12)[joint] for sign in (1.0, -1.0)]
            ahead, behind = (
                np.array([foot.position for foot in kinematics.feet(each)]) for each in moved
            )
            leg, column = divmod(joint, 3)
            wanted = np.zeros((len(LEGS), 3))
            wanted[leg] = jacobians[leg, :, column]
            np.testing.assert_allclose((ahead - behind) / (2 * step), wanted, atol=1e-6)


@EACH
def test_a_foots_velocity_is_its_jacobian_times_the_joints_velocities(spec: RobotSpec) -> None:
    kinematics, rates = LegKinematics(spec), np.linspace(-2.0, 3.0, 12)
    angles = spec.default_pose_rad
    found = [
        foot.velocity(*rates[3 * leg : 3 * leg + 3])
        for leg, foot in enumerate(kinematics.feet(angles.tolist()))
    ]
    wanted = (kinematics.jacobians(angles) @ rates.reshape(4, 3, 1))[..., 0]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_feet_are_found_anew_when_the_same_list_has_other_angles() -> None:
    spec = ROBOTS["a1"]
    kinematics, angles = LegKinematics(spec), spec.default_pose_rad.tolist()
    before = kinematics.feet(angles)
    assert kinematics.feet(list(angles)) is before  # remembered
    angles[0] += 0.1
    assert kinematics.feet(angles) == LegKinematics(spec).feet(angles) != before


@EACH
def test_the_standing_pose_has_the_specifications_lengths(spec: RobotSpec) -> None:
    feet = np.array([f.position for f in LegKinematics(spec).feet(spec.default_pose_rad.tolist())])
    np.testing.assert_allclose(feet[:, :2], spec.feet_m, atol=1e-3)
    hips_m = spec.legs_m[:, :2].sum(1)[:, 2]
    np.testing.assert_allclose(hips_m - feet[:, 2], spec.leg_length_m, atol=0.02)
    # The robot stands on its feet's lower ends; soft legs give way by a centimetre.
    height_m = -feet[:, 2].mean() + spec.foot_radius_m
    assert height_m == pytest.approx(spec.stand_height_m, abs=0.02)
