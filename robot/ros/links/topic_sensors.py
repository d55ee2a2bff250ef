"""A robot's joint states and IMU on ROS 2 topics, half of a driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.newest_messages import Inbox
from pixelgait.robot.spec import Array, RobotSpec

ORIENTATION_MISSING = -1.0


class TopicSensors:
    """The half of a `Driver` that hears: joint_states by the joints' names, and imu/data."""

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self.spec = spec
        types = {ros2.JOINT_STATES: ros2.JointState, ros2.IMU: ros2.Imu}
        self._inbox = Inbox(node, types)
        self.sensors, self.received = self._inbox.topics, self._inbox.received
        self.forget, self.ages = self._inbox.forget, self._inbox.ages
        self.warnings, self.stamps = self._inbox.warnings, self._inbox.stamps
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))

    def health(self) -> dict[str, str]:
        """Joint states tell nothing of it."""
        return {}

    def motor_warning(self) -> None:
        """Nor is there anything to warn of."""

    def pace(self) -> dict[str, float]:
        """Every command goes out once."""
        return {}

    def conflicting_publisher(self, commanding: bool) -> str | None:
        """Whoever publishes on the topics is found by `Neighbours`."""
        return None

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        for _ in self._inbox.take():
            pass

    def angles(self) -> Array:
        """Of the robot's joints (12,) [rad]; none while `joints` has not matched their names."""
        message = self._inbox.newest.get(ros2.JOINT_STATES)
        if message is None or message.name != self._names:
            return np.zeros(0)
        positions = np.asarray(message.position)
        return positions[self._order] if len(positions) == len(message.name) else np.zeros(0)

    def joints(self) -> tuple[Array, Array]:
        """Angles and velocities (12,) [rad, rad/s] in the robot's order, as taken last.

        Raises:
            UserError: a joint or a value is missing.
        """
        message = self._inbox.newest[ros2.JOINT_STATES]
        if message.name != self._names:
            self._order = ros2.joint_order(message.name, self.spec.joint_names)
            self._names = message.name
        if not len(message.name) == len(message.position) == len(message.velocity):
            raise UserError("joint states need one position and one velocity for every name")
        angles, velocities = np.asarray(message.position), np.asarray(message.velocity)
        return angles[self._order], velocities[self._order]

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        """The joint states and IMU values taken last.

        Raises:
            UserError: the joint states lack a joint or a value of the robot, or the IMU has no
                orientation.
        """
        joints, imu = self.joints(), self._inbox.newest[ros2.IMU]
        if imu.orientation_covariance[0] == ORIENTATION_MISSING:
            raise UserError("imu/data has no orientation (covariance[0] is -1, REP 145)")
        q, w = imu.orientation, imu.angular_velocity
        return Reading(
            ros2.seconds(self._inbox.newest[ros2.JOINT_STATES].header.stamp),
            *joints,
            np.array((q.x, q.y, q.z, q.w)),
            np.array((w.x, w.y, w.z)),
            image,
            odometry,
        )
