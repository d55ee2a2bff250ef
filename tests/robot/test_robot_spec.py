"""Robot specifications against the models of the simulators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pixelgait.robot.control.gait import joint_map, load_map, standing_targets
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import GRAVITY_M_PER_S2, JointCommand
from pixelgait.robot.spec import A1, GO2, LAIKAGO, LEGS, MINI_CHEETAH, ROBOTS, RobotSpec, find_robot
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.mujoco_body import MuJoCoBody
from pixelgait.sim.engines.mujoco_model import foot_friction
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.urdf import find_urdf
from pixelgait.sim.scenes.flat import FlatGround

# Manufacturers' masses with battery: Unitree, MIT.
MASS_KG = {"a1": 12.0, "mini_cheetah": 9.0, "laikago": 25.0, "go2": 15.0}


@pytest.fixture(scope="module", params=ROBOTS.values(), ids=ROBOTS)
def body(request: pytest.FixtureRequest) -> Iterator[PyBulletBody]:
    body = PyBulletBody(request.param, FlatGround())
    yield body
    body.close()


def joint_info(body: PyBulletBody) -> list[tuple]:
    count = pybullet.getNumJoints(body.robot, physicsClientId=body.client)
    return [pybullet.getJointInfo(body.robot, j, physicsClientId=body.client) for j in range(count)]


def links(body: PyBulletBody, indices: list[int]) -> np.ndarray:
    """Frames of links below the base, (n, 3) [m]."""
    states = pybullet.getLinkStates(
        body.robot, indices, computeForwardKinematics=True, physicsClientId=body.client
    )
    return np.array([state[4] for state in states]) - body.pose()[0]


def feet(body: PyBulletBody, poses: tuple[float, ...] = (0.0,) * 12) -> np.ndarray:
    """Feet below the base with these leg poses, (4, 3) [m]."""
    angles = body.spec.default_pose_rad + joint_map(body.spec) @ poses
    for joint, angle in zip(body.joints, angles, strict=True):
        pybullet.resetJointState(body.robot, joint, angle, physicsClientId=body.client)
    index = {row[12].decode(): row[0] for row in joint_info(body)}
    return links(body, [index[name] for name in body.spec.foot_links])


def test_joints_are_those_of_the_urdf_leg_by_leg(body: PyBulletBody) -> None:
    names = [joint_info(body)[j][1].decode() for j in body.joints]
    assert tuple(names) == body.spec.joint_names
    body.reset(0)
    sides = np.sign(links(body, body.joints[1::3])[:, :2])  # of the hips: x, y
    np.testing.assert_array_equal(sides, [(1, -1), (1, 1), (-1, -1), (-1, 1)])
    assert LEGS == ("FR", "FL", "RR", "RL")


@pytest.mark.parametrize("spec", [A1, GO2, LAIKAGO], ids=lambda spec: spec.name)
def test_limits_are_those_of_the_urdf(spec: RobotSpec) -> None:
    root = ElementTree.parse(find_urdf(spec)).getroot()
    limits = [root.find(f"joint[@name='{name}']/limit").attrib for name in spec.joint_names]
    # Limits lower on the robot than in the URDF are named in the specification.
    lower = {"a1": 33.5}.get(spec.name, np.inf)
    efforts = [min(float(x["effort"]), lower) for x in limits]
    np.testing.assert_allclose(spec.torque_limit_nm, efforts)
    if spec is LAIKAGO:  # its URDF with z up has none, the one with y up has
        other = Path(find_urdf(spec)).with_name("laikago_toes_limits.urdf")
        root = ElementTree.parse(other).getroot()
        limits = [root.find(f"joint[@name='{name}']/limit").attrib for name in spec.joint_names]
    np.testing.assert_allclose(spec.joint_lower_rad, [float(x["lower"]) for x in limits])
    np.testing.assert_allclose(spec.joint_upper_rad, [float(x["upper"]) for x in limits])


def test_the_mini_cheetahs_urdf_has_no_limits() -> None:
    """The specification's limits come from elsewhere and are not compared."""
    root = ElementTree.parse(find_urdf(MINI_CHEETAH)).getroot()
    assert not list(root.iter("limit"))


def test_every_link_has_the_inertia_of_a_rigid_body(body: PyBulletBody) -> None:
    """PyBullet takes 0 where a URDF's is impossible, MuJoCo refuses it."""
    for link in range(-1, pybullet.getNumJoints(body.robot, physicsClientId=body.client)):
        info = pybullet.getDynamicsInfo(body.robot, link, physicsClientId=body.client)
        small, middle, large = sorted(info[2])
        assert info[0] == 0.0 or 0.0 < large <= small + middle


def test_feet_have_the_friction_of_training(body: PyBulletBody) -> None:
    most = Randomisation().friction[1]
    index = {row[12].decode(): row[0] for row in joint_info(body)}
    for name in body.spec.foot_links:
        info = pybullet.getDynamicsInfo(body.robot, index[name], physicsClientId=body.client)
        assert info[1] == pytest.approx(foot_friction(body.spec))
        assert 0.5 <= info[1] <= most


