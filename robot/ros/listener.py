"""Viewer entries of a live walk: subscribes to the topics of node and robot, publishes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import OccupancyGrid
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Float64, Float64MultiArray, String

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.control.observation import draw_attention, policy_image
from pixelgait.robot.errors import UserError
from pixelgait.robot.mapping.picture import OBSTACLE, UNSEEN
from pixelgait.robot.ros.common import ros2, topic_names
from pixelgait.robot.ros.common.topic_names import NODE
from pixelgait.robot.ros.monitoring import diagnostics
from pixelgait.robot.runtime.camera_images import CameraImages, rgb_frame
from pixelgait.robot.spec import A1
from pixelgait.robot.viewing import entries as view

PLAIN_SHAPE = (240, 320, 3)  # of camera images without a bundle
ATTENDED_S = 2.0  # plain images are hidden for so long after one with attention; assumption
SPIN_S = 0.05
FRAME_S = 0.1  # between images
GROUND = (150, 150, 150)  # of a local map
LEVELS = {diagnostics.OK: view.INFO, diagnostics.WARN: view.WARN}  # others are errors
FOREIGN = "unexpected content: published by another program or version?"
# Best effort, so that the controller never waits for this node; half a second of commands.
EVERY_COMMAND = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
STATUS_QOS = ros2.latched(10)
MAP_TOPIC = f"{NODE}/{topic_names.LOCAL_MAP}"
TOPICS: dict[str, tuple[Any, Any]] = {  # besides the camera's: type, quality of service
    ros2.JOINT_STATES: (ros2.JointState, ros2.NEWEST_QOS),
    ros2.JOINT_COMMAND: (ros2.JointState, EVERY_COMMAND),
    ros2.SHADOW_COMMAND: (ros2.JointState, EVERY_COMMAND),
    ros2.ATTENTION: (ros2.Image, ros2.NEWEST_QOS),
    f"{NODE}/{topic_names.DECISION}": (Float64MultiArray, 10),
    f"{NODE}/{topic_names.DISTANCE}": (Float64, 10),
    f"{NODE}/{topic_names.LATENCY}": (Float64MultiArray, 10),
    f"{NODE}/{topic_names.STATE}": (String, STATUS_QOS),
    f"{NODE}/{topic_names.SENSORS}": (String, STATUS_QOS),
    MAP_TOPIC: (OccupancyGrid, 1),
    diagnostics.TOPIC: (DiagnosticArray, 10),
}


class Listener:
    """Receives all topics that can be shown and passes their entries to `write`.

    Robot and image shape are those of the `bundle` that walks. Without one the robot is an A1, and
    images are cropped to 320 x 240 pixels.
    """

    def __init__(
        self,
        write: Callable[[Iterable[view.Entry]], None],
        bundle: Bundle | None,
        context: Any = None,
    ) -> None:
        self._write = write
        self._spec = A1 if bundle is None else bundle.spec
        self._camera = CameraImages(PLAIN_SHAPE if bundle is None else bundle.image_shape)
        self._drawn_s = self._pictured_s = -math.inf  # monotonic
        self._levels: dict[str, bytes] = {}  # by name of the status
        self._problems: dict[str, str] = {}  # by topic, reported last
        self._node = ros2.rclpy.create_node(
            "pixelgait_view", context=context, enable_rosout=False, start_parameter_services=False
        )
        # Prefix of the node in this namespace: all robots share the topic of diagnostics.
        self._own = f"{self._node.get_namespace().rstrip('/')}/{NODE}: ".lstrip("/")
        images = dict.fromkeys(self._camera.topics, (ros2.Image, ros2.NEWEST_QOS))
        for topic, (kind, quality) in {**TOPICS, **images}.items():
            receive = partial(self._receive, topic)
            self._node.create_subscription(kind, topic, receive, quality)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self._node)

    def listen(self, seconds: float = 0.1) -> None:
        """Process what arrives within this time."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            # Always the same timeout: rclpy starts over with another one, and later topics starve.
            self._executor.spin_once(timeout_sec=SPIN_S)

    def close(self) -> None:
        """Destroy the node and its subscriptions."""
        self._executor.shutdown()
        self._node.destroy_node()

    def _receive(self, topic: str, message: Any) -> None:
        """Write the entries of a message; one that does not fit the robot becomes a log line."""
        try:
            entries = list(self._entries(topic, message))
        except UserError as error:
            entries = self._problem(topic, str(error))
        except (ValueError, LookupError):  # the right type with unexpected content
            entries = self._problem(topic, FOREIGN)
        self._write(entries)

    def _problem(self, topic: str, problem: str) -> list[view.Entry]:
        """Log line of a topic's problem, once until it changes."""
        if self._problems.get(topic) == problem:
            return []
        self._problems[topic] = problem
        return [view.Line(ros2.now_s(self._node), f"{topic}: {problem}", view.ERROR)]

    def _entries(self, topic: str, message: Any) -> Iterable[view.Entry]:
        now_s = ros2.now_s(self._node)
        if topic == ros2.JOINT_STATES:
            return self._joints(view.ANGLE, message)
        if topic in (ros2.JOINT_COMMAND, ros2.SHADOW_COMMAND):
            return self._joints(view.TARGET, message)
        if topic == ros2.ATTENTION:
            self._drawn_s = time.monotonic()
            pixels = rgb_frame(message, message.height, message.width)
            return [view.Picture(ros2.seconds(message.header.stamp), pixels)]
        if topic == MAP_TOPIC:
            return [map_entry(message)]
        if topic in self._camera.topics:
            return self._plain(topic, message)
        if topic == diagnostics.TOPIC:
            return self._diagnosed(message, now_s)
        return node_entries(topic.removeprefix(f"{NODE}/"), message, now_s)

    def _joints(self, what: str, message: Any) -> list[view.Numbers]:
        """Entries of joint angles or targets; a damped robot has no targets.

        Raises:
            UserError: if a joint or a value is missing.
        """
        angles = np.full(len(self._spec.joint_names), np.nan)
        if message.position:
            order = ros2.joint_order(message.name, self._spec.joint_names)
            if len(message.name) != len(message.position):
                raise UserError("joint states need one position for every name")
            angles = np.asarray(message.position)[order]
        return view.joint_entries(self._spec, what, ros2.seconds(message.header.stamp), angles)

    def _plain(self, topic: str, message: Any) -> list[view.Picture]:
        """The camera's image, unless one with attention was published recently."""
        complete, now_s = self._camera.put(topic, message), time.monotonic()
        soon = now_s - self._pictured_s < FRAME_S
        if not complete or soon or now_s - self._drawn_s < ATTENDED_S:
            return []
        self._pictured_s, image = now_s, self._camera.image()
        return [view.Picture(image.time_s, draw_attention(policy_image(image.pixels), None))]

    def _diagnosed(self, message: Any, now_s: float) -> Iterator[view.Entry]:
        """Log lines of changed levels, and sensor ages."""
        own = [status for status in message.status if status.name.startswith(self._own)]
        for status in own:
            if self._levels.get(status.name, diagnostics.OK) != status.level:
                level = LEVELS.get(status.level, view.ERROR)
                yield view.Line(now_s, f"{status.name}: {status.message}", level)
            self._levels[status.name] = status.level
        values = {s.name.partition(": ")[2]: {v.key: v.value for v in s.values} for s in own}
        ages = {name: float(each["age_s"]) for name, each in values.items() if "age_s" in each}
        if ages:
            yield view.ages_entry(now_s, ages)


