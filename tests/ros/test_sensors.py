"""Joint states and IMU as they come in on topics, and what a reading makes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image
from pixelgait.robot.spec import A1
from tests.ros.test_goals import Wire

NOW_NS = 1_700_000_000_000_000_000
IMAGE = Image(np.zeros((32, 32, 3), np.uint8), 0.0)


class Robot:
    """A robot's node and its topics: an arm's joint among its own, in an order of theirs."""

    def __init__(self) -> None:
        from pixelgait.robot.ros.common import ros2
        from pixelgait.robot.ros.links.topic_driver import TopicSensors

        self.wires: dict[str, Wire] = {}
        self.sensors = TopicSensors(self, A1)
        order = np.random.default_rng(0).permutation(13).tolist()
        self.joints, self.imu = ros2.JointState(), ros2.Imu()
        self.joints.name = [(*A1.joint_names, "elbow")[i] for i in order]
        self.joints.position = [0.01 * i for i in order]
        self.joints.velocity = [1.0 + 0.1 * i for i in order]
        self.joints.effort = [99.0] * 13
        self.joints.header.stamp = ros2.stamp(NOW_NS - 2_000_000)
        self.imu.header.stamp = ros2.stamp(NOW_NS - 1_000_000)
        q, w, a = self.imu.orientation, self.imu.angular_velocity, self.imu.linear_acceleration
        q.x, q.y, q.z, q.w = 0.1, 0.3, 0.5, 0.806
        w.x, w.y, w.z = 1.1, 1.2, 1.3
        a.x, a.y, a.z = 9.1, 9.2, 9.3

    # The part of a node that `TopicSensors` uses.
    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=NOW_NS))

    def create_subscription(self, kind: type, topic: str, *_: object, **__: object) -> Wire:
        return self.wires.setdefault(topic, Wire())

    def send(self) -> None:
        self.wires["joint_states"].waiting.append(self.joints)
        self.wires["imu/data"].waiting.append(self.imu)
        self.sensors.take()


def test_a_reading_has_every_joint_and_axis_in_its_place() -> None:
    robot, odometry = Robot(), np.array((1.0, 2.0, 3.0))
    robot.send()
    reading = robot.sensors.read(lambda: IMAGE, odometry)
    assert reading.time_s == pytest.approx(NOW_NS / 1e9 - 0.002, abs=1e-6)  # the joints' stamp
    np.testing.assert_allclose(reading.joint_angles, 0.01 * np.arange(12))
    np.testing.assert_allclose(reading.joint_velocities, 1.0 + 0.1 * np.arange(12))
    assert reading.orientation.tolist() == [0.1, 0.3, 0.5, 0.806]
    assert reading.angular_velocity.tolist() == [1.1, 1.2, 1.3]
    assert reading.specific_force is not None
    assert reading.specific_force.tolist() == [9.1, 9.2, 9.3]
    assert reading.image() is IMAGE
    assert reading.odometry is odometry
    np.testing.assert_array_equal(robot.sensors.angles(), reading.joint_angles)


def test_a_changed_order_of_joint_names_is_followed() -> None:
    robot = Robot()
    for _ in range(2):
        robot.send()
        reading = robot.sensors.read(lambda: IMAGE, None)
        np.testing.assert_allclose(reading.joint_angles, 0.01 * np.arange(12))
        np.testing.assert_allclose(reading.joint_velocities, 1.0 + 0.1 * np.arange(12))
        joints = type(robot.joints)(header=robot.joints.header)
        joints.name = robot.joints.name[::-1]
        joints.position, joints.velocity = robot.joints.position[::-1], robot.joints.velocity[::-1]
        robot.joints = joints


def test_an_imu_without_an_orientation_is_refused() -> None:
    """As REP 145 marks it; a covariance that is known is none of that."""
    robot = Robot()
    robot.imu.orientation_covariance = np.full(9, 0.01)
    robot.send()
    robot.sensors.read(lambda: IMAGE, None)
    robot.imu.orientation_covariance[0] = -1.0
    robot.send()
    with pytest.raises(UserError, match=r"^imu/data has no orientation \(covariance\[0\] is -1"):
        robot.sensors.read(lambda: IMAGE, None)
