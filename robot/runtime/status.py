"""Status lines for an operator: changes of the state and of sensors, and problems, once each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pixelgait.robot.ros.common.bounded_lines import BoundedLines
from pixelgait.robot.ros.common.topic_names import SENSORS, STATE
from pixelgait.robot.runtime.control_loop import ControlLoop
from pixelgait.robot.safety.supervisor import CAMERA, SensorHealth


@dataclass(frozen=True, slots=True)
class Line:
    """A line for the log, for a status topic, or both."""

    text: str
    warns: bool = False
    topic: str | None = None
    logged: bool = True


class StatusLines:
    """Changes of a control loop's state, of its sensors, and of the motors, as lines.

    Missing sensors are named by their `names` in the contract, at their `place`. `problems` returns
    new problems of the recording.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        problems: Callable[[], list[str]],
        place: Callable[[str], str] = str,
    ) -> None:
        self._names, self._problems, self._place = names, problems, place
        self._lines = BoundedLines()  # of changes of the state: orders can come at any rate
        self._missing: tuple[str, ...] = ()
        self._motors: str | None = None
        self._steered = False

    def take(self, loop: ControlLoop) -> Iterator[Line]:
        """Changes since the last call."""
        while loop.sensor_status.changes:
            health, line = loop.sensor_status.changes.popleft()
            yield Line(line, health is not SensorHealth.FRESH, SENSORS)
        for line in self._problems():
            yield Line(line, warns=True)
        lines: deque[str] = deque()
        while loop.changes:
            state, cause = loop.changes.popleft()
            lines.append(f"{state.value}: {cause}")
            yield Line(lines[-1], topic=STATE, logged=False)
        before, self._steered = self._steered, loop.operator.commands.steered
        if self._steered != before:
            what = "its sticks steer the robot" if self._steered else "it does not steer any more"
            lines.append(f"remote control: {what}")
        for line in self._lines.take(lines):
            yield Line(line)
        if loop.missing is not self._missing:
            self._missing = loop.missing
            if self._missing:
                there = ", ".join(map(self._described, self._missing))
                why = loop.warnings_about(self._missing)
                yield Line(f"waiting for {there}{why}", warns=True)

    def rest(self, loop: ControlLoop) -> Iterator[Line]:
        """The last changes of a loop that has ended."""
        yield from self.take(loop)
        for line in self._lines.rest():
            yield Line(line)

    def motors(self, what: str | None) -> Iterator[Line]:
        """A new warning about battery or motors, and its end."""
        before, self._motors = self._motors, what
        if what and what != before:
            yield Line(what, warns=True)
        elif before and not what:
            yield Line(f"over: {before}")

    def _described(self, sensor: str) -> str:
        # A pair of cameras has no name in the contract.
        return f"{self._names.get(sensor, CAMERA)} on {self._place(sensor)}"
