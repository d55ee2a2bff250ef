"""Driver of a robot that walks by a gait of its own: odom in, cmd_vel out."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from types import MappingProxyType
from typing import Any

import numpy as np
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from std_srvs.srv import Trigger

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import (
    NO_JOINTS,
    Image,
    JointCommand,
    Posture,
    Reading,
    VelocityCommand,
)
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.ros.common.topic_names import ODOMETRY, STOP_SERVICE, VELOCITY
from pixelgait.robot.ros.links.topic_driver import TopicSensors
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import Array, RobotSpec

BASE = "base_link"  # REP 105
STOP_WAIT_S = 5.0  # discovery on loopback took up to 2.6 s
FAREWELL = 50  # zero velocities, half a second, after the last command to stand or to walk


class VelocityTopic:
    """Publishes the velocity of commands as Twist or TwistStamped: cmd_vel, or a dry run's topic.

    Nothing is published before the robot is to stand, and little after it was.
    """

    def __init__(self, node: Any, stamped: bool, topic: str) -> None:
        self._node, self._stamped, self._left = node, stamped, 0
        kind = TwistStamped if stamped else Twist
        self._publisher = node.create_publisher(kind, topic, ros2.COMMAND_QOS)

    def send(self, command: JointCommand) -> None:
        """Publish the velocity, stamped with the present time."""
        assert isinstance(command, VelocityCommand)
        up = command.posture in (Posture.UP, Posture.STOP)
        self._left = FAREWELL if up else self._left - 1
        if self._left <= 0:
            return
        twist = Twist()
        twist.linear.x, twist.linear.y, twist.angular.z = command.velocity.tolist()
        if not self._stamped:
            self._publisher.publish(twist)
            return
        message = TwistStamped(twist=twist)
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = BASE
        self._publisher.publish(message)

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)


class VelocityDriver(TopicSensors):
    """The `Driver` of odom and cmd_vel; where it has moved counts as its only joints' angles.

    At an emergency stop it calls the service `stop`, the robot's own, unless that is empty.
    """

    types = MappingProxyType({ODOMETRY: Odometry})
    commands = VELOCITY

    def __init__(
        self, node: Any, sensor_node: Any, spec: RobotSpec, stamped: bool, stop: str
    ) -> None:
        super().__init__(sensor_node, spec)
        self._node, self._stamped = node, stamped
        self._topic: VelocityTopic | None = None
        self._stop = node.create_client(Trigger, stop) if stop else None
        self._posture = Posture.IDLE  # of the last command

    def mount_imu(self, transforms: StaticTransforms) -> None:
        """Nothing: odometry describes the base."""

    def angles(self) -> Array:
        """x, y [m] and heading [rad] (3,), which tell whether it moves; empty if unknown."""
        message = self._messages.newest.get(ODOMETRY)
        return np.zeros(0) if message is None else _pose(message)

    def read(self, image: Callable[[], Image], odometry: Array | None) -> Reading:
        """The newest odometry, and that of a goal where it is watched more closely."""
        message = self._messages.newest[ODOMETRY]
        q, w = message.pose.pose.orientation, message.twist.twist.angular
        return Reading(
            ros2.seconds(message.header.stamp),
            NO_JOINTS,
            NO_JOINTS,
            np.array((q.x, q.y, q.z, q.w)),
            np.array((w.x, w.y, w.z)),
            image,
            _pose(message) if odometry is None else odometry,
        )

    def acquire(self, stop: Event) -> None:
        """Create the publisher; `OtherNodes` finds other publishers of velocities.

        Raises:
            UserError: the robot's own emergency stop is not there.
        """
        if self._stop is not None and not self._stop.wait_for_service(STOP_WAIT_S):
            raise UserError(f"{STOP_SERVICE}: there is no service {self._stop.srv_name}")
        if self._topic is None:
            self._topic = VelocityTopic(self._node, self._stamped, self.commands)

    def take_motors(self, stop: Event) -> None:
        """Nothing: the motors stay with the robot's own program."""

    def send(self, command: JointCommand) -> None:
        assert self._topic is not None
        assert isinstance(command, VelocityCommand)
        self._topic.send(command)
        before, self._posture = self._posture, command.posture
        if self._stop is not None and before is not self._posture is Posture.STOP:
            self._stop.call_async(Trigger.Request())

    def settle(self) -> None:
        """Nothing: the last velocities were zero."""

    def close(self) -> None:
        """Destroy publisher and client."""
        if self._topic is not None:
            self._topic.close()
        if self._stop is not None:
            self._node.destroy_client(self._stop)


def _pose(message: Any) -> Array:
    position, q = message.pose.pose.position, message.pose.pose.orientation
    return np.array((position.x, position.y, heading((q.x, q.y, q.z, q.w))))
