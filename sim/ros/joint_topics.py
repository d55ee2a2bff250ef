"""Joints, IMU and motors of a simulated robot on ROS 2 topics."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from pixelgait.robot.interface import DRIVER_TIMEOUT_S, JointCommand, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.ros.motor_commands import damped, stiff

LOG_PERIOD_S = 10.0  # of dropped commands


class SensorTopics:
    """Publishes joint_states, in a given order of joints, and imu/data."""

    def __init__(self, node: Any, names: Sequence[str], order: Sequence[int]) -> None:
        self._names, self._order = [names[i] for i in order], list(order)
        self._joints = node.create_publisher(ros2.JointState, ros2.JOINT_STATES, ros2.SENSOR_QOS)
        self._imu = node.create_publisher(ros2.Imu, ros2.IMU, ros2.SENSOR_QOS)

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """Publish after a physics step."""
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

    The motors are stiff if the command has positions. They damp if it has none, answers an old
    reading, or is missing. An invalid command is dropped and logged.
    """

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self._node, self._spec = node, spec
        names = spec.joint_names
        self.publish = SensorTopics(node, names, range(len(names))).publish
        node.create_subscription(ros2.JointState, ros2.JOINT_COMMAND, self._keep, ros2.COMMAND_QOS)
        self._newest: tuple[float, Any] | None = None

    def command(self) -> JointCommand | None:
        """The motors' command for the newest message; None before the first."""
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
        """Nothing: the node destroys its own topics."""

    def _keep(self, message: Any) -> None:
        if problem := unusable(message, self._spec.joint_names):
            log_dropped(self._node, problem)
        else:
            self._newest = (time.monotonic(), message)


def log_dropped(node: Any, problem: str) -> None:
    """Log that a command was dropped, at most every `LOG_PERIOD_S`."""
    line = f"a command was dropped: {problem}"
    node.get_logger().error(line, throttle_duration_sec=LOG_PERIOD_S)


def unusable(message: Any, wanted: Sequence[str]) -> str | None:
    """Why a JointState is no valid command for these joints, or None."""
    lengths = {len(message.name), len(message.position), len(message.effort)}
    if not lengths <= {0, len(message.name)}:
        return "it needs one position, one effort or none for every name"
    if message.position and (missing := [name for name in wanted if name not in message.name]):
        return f"it lacks {', '.join(missing)}"
    if repeated := ros2.duplicates(message.name, wanted):
        return f"it names {', '.join(repeated)} twice"
    if not np.isfinite((*message.position, *message.effort)).all():
        return "a value is not finite"
    return None
