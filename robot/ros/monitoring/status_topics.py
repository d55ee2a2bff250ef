"""Status topics of the node: state, sensor health, decisions, attention, latency; final report."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String

from pixelgait.robot.cli.provenance import head
from pixelgait.robot.control.controller import commanded
from pixelgait.robot.control.observation import draw_attention
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.interface import Image
from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.bounded_lines import BoundedLines
from pixelgait.robot.ros.common.topic_names import DECISION, LATENCY, SENSORS, STATE, TOPICS
from pixelgait.robot.ros.monitoring.diagnostics import MAX_MISSES
from pixelgait.robot.runtime.control_loop import DEACTIVATED, ControlLoop
from pixelgait.robot.runtime.latency import (
    STAGES,
    Histogram,
    LatencyProfiler,
    format_table,
    percentile_ns,
)
from pixelgait.robot.safety.supervisor import CAMERA, SensorHealth

DECISION_COLUMNS = ("speed_m_per_s", "yaw_rate_rad_per_s", "duration_s")
LATENCY_COLUMNS = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
OVERLAY_PIXELS = 256  # of the longer side: 192 KiB, below what Fast DDS loses


class StatusTopics:
    """Publishes and logs `~/state` and `~/sensors` (std_msgs/String, latched): changes and causes.

    A late subscriber of `~/sensors` gets one line per sensor, pairs of cameras included. The log
    also names the sensors that are missing, by their `names` in the contract, and problems of the
    recording, once each.
    """

    def __init__(self, node: Any, names: Mapping[str, str], recorder: Recorder | None) -> None:
        self._node, self._logger, self._names = node, node.get_logger(), names
        self._recorder = recorder
        self._lines = BoundedLines()  # of changes of the state: services can be called at any rate
        self._missing: tuple[str, ...] = ()
        self._motor_warning: str | None = None
        self._steered = False
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
        lines: deque[str] = deque()
        while loop.changes:
            state, cause = loop.changes.popleft()
            self._state.publish(String(data=f"{state.value}: {cause}"))
            lines.append(f"{state.value}: {cause}")
        before, self._steered = self._steered, loop.operator.commands.steered
        if self._steered != before:
            what = "its sticks steer the robot" if self._steered else "it does not steer any more"
            lines.append(f"remote control: {what}")
        for line in self._lines.take(lines):
            self._logger.info(line)
        if loop.missing is not self._missing:
            self._missing = loop.missing
            if self._missing:
                self._logger.warning(f"waiting for {', '.join(map(self._place, self._missing))}")

    def end(self, loop: ControlLoop) -> None:
        """Publish the last changes of a loop that has ended, and end the recording."""
        self.publish(loop)
        for line in self._lines.rest():
            self._logger.info(line)
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
        scale = max(1, OVERLAY_PIXELS // max(image.pixels.shape[:2]))
        pixels = draw_attention(image.pixels, decision.attention, scale)
        self._publisher.publish(ros2.image_message(round(image.time_s * 1e9), "camera", pixels))


def busy_computer(steps: int, misses: int) -> str | None:
    """That this computer is too busy and the remedy, or None.

    Judged by its load over the last minute, and by the loop's share of missed deadlines.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        load = os.getloadavg()[0]
    except OSError:  # a container may hide /proc/loadavg
        load = 0.0
    if load <= cores and misses <= MAX_MISSES * steps:
        return None
    found = f"load {load:.1f} on {cores} cores, {misses} of {steps} deadlines missed"
    return f"the computer is too busy ({found}): end other programs, see docs/robot/timing.md"


def report(
    loop: ControlLoop,
    contract: Mapping[str, Any],
    settings: Mapping[str, Any],
    pace: Mapping[str, float],
    out: Path | None,
) -> str | None:
    """Write the files, if there is a folder for them, then print the latency table.

    `settings` are the command's options, `pace` counts the commands that a driver repeats by
    itself. Returns a message if something could not be written, else None.
    """
    latency = {
        **head("pixelgait-run"),
        "settings": dict(settings),
        **loop.profiler.report(contract),
    }
    if pace:
        latency["repeated_commands"] = dict(pace)
    lines, problem = [format_table(latency)], None
    try:
        for path in [] if out is None else _write(loop, latency, out):
            lines.append(f"wrote {path}")
    except OSError as error:
        problem = f"{error.filename or out}: the report cannot be written ({error.strerror})"
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        return problem
    except OSError as error:
        why = f"standard output: the report cannot be written ({error.strerror})"
        return f"{problem}; {why}" if problem else why
    return problem


def _write(loop: ControlLoop, latency: dict[str, Any], out: Path) -> Iterator[Path]:
    """Write the files of --out; yields each path after it was written."""
    files = {"latency.json": json_bytes(latency)}
    if loop.decisions:
        files["decisions.npz"] = _decisions(loop)
    for name, data in files.items():
        write_atomic(out / name, data)
        yield out / name


def _decisions(loop: ControlLoop) -> bytes:
    """All decisions as an npz archive: times, images, latents and, if there is one, attention."""
    decisions = list(loop.decisions)
    arrays: dict[str, Any] = {
        "time_s": [image.time_s for image, _ in decisions],
        "images": [image.pixels for image, _ in decisions],
        "latent": [decision.latent for _, decision in decisions],
        "duration_steps": [decision.duration_steps for _, decision in decisions],
    }
    if attention := [each.attention for _, each in decisions if each.attention is not None]:
        arrays["attention"] = attention
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
