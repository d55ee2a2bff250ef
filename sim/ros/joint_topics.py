"""A stand-in's joints and IMU on ROS 2 topics."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from pixelgait.robot.interface import DRIVER_TIMEOUT_S, JointCommand, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.ros.motor_commands import damped, stiff

TOLD_EVERY_S = 10.0  # of commands that were dropped


class SensorTopics:
    """Publishes joint_states, the joints in any order, and imu/data."""

    def __init__(self, node: Any, names: Sequence[str], order: Sequence[int]) -> None:
        self._names, self._order = [names[i] for i in order], list(order)
        self._joints = node.create_publisher(ros2.JointState, ros2.JOINT_STATES, ros2.SENSOR_QOS)
        self._imu = node.create_publisher(ros2.Imu, ros2.IMU, ros2.SENSOR_QOS)

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """After every physics step."""
        if "joints" not in lost:
            message = ros2.JointState()
            message.header.stamp = ros2.stamp(now_ns)
            message.name = self._names
            message.position = reading.joint_angles[self._order].tolist()
            message.velocity = reading.joint_velocities[self._order].tolist()
            self._joints.publish(message)
        if "imu" not in lost:
            self._imu.publish(
                ros2.imu_message(now_ns, "imu_link", reading.orientation, reading.angular_velocity)
            )


class TopicWire:
    """Publishes joint_states and imu/data, takes joint_command.

    Its motors are stiff where a command gives a position, and damp where it gives none, where it
    answers an old reading, or none comes. What is no command for them is dropped, and told.
    """

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self._node, self._spec = node, spec
        names = spec.joint_names
        self.publish = SensorTopics(node, names, range(len(names))).publish
        node.create_subscription(ros2.JointState, ros2.JOINT_COMMAND, self._keep, ros2.COMMAND_QOS)
        self._newest: tuple[float, Any] | None = None

    def command(self) -> JointCommand | None:
        """What the motors do about the newest command."""
        if self._newest is None:
            return None
        spec = self._spec
        received, message = self._newest
        age = (
            self._node.get_clock().now().nanoseconds - ros2.nanoseconds(message.header.stamp)
        ) / 1e9
        old = max(age, time.monotonic() - received) > DRIVER_TIMEOUT_S  # sent late, or delayed
        if not message.position or old:
            return damped(spec)
        order = ros2.joint_order(list(message.name), spec.joint_names)
        effort = np.asarray(message.effort)[order] if message.effort else None
        return stiff(spec, np.asarray(message.position)[order], effort)

    def close(self) -> None:
        """The node leaves its topics itself."""

    def _keep(self, message: Any) -> None:
        if problem := unusable(message, self._spec.joint_names):
            tell_dropped(self._node, problem)
        else:
            self._newest = (time.monotonic(), message)


def tell_dropped(node: Any, problem: str) -> None:
    """One line about a command that the robot does not obey, and then none for a while."""
    told = f"a command was dropped: {problem}"
    node.get_logger().error(told, throttle_duration_sec=TOLD_EVERY_S)


def unusable(message: Any, wanted: Sequence[str]) -> str | None:
    """Why a JointState commands no robot with these joints, or None."""
    lengths = {len(message.name), len(message.position), len(message.effort)}
    if not lengths <= {0, len(message.name)}:
        return "it needs one position, one effort or none for every name"
    if message.position and (missing := [name for name in wanted if name not in message.name]):
        return f"it lacks {', '.join(missing)}"
    if twice := ros2.duplicates(message.name, wanted):
        return f"it names {', '.join(twice)} twice"
    if not np.isfinite((*message.position, *message.effort)).all():
        return "a value is not finite"
    return None
