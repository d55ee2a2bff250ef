"""What a controller's node and its robot publish, as a viewer is told of it.

It subscribes, and nothing else: nobody is told or ordered anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Float64, Float64MultiArray, String

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.control.observation import policy_image
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common import ros2, topic_names
from pixelgait.robot.ros.common.topic_names import NODE
from pixelgait.robot.ros.links.camera import RosCamera, rgb_frame
from pixelgait.robot.ros.monitoring import diagnostics
from pixelgait.robot.runtime.attention_overlay import draw_attention
from pixelgait.robot.spec import A1
from pixelgait.robot.viewing.entries import (
    ANGLE,
    CAMERA,
    ERROR,
    INFO,
    LATENCY,
    LOG,
    LONGEST,
    PERIOD,
    TARGET,
    WARN,
    Entry,
    Line,
    Numbers,
    Picture,
    ages_entry,
    command_entry,
    duration_entry,
    goal_entry,
    joint_entries,
)

PLAIN_SHAPE = (240, 320, 3)  # of camera images, if nobody says what the policy sees
ATTENDED_S = 2.0  # after a drawn image nobody needs the plain ones for so long; ours
SPIN_S = 0.05
FRAME_S = 0.1  # between images: nobody looks at more
LEVELS = {diagnostics.OK: INFO, diagnostics.WARN: WARN}  # others are errors
FOREIGN = "not understood, is it another program's or of another version?"
# A controller waits for nobody who listens: best effort, and half a second of commands.
EVERY_COMMAND = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
TOLD = ros2.latched(10)  # the last one also late
TOPICS: dict[str, tuple[Any, Any]] = {  # besides the camera's: type, quality of service
    ros2.JOINT_STATES: (ros2.JointState, ros2.NEWEST_QOS),
    ros2.JOINT_COMMAND: (ros2.JointState, EVERY_COMMAND),
    ros2.SHADOW_COMMAND: (ros2.JointState, EVERY_COMMAND),
    ros2.ATTENTION: (ros2.Image, ros2.NEWEST_QOS),
    f"{NODE}/{topic_names.DECISION}": (Float64MultiArray, 10),
    f"{NODE}/{topic_names.DISTANCE}": (Float64, 10),
    f"{NODE}/{topic_names.LATENCY}": (Float64MultiArray, 10),
    f"{NODE}/{topic_names.STATE}": (String, TOLD),
    f"{NODE}/{topic_names.SENSORS}": (String, TOLD),
    diagnostics.TOPIC: (DiagnosticArray, 10),
}


class Listener:
    """Hears all that can be shown, and passes it on to `write`.

    Of the `bundle` that walks it knows the robot and what of an image the policy sees; without one
    the robot is an A1, and images are shown in 320 x 240 pixels of their middle.
    """

    def __init__(
        self,
        write: Callable[[Iterable[Entry]], None],
        bundle: Bundle | None,
        context: Any = None,
    ) -> None:
        self._write = write
        self._spec = A1 if bundle is None else bundle.spec
        self._camera = RosCamera(PLAIN_SHAPE if bundle is None else bundle.image_shape)
        self._drawn_s = self._pictured_s = -math.inf  # monotonic
        self._levels: dict[str, bytes] = {}  # by what is diagnosed
        self._problems: dict[str, str] = {}  # by topic, told last
        self._node = ros2.rclpy.create_node(
            "pixelgait_view", context=context, enable_rosout=False, start_parameter_services=False
        )
        # Of the node in this namespace: all robots diagnose themselves on the same topic.
        self._own = f"{self._node.get_namespace().rstrip('/')}/{NODE}: ".lstrip("/")
        images = dict.fromkeys(self._camera.topics, (ros2.Image, ros2.NEWEST_QOS))
        for topic, (kind, quality) in {**TOPICS, **images}.items():
            hear = partial(self._hear, topic)
            self._node.create_subscription(kind, topic, hear, quality)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self._node)

    def listen(self, seconds: float = 0.1) -> None:
        """Pass on what arrives within so long."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            # Always as long: with another timeout rclpy begins anew, and the last topics starve.
            self._executor.spin_once(timeout_sec=SPIN_S)

    def close(self) -> None:
        """Leave the topics."""
        self._executor.shutdown()
        self._node.destroy_node()

    def _hear(self, topic: str, message: Any) -> None:
        """What does not fit the robot is a line of the log, and not the end."""
        try:
            entries = list(self._entries(topic, message))
        except UserError as error:
            entries = self._odd(topic, str(error))
        except (ValueError, LookupError):  # the topic's type, but not what this version puts there
            entries = self._odd(topic, FOREIGN)
        self._write(entries)

    def _odd(self, topic: str, problem: str) -> list[Entry]:
        """Told once for each topic, until it is something else there."""
        if self._problems.get(topic) == problem:
            return []
        self._problems[topic] = problem
        return [Line(LOG, ros2.now_s(self._node), f"{topic}: {problem}", ERROR)]

    def _entries(self, topic: str, message: Any) -> Iterable[Entry]:
        now_s = ros2.now_s(self._node)
        if topic == ros2.JOINT_STATES:
            return self._joints(ANGLE, message)
        if topic in (ros2.JOINT_COMMAND, ros2.SHADOW_COMMAND):
            return self._joints(TARGET, message)
        if topic == ros2.ATTENTION:
            self._drawn_s = time.monotonic()
            pixels = rgb_frame(message, message.height, message.width)
            return [Picture(CAMERA, ros2.seconds(message.header.stamp), pixels)]
        if topic in self._camera.topics:
            return self._plain(topic, message)
        if topic == diagnostics.TOPIC:
            return self._diagnosed(message, now_s)
        return node_entries(topic.removeprefix(f"{NODE}/"), message, now_s)

    def _joints(self, what: str, message: Any) -> list[Numbers]:
        """Angles, or targets: none of a robot that is damped.

        Raises:
            UserError: a joint or a value is missing.
        """
        angles = np.full(len(self._spec.joint_names), np.nan)
        if message.position:
            order = ros2.joint_order(message.name, self._spec.joint_names)
            if len(message.name) != len(message.position):
                raise UserError("joint states need one position for every name")
            angles = np.asarray(message.position)[order]
        return joint_entries(self._spec, what, ros2.seconds(message.header.stamp), angles)

    def _plain(self, topic: str, message: Any) -> list[Picture]:
        """The camera's image where nobody draws on it what is attended to."""
        complete, now_s = self._camera.put(topic, message), time.monotonic()
        soon = now_s - self._pictured_s < FRAME_S
        if not complete or soon or now_s - self._drawn_s < ATTENDED_S:
            return []
        self._pictured_s, image = now_s, self._camera.image()
        return [Picture(CAMERA, image.time_s, draw_attention(policy_image(image.pixels), None))]

    def _diagnosed(self, message: Any, now_s: float) -> Iterator[Entry]:
        """A line where a level has changed; how old what sensors say is."""
        own = [status for status in message.status if status.name.startswith(self._own)]
        for status in own:
            if self._levels.get(status.name, diagnostics.OK) != status.level:
                level = LEVELS.get(status.level, ERROR)
                yield Line(LOG, now_s, f"{status.name}: {status.message}", level)
            self._levels[status.name] = status.level
        values = {status.name.partition(": ")[2]: dict(_pairs(status)) for status in own}
        ages = {name: float(each["age_s"]) for name, each in values.items() if "age_s" in each}
        if ages:
            yield ages_entry(now_s, ages)


