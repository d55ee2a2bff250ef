"""The A1's specification against the model it is loaded from."""

from __future__ import annotations

import numpy as np
import pybullet_data
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.bullet import pybullet
from pixelgait.sim.pybullet_body import load_robot


@pytest.fixture(scope="module")
def model():  # noqa: ANN201
    client = pybullet.connect(pybullet.DIRECT)
    robot, joints = load_robot(A1, client)
    yield client, robot, joints
    pybullet.disconnect(client)


def test_limits_are_those_of_the_urdf(model: tuple[int, int, list[int]]) -> None:
    client, robot, joints = model
    info = [pybullet.getJointInfo(robot, j, physicsClientId=client) for j in joints]
    assert tuple(row[1].decode() for row in info) == A1.joint_names
    np.testing.assert_allclose(A1.joint_lower_rad, [row[8] for row in info])
    np.testing.assert_allclose(A1.joint_upper_rad, [row[9] for row in info])
    np.testing.assert_allclose(A1.torque_limit_nm, [row[10] for row in info])


def test_feet_and_leg_length_are_those_of_the_model(model: tuple[int, int, list[int]]) -> None:
    client, robot, joints = model
    for joint, angle in zip(joints, A1.default_pose_rad, strict=True):
        pybullet.resetJointState(robot, joint, angle, physicsClientId=client)
    base, _ = pybullet.getBasePositionAndOrientation(robot, physicsClientId=client)
    offset = pybullet.getDynamicsInfo(robot, -1, physicsClientId=client)[3]
    for i, knee in enumerate(joints[2::3]):
        toe = pybullet.getLinkState(
            robot, knee + 1, computeForwardKinematics=True, physicsClientId=client
        )
        foot = np.array(toe[4]) - base + offset
        np.testing.assert_allclose(foot[:2], A1.feet_m[i], atol=2e-3)
        assert -foot[2] == pytest.approx(A1.leg_length_m, abs=2e-3)


def test_mass_is_that_of_the_datasheet(model: tuple[int, int, list[int]]) -> None:
    client, robot, _ = model
    links = range(-1, pybullet.getNumJoints(robot, physicsClientId=client))
    mass = sum(pybullet.getDynamicsInfo(robot, i, physicsClientId=client)[0] for i in links)
    assert mass == pytest.approx(12.0, abs=0.5)  # IAP paper, A.2: A1, 12 kg
    assert pybullet_data.getDataPath()
