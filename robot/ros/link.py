"""ROS 2 topics as the `Link` of a control loop."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.ros import common as ros
from pixelgait.robot.ros.camera import RosCamera, camera_topics
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
PAIR = f"{ros.COLOUR} paired with {ros.DEPTH}"  # has an age like a topic of its own
ORIENTATION_MISSING = -1.0


class RosLink:
    """Takes the newest messages and publishes commands, all in the control thread; a `Link`.

    The sensors' subscriptions belong to a node that no executor spins: the middleware keeps the
    newest message of each until the control thread takes it. An executor would wake up for every
    one of a thousand messages a second and hold the interpreter's lock just when the control step
    wants it back (0.2 to 0.5 ms for a 0.05 ms low level were measured).
    """

    def __init__(self, node: Any, spec: RobotSpec, image_shape: tuple[int, int, int]) -> None:
        self.node = node
        self.spec = spec
        self.camera = RosCamera(image_shape)
        self.sensors = (ros.JOINT_STATES, ros.IMU, *camera_topics(image_shape))
        self._watched = (*self.sensors, PAIR) if len(self.camera.topics) > 1 else self.sensors
        self._arrived: dict[str, float] = {}  # monotonic [s]
        self._newest: dict[str, Any] = {}
        self._names: list[str] | None = None
        self._order = np.arange(len(spec.joint_names))
        self._sensor_node = ros.quiet_node(node, f"{node.get_name()}_sensors")
        self._subscriptions = {
            topic: self._sensor_node.create_subscription(
                TYPES[topic], topic, _never, ros.NEWEST_QOS
            )
            for topic in self.sensors
        }
        self._publisher = node.create_publisher(ros.JointState, ros.JOINT_COMMAND, ros.COMMAND_QOS)

    def close(self) -> None:
        """Leave the topics."""
        self._sensor_node.destroy_node()
        self.node.destroy_publisher(self._publisher)

    def take(self) -> None:
        now = time.monotonic()
        for topic, subscription in self._subscriptions.items():
            with subscription.handle:
                taken = subscription.handle.take_message(subscription.msg_type, False)
            if taken is not None:
                self._newest[topic], self._arrived[topic] = taken[0], now
                if topic in self.camera.topics and self.camera.put(topic, taken[0]):
                    self._arrived[PAIR] = now

    def forget(self) -> None:
        self.take()
        self._arrived.clear()
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
            self.camera.image,
        )

    def ages(self) -> dict[str, float]:
        now = time.monotonic()
        return {topic: now - self._arrived.get(topic, -math.inf) for topic in self._watched}

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


def timeouts(of_topics: dict[str, float]) -> dict[str, float]:
    """How long every sensor may be silent [s], given that of every topic: a pair as its depth."""
    return {**of_topics, PAIR: of_topics[ros.DEPTH]}


def _never(message: object) -> None:
    """The callback of subscriptions that are taken from by hand."""