def _pairs(status: Any) -> Iterator[tuple[str, str]]:
    return ((value.key, value.value) for value in status.values)


def node_entries(topic: str, message: Any, now_s: float) -> Iterator[Entry]:
    """What the node says of itself, on a topic of its own."""
    if topic == topic_names.STATE:
        yield Line(LOG, now_s, message.data, INFO)
    elif topic == topic_names.SENSORS:
        yield Line(LOG, now_s, message.data, INFO if " is fresh" in message.data else WARN)
    elif topic == topic_names.DISTANCE:
        yield goal_entry(now_s, message.data, math.nan)
    elif topic == topic_names.DECISION:
        speed, yaw_rate, duration_s = message.data
        yield command_entry(now_s, speed, yaw_rate)
        yield duration_entry(now_s, duration_s)
    else:
        yield from _latency(message, now_s)


def _latency(message: Any, now_s: float) -> Iterator[Numbers]:
    """Of the last second: a row for every stage, the last for the period; see `LatencyTopic`."""
    (*stages, _), columns = (dimension.label.split(",") for dimension in message.layout.dim)
    table = np.reshape(message.data, (len(stages) + 1, len(columns)))
    spoken = [column.replace("_us", " [us]") for column in columns]
    yield Numbers(PERIOD, now_s, tuple(spoken), tuple(table[-1].tolist()))
    for path, column in ((LATENCY, "p99_us"), (LONGEST, "max_us")):
        i = columns.index(column)
        names = tuple(f"{stage} {spoken[i]}" for stage in stages)
        yield Numbers(path, now_s, names, tuple(table[:-1, i].tolist()))
