"""A robot behind ROS 2 topics, as a `Body`."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.ros import common as ros
from pixelgait.robot.ros.camera import RosCamera, camera_topics
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.realtime import RateKeeper
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.supervisor import SILENCE_S

TYPES = {
    ros.JOINT_STATES: ros.JointState,
    ros.IMU: ros.Imu,
    ros.COLOUR: ros.Image,
    ros.DEPTH: ros.Image,
}
TIMEOUT_S = {
    ros.JOINT_STATES: SILENCE_S["joints"],
    ros.IMU: SILENCE_S["imu"],
    ros.COLOUR: SILENCE_S["camera"],
    ros.DEPTH: SILENCE_S["camera"],
}
PAIR = f"{ros.COLOUR} paired with {ros.DEPTH}"  # watched like a topic of its own
ORIENTATION_MISSING = -1.0


def sensor_topics(image_shape: tuple[int, int, int]) -> tuple[str, ...]:
    """What is subscribed for a policy with images of this shape (H, W, C)."""
    return (ros.JOINT_STATES, ros.IMU, *camera_topics(image_shape))


class RosBody:
    """Takes the newest messages and publishes commands, all in the control thread.

    The sensors' subscriptions belong to a node that no executor spins: the middleware keeps the
    newest message of each until the control thread takes it. An executor would wake up for every
    one of a thousand messages a second and hold the interpreter's lock just when the control step
    wants it back (0.2 to 0.5 ms for a 0.05 ms low level were measured).
    """

    def __init__(
        self,
        node: Any,
        spec: RobotSpec,
        image_shape: tuple[int, int, int],
        period_s: float,
        profiler: LatencyProfiler,
        timeout_s: dict[str, float] = TIMEOUT_S,
    ) -> None:
        self.node = node
        self.spec = spec
        self.camera = RosCamera(image_shape)
        self.profiler = profiler
        self.topics = sensor_topics(image_shape)
        self.timeout_s = {topic: timeout_s[topic] for topic in self.topics}
        if len(self.camera.topics) > 1:
            self.timeout_s[PAIR] = timeout_s[ros.DEPTH]
        self.rate = RateKeeper(period_s)
        self._arrived: dict[str, float] = {}  # monotonic [s]
        self._newest: dict[str, Any] = {}
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))
        self._sensors = ros.quiet_node(node, f"{node.get_name()}_sensors")
        self._subscriptions = {
            topic: self._sensors.create_subscription(TYPES[topic], topic, _never, ros.NEWEST_QOS)
            for topic in self.topics
        }
        self._publisher = node.create_publisher(ros.JointState, ros.JOINT_COMMAND, ros.COMMAND_QOS)

    def close(self) -> None:
        """Leave the topics."""
        self._sensors.destroy_node()
        self.node.destroy_publisher(self._publisher)

    def forget(self) -> None:
        """Treat what has arrived so far as never sent: it may have waited for long."""
        self.take()
        self._arrived.clear()
        self.camera.forget()

    def take(self) -> None:
        """Fetch what has arrived since the last call."""
        now = time.monotonic()
        for topic, subscription in self._subscriptions.items():
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, False)
            if taken is not None:
                self._newest[topic], self._arrived[topic] = taken[0], now
                if topic in self.camera.topics and self.camera.put(topic, taken[0]):
                    self._arrived[PAIR] = now

    def silent(self) -> dict[str, float]:
        """Topics (and `PAIR`) silent for longer than `timeout_s` allows, and for how long [s].

        By arrival, on the monotonic clock: a sensor with a wrong clock, or a step of this
        computer's, must neither hide a dead sensor nor fake one.
        """
        now = time.monotonic()
        ages = {topic: now - self._arrived.get(topic, -math.inf) for topic in self.timeout_s}
        return {topic: age for topic, age in ages.items() if age > self.timeout_s[topic]}

    def check_image(self) -> None:
        """Convert one image, so that a wrong camera is found out before the robot stands up."""
        self.camera.image()

    def reset(self, seed: int = 0) -> Reading:
        """A real robot cannot be reset; this only starts the clock."""
        self.rate.restart()
        return self.read()

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
        now = self._now()
        for topic in self.topics:
            age = now - ros.nanoseconds(self._newest[topic].header.stamp)
            self.profiler.sensor_age[topic].record(age)
        q, w = imu.orientation, imu.angular_velocity
        return Reading(
            ros.nanoseconds(joints.header.stamp) / 1e9,
            np.asarray(joints.position)[self._order],
            np.asarray(joints.velocity)[self._order],
            np.array((q.x, q.y, q.z, q.w)),
            np.array((w.x, w.y, w.z)),
            self.camera.image,
        )

    def apply(self, command: JointCommand) -> None:
        """Publish the command, then sleep until the next control step is due."""
        self.send(command)
        self.profiler.lap("publish")
        age = self._now() - round(command.time_s * 1e9)
        self.profiler.stages["sensor_to_command"].record(age)
        if not self.rate.wait():
            self.profiler.missed_deadline()

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
        """Time of the node's clock, which stamps are compared with [s]."""
        return self._now() / 1e9

    def _now(self) -> int:
        return int(self.node.get_clock().now().nanoseconds)


def _never(message: object) -> None:
    """The callback of subscriptions that are taken from by hand."""
