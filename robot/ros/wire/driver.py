"""A robot's driver on ROS 2 topics: joint states and IMU in, joint commands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.inbox import Inbox
from pixelgait.robot.spec import Array, RobotSpec

ORIENTATION_MISSING = -1.0


class TopicDriver:
    """The `Driver` behind joint_states, imu/data and joint_command.

    A dry run commands nobody: its commands go to a topic of their own.
    """

    def __init__(self, node: Any, sensor_node: Any, spec: RobotSpec, dry_run: bool = False) -> None:
        self._node, self._spec = node, spec
        types = {ros.JOINT_STATES: ros.JointState, ros.IMU: ros.Imu}
        self._inbox = Inbox(sensor_node, types)
        self.sensors, self.received = self._inbox.topics, self._inbox.received
        self.forget, self.ages = self._inbox.forget, self._inbox.ages
        self.doubts, self.stamps = self._inbox.doubts, self._inbox.stamps
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))
        command = ros.SHADOW_COMMAND if dry_run else ros.JOINT_COMMAND
        self._publisher = node.create_publisher(ros.JointState, command, ros.COMMAND_QOS)

    def acquire(self) -> None:
        """Whoever publishes on the topics is found by `Neighbours`."""

    def intruder(self) -> None:
        """See `acquire`."""

    def health(self) -> dict[str, str]:
        """Joint states tell nothing of it."""
        return {}

    def close(self) -> None:
        """Leave the topics."""
        self._node.destroy_publisher(self._publisher)

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        for _ in self._inbox.take():
            pass

    def angles(self) -> Array:
        """Of the joints [rad], as they came; none before the first message."""
        message = self._inbox.newest.get(ros.JOINT_STATES)
        return np.zeros(0) if message is None else np.asarray(message.position)

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        """The joint states and IMU values taken last.

        Raises:
            UserError: the joint states lack a joint or a value of the robot, or the IMU has no
                orientation.
        """
        joints, imu = self._inbox.newest[ros.JOINT_STATES], self._inbox.newest[ros.IMU]
        if joints.name != self._names:
            self._order = ros.joint_order(joints.name, self._spec.joint_names)
            self._names = joints.name
        if not len(joints.name) == len(joints.position) == len(joints.velocity):
            raise UserError("joint states need one position and one velocity for every name")
        if imu.orientation_covariance[0] == ORIENTATION_MISSING:
            raise UserError("imu/data has no orientation (covariance[0] is -1, REP 145)")
        q, w = imu.orientation, imu.angular_velocity
        return Reading(
            ros.seconds(joints.header.stamp),
            np.asarray(joints.position)[self._order],
            np.asarray(joints.velocity)[self._order],
            np.array((q.x, q.y, q.z, q.w)),
            np.array((w.x, w.y, w.z)),
            image,
            odometry,
        )

    def send(self, command: JointCommand) -> None:
        """Publish the command, stamped with the time of the reading it answers."""
        stiff = bool(command.kp.any())
        self._publisher.publish(
            ros.joint_command(
                round(command.time_s * 1e9),
                self._spec.joint_names,
                command.targets if stiff else None,
                command.feed_forward,
            )
        )
