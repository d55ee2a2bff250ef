"""What happens, as it happens: the robot's state and its sensors' stages, published and logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from std_msgs.msg import String

from pixelgait.robot.recording.recorder import Recorder
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import SENSORS, STATE, TOPICS
from pixelgait.robot.runtime.control_loop import DEACTIVATED, ControlLoop
from pixelgait.robot.safety.supervisor import CAMERA, SensorHealth


class StatusTopics:
    """`~/state` and `~/sensors` (std_msgs/String, latched): every change and its cause.

    Of sensors as many lines are kept for who comes late as there are, with a pair of cameras.

    In the log beside that, once: which sensors the robot still waits for, by what a contract
    `calls` them, and what has become of the recording.
    """

    def __init__(self, node: Any, calls: Mapping[str, str], recorder: Recorder | None) -> None:
        self._node, self._logger, self._calls = node, node.get_logger(), calls
        self._recorder = recorder
        self._missing: tuple[str, ...] = ()
        self._motor_warning: str | None = None
        self._state = node.create_publisher(String, f"~/{STATE}", ros2.latched(1))
        self._sensors = node.create_publisher(String, f"~/{SENSORS}", ros2.latched(len(calls) + 1))

    def tell(self, loop: ControlLoop) -> None:
        """From the executor's thread: all that is new."""
        while loop.watch.changes:
            stage, line = loop.watch.changes.popleft()
            self._sensors.publish(String(data=line))
            if stage is SensorHealth.FRESH:  # rclpy wants one severity for every line of code
                self._logger.info(line)
            else:
                self._logger.warning(line)
        for line in self._recorder.news() if self._recorder else ():
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
        """The loop is over: what is left to tell, and to the recorder why."""
        self.tell(loop)
        if self._recorder is not None:
            self._recorder.end(loop.fault or DEACTIVATED)

    def motor_warning(self, what: str | None) -> None:
        """Of the robot's battery and motors, now and then: told once, and when it is over."""
        before, self._motor_warning = self._motor_warning, what
        if what and what != before:
            self._logger.warning(what)
        elif before and not what:
            self._logger.info(f"over: {before}")

    def _place(self, sensor: str) -> str:
        """A sensor, and where it is awaited: its topic under the namespace and remappings."""
        place = self._node.resolve_topic_name(sensor) if sensor in TOPICS else sensor
        return f"{self._calls.get(sensor, CAMERA)} on {place}"  # no contract calls a pair anything
