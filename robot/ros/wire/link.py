"""ROS 2 topics as the `Link` of a control loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.camera import RosCamera, camera_topics
from pixelgait.robot.runtime.freshness import Freshness, PictureWatch
from pixelgait.robot.spec import Array, RobotSpec

TYPES = {
    ros.JOINT_STATES: ros.JointState,
    ros.IMU: ros.Imu,
    ros.COLOUR: ros.Image,
    ros.DEPTH: ros.Image,
}
# Topic: what a contract calls the sensor.
SENSORS = {ros.JOINT_STATES: "joints", ros.IMU: "imu", ros.COLOUR: "camera", ros.DEPTH: "camera"}
PAIR = f"{ros.COLOUR} paired with {ros.DEPTH}"  # has an age like a topic of its own
ORIENTATION_MISSING = -1.0


class RosLink:
    """Takes the newest messages and publishes commands, all in the control thread; a `Link`.

    The sensors' subscriptions belong to a node that no executor spins: the middleware keeps the
    newest message of each until the control thread takes it. An executor would wake up for every
    one of a thousand messages a second and hold the interpreter's lock just when the control step
    wants it back (0.2 to 0.5 ms for a 0.05 ms low level were measured).

    Without an `image_shape` there is no camera. A dry run commands nobody: its commands go to a
    topic of their own. `also_take` is called with every take.
    """

    def __init__(
        self,
        node: Any,
        spec: RobotSpec,
        image_shape: tuple[int, int, int] | None,
        dry_run: bool = False,
        also_take: Callable[[], None] = lambda: None,
    ) -> None:
        self.odometry: Callable[[], Array | None] = lambda: None  # (3,), see `Reading`
        self.node, self.spec, self._also_take = node, spec, also_take
        self.camera = None if image_shape is None else RosCamera(image_shape)
        self._eyes = () if image_shape is None else camera_topics(image_shape)
        self.sensors = (ros.JOINT_STATES, ros.IMU, *self._eyes)
        watched = (*self.sensors, PAIR) if len(self._eyes) > 1 else self.sensors
        self._freshness = {name: Freshness(name) for name in watched}
        self._pictures = {topic: PictureWatch() for topic in self._eyes}
        self.received = dict.fromkeys(self.sensors, 0)  # messages taken
        self._newest: dict[str, Any] = {}
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))
        self.sensor_node = ros.quiet_node(node, f"{node.get_name()}_sensors")
        self._subscriptions = {
            topic: self.sensor_node.create_subscription(TYPES[topic], topic, _never, ros.NEWEST_QOS)
            for topic in self.sensors
        }
        command = ros.SHADOW_COMMAND if dry_run else ros.JOINT_COMMAND
        self._publisher = node.create_publisher(ros.JointState, command, ros.COMMAND_QOS)

    def close(self) -> None:
        """Leave the topics."""
        self.sensor_node.destroy_node()
        self.node.destroy_publisher(self._publisher)

    def take(self) -> None:
        """Fetch what has arrived.

        Raises:
            UserError: a message has no stamp.
        """
        self._also_take()
        for topic, subscription in self._subscriptions.items():
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, False)
            if taken is not None:
                self._keep(topic, taken[0])

    def _keep(self, topic: str, message: Any) -> None:
        self._newest[topic] = message
        self.received[topic] += 1
        now_s, monotonic_s = self.now_s(), time.monotonic()
        stamp_s, odd = ros.seconds(message.header.stamp), self._odd(topic, message)
        news = self._freshness[topic].arrived(stamp_s, now_s, monotonic_s, odd)
        if news and self.camera is not None and topic in self._eyes:
            paired = self.camera.put(topic, message)
            if paired and PAIR in self._freshness:  # its parts' own stamps are judged above
                self._freshness[PAIR].arrived(now_s, now_s, monotonic_s)

    def _odd(self, topic: str, message: Any) -> str | None:
        """What is odd about what a message shows, if it is a picture."""
        if topic not in self._eyes or ros.JOINT_STATES not in self._newest:
            return None
        joints = np.asarray(self._newest[ros.JOINT_STATES].position)
        return self._pictures[topic].frozen(message.data, joints)

    def forget(self) -> None:
        self.take()
        for freshness in self._freshness.values():
            freshness.forget()
        if self.camera is not None:
            self.camera.forget()

    def read(self) -> Reading:
        """The joint states and IMU values taken last.

        Raises:
            UserError: the joint states lack a joint or a value of the robot, or the IMU has no
                orientation.
        """
        joints, imu = self._newest[ros.JOINT_STATES], self._newest[ros.IMU]
        if joints.name != self._names:
            self._order = ros.joint_order(joints.name, self.spec.joint_names)
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
            _blind if self.camera is None else self.camera.image,
            self.odometry(),
        )

    def ages(self) -> dict[str, float]:
        now = time.monotonic()
        return {name: freshness.age_s(now) for name, freshness in self._freshness.items()}

    def doubts(self) -> dict[str, str]:
        return {name: each.doubt for name, each in self._freshness.items() if each.doubt}

    def stamps(self) -> dict[str, float]:
        return {topic: ros.seconds(self._newest[topic].header.stamp) for topic in self.sensors}

    def send(self, command: JointCommand) -> None:
        """Publish the command, stamped with the time of the reading it answers."""
        stiff = bool(command.kp.any())
        self._publisher.publish(
            ros.joint_command(
                round(command.time_s * 1e9),
                self.spec.joint_names,
                command.targets if stiff else None,
                command.feed_forward,
            )
        )

    def now_s(self) -> float:
        return float(self.node.get_clock().now().nanoseconds) / 1e9


def _blind() -> Image:
    raise UserError("this robot has no camera")


def _never(message: object) -> None:
    """The callback of subscriptions that are taken from by hand."""
