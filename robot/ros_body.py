"""A robot behind ROS 2 topics, as a `Body`."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pixelgait.robot import ros
from pixelgait.robot.errors import UserError
from pixelgait.robot.latency import LatencyProfiler
from pixelgait.robot.reading import Image, JointCommand, Reading
from pixelgait.robot.realtime import RateKeeper
from pixelgait.robot.spec import RobotSpec

SENSORS = (ros.JOINT_STATES, ros.IMU, ros.CAMERA)
ORIENTATION_MISSING = -1.0
# How long a sensor may be silent before the robot is damped. A robot falls within tenths of a
# second without its joints, but not without its eyes: the camera may miss a few dozen frames.
TIMEOUT_S = {ros.JOINT_STATES: 0.1, ros.IMU: 0.1, ros.CAMERA: 2.0}


class RosBody:
    """Reads the newest messages and publishes commands.

    Callbacks, in the executor's thread, only store a message; reading converts it, in the control
    thread. Storing a reference is atomic, so there is no lock to wait for.
    """

    def __init__(
        self,
        node: Any,
        spec: RobotSpec,
        image_shape: tuple[int, int, int],
        period_s: float,
        profiler: LatencyProfiler,
    ) -> None:
        self.node = node
        self.spec = spec
        self.image_shape = image_shape
        self.profiler = profiler
        self.rate = RateKeeper(period_s)
        self._arrived: dict[str, float] = {}  # monotonic [s]
        self._newest: dict[str, Any] = {}
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))
        types = (ros.JointState, ros.Imu, ros.Image)
        self._subscriptions = [
            node.create_subscription(kind, topic, self._keeper(topic), ros.SENSOR_QOS)
            for kind, topic in zip(types, SENSORS, strict=True)
        ]
        self._publisher = node.create_publisher(ros.JointState, ros.JOINT_COMMAND, ros.COMMAND_QOS)

    def close(self) -> None:
        """Leave the topics."""
        for subscription in self._subscriptions:
            self.node.destroy_subscription(subscription)
        self.node.destroy_publisher(self._publisher)

    def silent(self) -> dict[str, float]:
        """Topics that are silent for longer than `TIMEOUT_S` allows, and for how long [s].

        By arrival, on the monotonic clock: a sensor with a wrong clock, or a step of this
        computer's, must neither hide a dead sensor nor fake one.
        """
        now = time.monotonic()
        ages = {topic: now - self._arrived.get(topic, -math.inf) for topic in SENSORS}
        return {topic: age for topic, age in ages.items() if age > TIMEOUT_S[topic]}

    def check_image(self) -> None:
        """Convert one image, so that a wrong camera is found out before the robot stands up."""
        self._image()

    def reset(self, seed: int = 0) -> Reading:
        """A real robot cannot be reset; this only starts the clock."""
        self.rate.restart()
        return self.read()

    def read(self) -> Reading:
        """The newest joint states and IMU values.

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
        for topic in SENSORS:
            age = now - ros.nanoseconds(self._newest[topic].header.stamp)
            self.profiler.sensor_age[topic].record(age)
        q, w = imu.orientation, imu.angular_velocity
        return Reading(
            ros.nanoseconds(joints.header.stamp) / 1e9,
            np.asarray(joints.position)[self._order],
            np.asarray(joints.velocity)[self._order],
            np.array((q.x, q.y, q.z, q.w)),
            np.array((w.x, w.y, w.z)),
            self._image,
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

    def _image(self) -> Image:
        message = self._newest[ros.CAMERA]
        height, width, _ = self.image_shape
        pixels = ros.rgb_image(message, height, width)
        return Image(pixels, ros.nanoseconds(message.header.stamp) / 1e9)

    def now_s(self) -> float:
        """Time of the node's clock, which stamps are compared with [s]."""
        return self._now() / 1e9

    def _now(self) -> int:
        return int(self.node.get_clock().now().nanoseconds)

    def _keeper(self, topic: str) -> Any:
        def keep(message: Any) -> None:
            self._newest[topic] = message
            self._arrived[topic] = time.monotonic()

        return keep