def map_entry(message: Any) -> view.Picture:
    """The picture of a local map, ahead up."""
    size = message.info.height, message.info.width
    cells = np.asarray(message.data, np.int8).reshape(size).T[::-1, ::-1]
    colours = np.full((*cells.shape, 3), GROUND, np.uint8)
    colours[cells > 0], colours[cells < 0] = OBSTACLE, UNSEEN
    return view.Picture(ros2.seconds(message.header.stamp), colours, view.LOCAL_MAP)


def node_entries(topic: str, message: Any, now_s: float) -> Iterator[view.Entry]:
    """Entries of a status topic of the node."""
    if topic == topic_names.STATE:
        yield view.Line(now_s, message.data, view.INFO)
    elif topic == topic_names.SENSORS:
        level = view.INFO if " is fresh" in message.data else view.WARN
        yield view.Line(now_s, message.data, level)
    elif topic == topic_names.DISTANCE:
        yield view.goal_entry(now_s, message.data, math.nan)
    elif topic == topic_names.DECISION:
        speed, yaw_rate, duration_s = message.data
        yield view.command_entry(now_s, speed, yaw_rate)
        yield view.duration_entry(now_s, duration_s)
    else:
        yield from _latency(message, now_s)


def _latency(message: Any, now_s: float) -> Iterator[view.Numbers]:
    """Latencies of the last second: a row per stage, the last is the period; see `LatencyTopic`."""
    (*stages, _), columns = (dimension.label.split(",") for dimension in message.layout.dim)
    table = np.reshape(message.data, (len(stages) + 1, len(columns)))
    titles = [column.replace("_us", " [us]") for column in columns]
    yield view.Numbers(view.PERIOD, now_s, tuple(titles), tuple(table[-1].tolist()))
    for path, column in ((view.LATENCY, "p99_us"), (view.LONGEST, "max_us")):
        i = columns.index(column)
        names = tuple(f"{stage} {titles[i]}" for stage in stages)
        yield view.Numbers(path, now_s, names, tuple(table[:-1, i].tolist()))
