"""The A1's specification against the model it is loaded from."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.observation import imu_vector
from pixelgait.robot.spec import A1
from pixelgait.sim.bullet import pybullet
from pixelgait.sim.pybullet_body import PyBulletBody, load_robot
from pixelgait.sim.scenes import FlatGround


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


def test_feet_and_leg_length_are_those_of_the_model() -> None:
    body = PyBulletBody(A1, FlatGround())
    body.reset(0)
    base, _ = body.pose()
    for i, knee in enumerate(body.joints[2::3]):
        toe = pybullet.getLinkState(
            body.robot, knee + 1, computeForwardKinematics=True, physicsClientId=body.client
        )
        foot = np.array(toe[4]) - base
        np.testing.assert_allclose(foot[:2], A1.feet_m[i], atol=1e-3)
        assert -foot[2] == pytest.approx(A1.leg_length_m, abs=1e-3)
    body.close()


def test_a_level_base_reads_level() -> None:
    """PyBullet's own frame of the trunk is pitched by 0.7 degrees; readings must not be."""
    body = PyBulletBody(A1, FlatGround())
    reading = body.reset(0)
    np.testing.assert_allclose(imu_vector(reading), 0.0, atol=1e-6)
    body.place((1.0, 2.0, 3.0), (0.0, np.sin(0.1), 0.0, np.cos(0.1)))
    assert body.pose()[0] == pytest.approx((1.0, 2.0, 3.0))
    assert imu_vector(body.read())[:2] == pytest.approx((0.0, 0.2), abs=1e-6)
    body.close()


def test_mass_is_that_of_the_paper(model: tuple[int, int, list[int]]) -> None:
    client, robot, _ = model
    links = range(-1, pybullet.getNumJoints(robot, physicsClientId=client))
    mass = sum(pybullet.getDynamicsInfo(robot, i, physicsClientId=client)[0] for i in links)
    assert mass == pytest.approx(12.0, abs=0.5)  # IAP paper, A.2: A1, 12 kg
