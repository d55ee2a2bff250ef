"""Status topics of the node: state, sensor health, decisions and latency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String

from pixelgait.robot.control.controller import commanded
from pixelgait.robot.interface import Image
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import DECISION, LATENCY, SENSORS, STATE, TOPICS
from pixelgait.robot.runtime.control_loop import DEACTIVATED, ControlLoop
from pixelgait.robot.runtime.latency import STAGES, Histogram, LatencyProfiler, percentile_ns
from pixelgait.robot.safety.supervisor import CAMERA, SensorHealth

DECISION_COLUMNS = ("speed_m_per_s", "yaw_rate_rad_per_s", "duration_s")
LATENCY_COLUMNS = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}


class StatusTopics:
    """Publishes and logs `~/state` and `~/sensors` (std_msgs/String, latched): changes and causes.

    A late subscriber of `~/sensors` gets one line per sensor, pairs of cameras included. The log
    also names the sensors that are missing, by their `names` in the contract, and problems of the
    recording, once each.
    """

    def __init__(self, node: Any, names: Mapping[str, str], recorder: Recorder | None) -> None:
        self._node, self._logger, self._names = node, node.get_logger(), names
        self._recorder = recorder
        self._missing: tuple[str, ...] = ()
        self._motor_warning: str | None = None
        self._state = node.create_publisher(String, f"~/{STATE}", ros2.latched(1))
        self._sensors = node.create_publisher(String, f"~/{SENSORS}", ros2.latched(len(names) + 1))

    def publish(self, loop: ControlLoop) -> None:
        """Publish and log all changes; called in the executor's thread."""
        while loop.sensor_status.changes:
            health, line = loop.sensor_status.changes.popleft()
            self._sensors.publish(String(data=line))
            if health is SensorHealth.FRESH:  # rclpy allows one severity per line of code
                self._logger.info(line)
            else:
                self._logger.warning(line)
        for line in self._recorder.new_problems() if self._recorder else ():
            self._logger.warning(line)
        while loop.changes:
            state, cause = loop.changes.popleft()
            self._state.publish(String(data=f"{state.value}: {cause}"))
            self._logger.info(f"{state.value}: {cause}")
        if loop.missing is not self._missing:
            self._missing = loop.missing
            if self._missing:
                self._logger.warning(f"waiting for {', '.join(map(self._place, self._missing))}")

    def end(self, loop: ControlLoop) -> None:
        """Publish the last changes of a loop that has ended, and end the recording."""
        self.publish(loop)
        if self._recorder is not None:
            self._recorder.end(loop.fault or DEACTIVATED)

    def motor_warning(self, what: str | None) -> None:
        """Log a new warning about battery or motors, and its end; called periodically."""
        before, self._motor_warning = self._motor_warning, what
        if what and what != before:
            self._logger.warning(what)
        elif before and not what:
            self._logger.info(f"over: {before}")

    def _place(self, sensor: str) -> str:
        """A missing sensor with its topic, after namespace and remappings."""
        place = self._node.resolve_topic_name(sensor) if sensor in TOPICS else sensor
        return f"{self._names.get(sensor, CAMERA)} on {place}"  # a pair has no name in the contract


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