def test_the_default_pose_and_its_surroundings_keep_the_limits(body: PyBulletBody) -> None:
    spec = body.spec
    assert (spec.joint_lower_rad + 0.1 < spec.default_pose_rad).all()
    assert (spec.default_pose_rad < spec.joint_upper_rad - 0.1).all()


def test_feet_and_leg_length_are_those_of_the_model(body: PyBulletBody) -> None:
    body.reset(0)
    at = feet(body)
    hips = links(body, body.joints[1::3])
    np.testing.assert_allclose(at[:, :2], body.spec.feet_m, atol=1e-3)
    np.testing.assert_allclose(hips[:, 2] - at[:, 2], body.spec.leg_length_m, atol=1e-3)
    np.testing.assert_allclose(hips[:, 0], at[:, 0], atol=1e-3)  # the feet are below the hips
    low = pybullet.getAABB(body.robot, body.joints[0], physicsClientId=body.client)[0]
    assert body.spec.stand_height_m > -low[2] + body.pose()[0][2]  # no hip in the ground


def test_leg_poses_mean_the_same_for_every_robot(body: PyBulletBody) -> None:
    """Positive abduction: to the left. Swing: forward, by an angle. Extension: longer."""
    body.reset(0)
    neutral = feet(body)
    length = body.spec.leg_length_m
    aside, swung, extended = (
        feet(body, pose * 4) - neutral for pose in ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))
    )
    # The foot also turns about the abduction axis where that is not right above it.
    assert (aside[:, 1] > 0.09 * length).all()
    np.testing.assert_allclose(aside[:, 0], 0.0, atol=1e-3)
    np.testing.assert_allclose(swung[:, 0], np.sin(0.1) * length, atol=1e-3)
    np.testing.assert_allclose(swung[:, 2], (1.0 - np.cos(0.1)) * length, atol=1e-3)
    assert (extended[:, 2] < -0.01).all()
    np.testing.assert_allclose(extended[:, 0], 0.0, atol=1e-3)
    outwards = np.tan(body.spec.default_pose_rad[0]) * np.sign(neutral[:, 1])  # along the leg
    np.testing.assert_allclose(extended[:, 1], -extended[:, 2] * outwards, atol=1e-3)


def test_offsets_of_a_load_are_its_torques_over_the_stiffness(body: PyBulletBody) -> None:
    """J^T F (4, 3) by finite differences of the foot's height."""
    spec = body.spec
    body.reset(0)
    at, step = feet(body), 1e-3
    lowered = np.zeros((12, 4))  # lowering of each foot by each joint [m/rad]
    for joint in range(12):
        turned = np.linalg.solve(joint_map(spec), step * np.eye(12)[joint])
        lowered[joint] = (at - feet(body, tuple(turned)))[:, 2] / step
    weight_n = spec.carried_kg * GRAVITY_M_PER_S2
    torques = load_map(spec) * spec.kp_nm_per_rad[:, None]
    np.testing.assert_allclose(torques, weight_n * lowered, atol=0.01 * weight_n)


@pytest.mark.parametrize(("spec", "sag_m"), [(GO2, 0.01), (MINI_CHEETAH, 0.008)])
def test_soft_legs_stand_at_their_height(spec: RobotSpec, sag_m: float) -> None:
    """Without the offset a Go2 would stand 1.5 cm lower, a Mini Cheetah 1 cm."""
    body, zeros = PyBulletBody(spec, FlatGround()), np.zeros(12)
    heights = []
    for targets in (spec.default_pose_rad, standing_targets(spec)):
        body.reset(0)
        command = JointCommand(0.0, targets, spec.kp_nm_per_rad, spec.kd_nms_per_rad, zeros)
        for _ in range(200):
            body.apply(command)
        heights.append(body.pose().position[2])
    body.close()
    assert heights[0] < spec.stand_height_m - sag_m
    assert heights[1] == pytest.approx(spec.stand_height_m, abs=0.005)


def test_a_level_base_has_a_level_imu(body: PyBulletBody) -> None:
    """PyBullet's inertial frame of the A1's trunk is pitched by 0.7 degrees; readings are not."""
    reading = body.reset(0)
    np.testing.assert_allclose(imu_vector(reading), 0.0, atol=1e-6)
    body.place((1.0, 2.0, 3.0), (0.0, np.sin(0.1), 0.0, np.cos(0.1)))
    assert body.pose()[0] == pytest.approx((1.0, 2.0, 3.0))
    assert imu_vector(body.read())[:2] == pytest.approx((0.0, 0.2), abs=1e-6)


def test_mass_is_the_same_in_both_simulators_and_near_the_makers(body: PyBulletBody) -> None:
    indices = range(-1, len(joint_info(body)))
    bullet = sum(
        pybullet.getDynamicsInfo(body.robot, i, physicsClientId=body.client)[0] for i in indices
    )
    mujoco = MuJoCoBody(body.spec, FlatGround()).model.body_mass.sum()
    assert bullet == pytest.approx(mujoco)
    assert bullet == pytest.approx(MASS_KG[body.spec.name], rel=0.08)


def test_an_unknown_robot_is_named() -> None:
    with pytest.raises(UserError, match="unknown robot 'spot', choose from a1, mini_cheetah"):
        find_robot("spot")
