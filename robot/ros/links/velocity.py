"""Driver of a robot that walks by a gait of its own: odom in, cmd_vel out."""

from __future__ import annotations

import math
import time
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
STOP_AGAIN_S, STOPS_S = 0.5, 2.0  # between calls of the stop; until it must answer; assumptions
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


class StopService:
    """The robot's own emergency stop, a Trigger: it is called until it has answered."""

    def __init__(self, node: Any, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._node, self._now_s = node, now_s
        self._client = node.create_client(Trigger, name)
        self.end()

    def require(self) -> None:
        """Wait until it is there.

        Raises:
            UserError: it is not.
        """
        if not self._client.wait_for_service(STOP_WAIT_S):
            raise UserError(f"{STOP_SERVICE}: there is no service {self._client.srv_name}")

    def end(self) -> None:
        """The emergency stop is over, or there was none."""
        self._calls: list[Any] = []  # futures
        self._first_s = self._last_s = -math.inf
        self._stopped = False

    def call(self) -> None:
        """Call it, again until it has answered; in every step of an emergency stop.

        Raises:
            UserError: it has not stopped the robot, or does not answer.
        """
        now_s, name = self._now_s(), self._client.srv_name
        for answer in (each.result() for each in self._calls if each.done()):
            if not answer.success:
                why = answer.message
                raise UserError(f"{STOP_SERVICE}: {name} has not stopped the robot: {why}")
            self._stopped = True
        if self._stopped:
            return
        if not self._calls:
            self._first_s = now_s
        elif now_s - self._first_s > STOPS_S:
            raise UserError(f"{STOP_SERVICE}: {name} does not answer for {STOPS_S:.0f} s")
        if now_s - self._last_s >= STOP_AGAIN_S:
            self._calls.append(self._client.call_async(Trigger.Request()))
            self._last_s = now_s

    def close(self) -> None:
        """Destroy the client."""
        self._node.destroy_client(self._client)


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
        self._stop = StopService(node, stop) if stop else None

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
        if self._stop is not None:
            self._stop.require()
        if self._topic is None:
            self._topic = VelocityTopic(self._node, self._stamped, self.commands)

    def take_motors(self, stop: Event) -> None:
        """Nothing: the motors stay with the robot's own program."""

    def send(self, command: JointCommand) -> None:
        """Publish the velocity, and call the robot's own stop.

        Raises:
            UserError: that has not stopped the robot, see `StopService`; zero was published.
        """
        assert self._topic is not None
        assert isinstance(command, VelocityCommand)
        self._topic.send(command)
        if self._stop is not None:
            (self._stop.call if command.posture is Posture.STOP else self._stop.end)()

    def settle(self) -> None:
        """Nothing: the last velocities were zero."""

    def close(self) -> None:
        """Destroy publisher and client."""
        if self._topic is not None:
            self._topic.close()
        if self._stop is not None:
            self._stop.close()


def _pose(message: Any) -> Array:
    position, q = message.pose.pose.position, message.pose.pose.orientation
    return np.array((position.x, position.y, heading((q.x, q.y, q.z, q.w))))
