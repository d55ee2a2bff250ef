"""Status topics of the node: state, sensor health, decisions, attention, latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String

from pixelgait.robot.control.controller import commanded
from pixelgait.robot.control.observation import draw_attention
from pixelgait.robot.interface import Image
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DECISION, LATENCY, SENSORS, STATE, TOPICS
from pixelgait.robot.runtime.control_loop import DEACTIVATED, ControlLoop
from pixelgait.robot.runtime.latency import STAGES, Histogram, LatencyProfiler, percentile_ns
from pixelgait.robot.runtime.status import Line, StatusLines

DECISION_COLUMNS = ("speed_m_per_s", "yaw_rate_rad_per_s", "duration_s")
LATENCY_COLUMNS = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
OVERLAY_PIXELS = 256  # of the longer side: 192 KiB, below what Fast DDS loses


class StatusTopics:
    """Publishes `~/state` and `~/sensors` (std_msgs/String, latched), and logs what changes.

    A late subscriber of `~/sensors` gets one line per sensor, pairs of cameras included.
    """

    def __init__(self, node: Any, names: Mapping[str, str], recorder: Recorder | None) -> None:
        self._node, self._logger, self._recorder = node, node.get_logger(), recorder
        problems = recorder.new_problems if recorder else list
        self._status = StatusLines(names, problems, self._topic)
        sensors = node.create_publisher(String, f"~/{SENSORS}", ros2.latched(len(names) + 1))
        state = node.create_publisher(String, f"~/{STATE}", ros2.latched(1))
        self._publishers = {SENSORS: sensors, STATE: state}

    def publish(self, loop: ControlLoop) -> None:
        """Publish and log all changes; called in the executor's thread."""
        self._say(self._status.take(loop))

    def end(self, loop: ControlLoop) -> None:
        """Publish the last changes of a loop that has ended, and end the recording."""
        self._say(self._status.rest(loop))
        if self._recorder is not None:
            self._recorder.end(loop.fault or DEACTIVATED)

    def motor_warning(self, what: str | None) -> None:
        """Log a new warning about battery or motors, and its end; called periodically."""
        self._say(self._status.motors(what))

    def _say(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if line.topic is not None:
                self._publishers[line.topic].publish(String(data=line.text))
            if line.logged and line.warns:  # rclpy allows one severity per line of code
                self._logger.warning(line.text)
            elif line.logged:
                self._logger.info(line.text)

    def _topic(self, sensor: str) -> str:
        """A sensor's topic, after namespace and remappings."""
        name: str = self._node.resolve_topic_name(sensor) if sensor in TOPICS else sensor
        return name


class DecisionTopic:
    """Publishes `~/decision` (std_msgs/Float64MultiArray): speed, yaw rate and duration.

    The layout's label names the columns.
    """

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, f"~/{DECISION}", 1)
        self._published: Image | None = None  # image of the last decision

    def publish(self, loop: ControlLoop) -> None:
        """Publish the newest decision, once."""
        newest = loop.decisions.newest
        if newest is None or newest[0] is self._published:
            return
        self._published, decision = newest
        duration_s = decision.duration_steps * loop.period_s
        message = Float64MultiArray(data=[*commanded(decision.latent), duration_s])
        size = len(DECISION_COLUMNS)
        dimension = MultiArrayDimension(label=",".join(DECISION_COLUMNS), size=size, stride=size)
        message.layout.dim = [dimension]
        self._publisher.publish(message)


class LatencyTopic:
    """Publishes `~/latency` (std_msgs/Float64MultiArray): p50, p99 and maximum [us] of a second.

    One row for every stage and one for the period; the layout's labels name rows and columns. A
    stage that did not occur is NaN.
    """

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, f"~/{LATENCY}", 1)
        self._before: dict[str, NDArray[np.uint64]] = {}

    def publish(self, profiler: LatencyProfiler) -> None:
        """Publish what was measured since the last call."""
        histograms = {**profiler.stages, "period": profiler.period}
        message = Float64MultiArray(data=np.ravel([self._row(n, h) for n, h in histograms.items()]))
        sizes = {
            ",".join((*STAGES, "period")): len(histograms),
            ",".join(LATENCY_COLUMNS): len(LATENCY_COLUMNS),
        }
        strides = (len(histograms) * len(LATENCY_COLUMNS), len(LATENCY_COLUMNS))
        message.layout.dim = [
            MultiArrayDimension(label=label, size=size, stride=stride)
            for (label, size), stride in zip(sizes.items(), strides, strict=True)
        ]
        self._publisher.publish(message)

    def _row(self, name: str, histogram: Histogram) -> list[float]:
        counts = np.array(histogram.counts)
        before = self._before.get(name, np.zeros_like(counts))
        self._before[name] = counts
        # A profiler that was reset has counted less than before.
        new = counts - before if (counts >= before).all() else counts
        return [percentile_ns(new, fraction) / 1e3 for fraction in LATENCY_COLUMNS.values()]


class AttentionTopic:
    """Publishes the image of the newest decision with its attention, if there is a subscriber."""

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(ros2.Image, ros2.ATTENTION, ros2.COMMAND_QOS)
        self._drawn: Image | None = None

    def publish(self, loop: ControlLoop) -> None:
        """Draw and publish the newest decision, once."""
        newest = loop.decisions.newest
        if newest is None or not self._publisher.get_subscription_count():
            return
        image, decision = newest
        if image is self._drawn or decision.attention is None:
            return
        self._drawn = image
        seen = image.whole
        scale = max(1, OVERLAY_PIXELS // max(seen.shape[:2]))
        pixels = draw_attention(seen, decision.attention, scale)
        self._publisher.publish(ros2.image_message(round(image.time_s * 1e9), "camera", pixels))
