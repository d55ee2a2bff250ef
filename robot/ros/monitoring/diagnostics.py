"""Diagnostics of the node, once a second: diagnostic_msgs/DiagnosticArray on /diagnostics."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from pixelgait.robot.ros.common.topic_names import NODE, ODOMETRY
from pixelgait.robot.rotation import is_unit, roll_pitch
from pixelgait.robot.runtime.control_loop import ControlLoop
from pixelgait.robot.runtime.power import PowerWatch
from pixelgait.robot.runtime.report import MAX_MISSES
from pixelgait.robot.runtime.robot_link import RobotLink
from pixelgait.robot.runtime.state_machine import RobotState
from pixelgait.robot.safety.sensor_age import SensorReport
from pixelgait.robot.safety.supervisor import SensorHealth

TOPIC = "/diagnostics"  # absolute, as every ROS tool expects it; may be remapped
PERIOD_S = 1.0
MANY_STALLS = 3  # within a minute: two may be chance, three have a lasting cause; assumption
OK, WARN, ERROR, STALE = (
    getattr(DiagnosticStatus, level) for level in ("OK", "WARN", "ERROR", "STALE")
)


class Diagnostics:
    """Status of robot, goal, loop and every sensor: OK, WARN, ERROR, or STALE if it is silent."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._publisher = node.create_publisher(DiagnosticArray, TOPIC, 1)
        self._before: tuple[ControlLoop, float, int, int, dict[str, int]] | None = None

    def publish(
        self,
        loop: ControlLoop | None,
        link: RobotLink | None,
        power: PowerWatch | None,
        fault: str | None,
        commands: Mapping[str, tuple[bool, str]],
    ) -> None:
        """Publish the status of a node whose loop runs, stopped with a fault, or is not started.

        `commands` has a status of goal or cmd_vel: whether all is well, and a description.
        """
        message = DiagnosticArray()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.status = [self._robot(loop, fault)]
        for name, (well, text) in commands.items() if loop is not None else ():
            message.status.append(self._status(name, OK if well else WARN, text, {}))
        if loop is not None and link is not None and power is not None:
            message.status += self._rates(loop, link, power)
        else:
            self._before = None
        self._publisher.publish(message)

    def _robot(self, loop: ControlLoop | None, fault: str | None) -> DiagnosticStatus:
        if fault is not None:
            return self._status("robot", ERROR, fault, {})
        if loop is None:
            return self._status("robot", OK, "not active", {})
        if loop.operator.state is None:
            return self._status("robot", WARN, "waiting for all sensors", {})
        operation, text = loop.operation, loop.operation.state.value
        level = WARN if operation.state is RobotState.STOPPED else OK
        if (recent := operation.recent_stalls) >= MANY_STALLS:
            level, text = WARN, f"{text}, stalled {recent} times within a minute"
        if operation.blocked.manoeuvres and operation.cause == operation.blocked.cause:
            level, text = WARN, f"{text}, {operation.cause}"
        values = {
            "cause": operation.cause,
            "stalls": operation.stalls,
            "stalls_within_a_minute": recent,
            "bridged": loop.controller.supervisor.bridged,
            "limited_share": f"{loop.controller.limited_share:.2f}",
        }
        if (reading := loop.reading) is not None and is_unit(reading.orientation.tolist()):
            roll_rad, pitch_rad = roll_pitch(reading.orientation.tolist())
            values["roll_deg"] = round(math.degrees(roll_rad))
            values["pitch_deg"] = round(math.degrees(pitch_rad))
        return self._status("robot", level, text, values)

    def _rates(
        self, loop: ControlLoop, link: RobotLink, power: PowerWatch
    ) -> list[DiagnosticStatus]:
        seen = _seen(loop, link)
        now, steps, misses = time.monotonic(), loop.steps, loop.misses
        counts = {sensor: each.received for sensor, each in seen.items()}
        before, self._before = self._before, (loop, now, steps, misses, counts)
        if before is None or before[0] is not loop:  # the node was activated since
            return []
        _, then, steps_then, misses_then, counts_then = before
        elapsed = now - then
        rate, missed = (steps - steps_then) / elapsed, misses - misses_then
        late = missed > MAX_MISSES * elapsed / loop.period_s
        stages = loop.profiler.stages["sensor_to_command"]
        values = {
            "rate_hz": f"{rate:.1f}",
            "deadline_misses": missed,
            "sensor_to_command_p99_us": f"{stages.percentile_ns(0.99) / 1e3:.0f}",
            "longest_step_us": f"{loop.profiler.period.max_ns / 1e3:.0f}",
            **{f"late by {cause}": count for cause, count in loop.profiler.stalls.counts.items()},
        }
        statuses = [self._status("loop", WARN if late else OK, f"{rate:.0f} Hz", values)]
        if health := link.driver.health():
            warning, unfit = power.warning(), power.unfit
            level = OK if warning is None else WARN if unfit is None else ERROR
            statuses.append(self._status("motors", level, warning or "", dict(health)))
        for sensor, each in seen.items():
            taken_hz = (each.received - counts_then.get(sensor, 0)) / elapsed
            statuses.append(self._sensor(sensor, each, taken_hz))
        return statuses

    def _sensor(self, sensor: str, seen: SensorReport, taken_hz: float) -> DiagnosticStatus:
        # Odometry is never dead: without it the robot stands.
        gone = seen.sensor_health is (
            SensorHealth.STALE if sensor == ODOMETRY else SensorHealth.DEAD
        )
        suspect = seen.sensor_health is not SensorHealth.FRESH or seen.warning is not None
        level = STALE if gone else WARN if suspect else OK
        values = {
            "stage": seen.sensor_health.name.lower(),
            "age_s": f"{seen.age_s:.3f}",
            "taken_hz": f"{taken_hz:.1f}",
        }
        return self._status(sensor, level, seen.warning or f"{taken_hz:.0f} a second taken", values)

    def _status(self, part: str, level: bytes, text: str, values: dict[str, Any]) -> Any:
        status = DiagnosticStatus()
        status.level, status.message = level, text
        status.name = f"{self._node.get_fully_qualified_name().lstrip('/')}: {part}"
        status.hardware_id = NODE
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        return status


def _seen(loop: ControlLoop, link: RobotLink) -> dict[str, SensorReport]:
    """Health of every sensor, of a pair of cameras, and of odometry if the policy needs it."""
    warnings, ages, received = link.warnings(), link.ages(), link.received
    sensor_timeouts = loop.controller.supervisor.sensor_timeouts
    seen = {
        sensor: SensorReport(
            sensor_timeouts[sensor].sensor_health(ages[sensor]),
            ages[sensor],
            warnings.get(sensor),
            received.get(sensor, 0),
        )
        for sensor in ages
    }
    odometry = link.odometry_seen()
    return seen if odometry is None else {**seen, ODOMETRY: odometry}
