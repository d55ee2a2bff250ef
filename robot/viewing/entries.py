"""Viewer entries: numbers, pictures and log lines as plain data, and those of a recording."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.control.controller import commanded
from pixelgait.robot.control.observation import draw_attention, goal_vector
from pixelgait.robot.interface import Reading
from pixelgait.robot.recording.reader import RecordedStep, Recording
from pixelgait.robot.recording.replay import Replayed, replayed
from pixelgait.robot.safety.sensor_age import SensorStatus
from pixelgait.robot.safety.supervisor import SensorHealth
from pixelgait.robot.spec import LEGS, Array, RobotSpec

CAMERA, LOCAL_MAP, LOG = "camera", "local map", "log"
COMMAND, DURATION, GOAL = "command", "decision", "goal"
JOINTS, GAINS, AGES = "joints", "gains", "ages"
LATENCY, LONGEST, PERIOD = "latency", "longest", "period"
ANGLE, TARGET = "angle", "target"
INFO, WARN, ERROR = "INFO", "WARN", "ERROR"

# Plot title: path of the entries drawn in it, with all paths below.
PLOTS = {
    "Latent command": COMMAND,
    "Duration of a decision": DURATION,
    "Goal": GOAL,
    **{f"Joints {leg} [rad], targets paler": f"{JOINTS}/{leg}" for leg in LEGS},
    "Stiffness": f"{GAINS}/kp",
    "Ages of the sensors": AGES,
    "Latency": LATENCY,
    "Longest of a second": LONGEST,
    "Time between steps": PERIOD,
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers at one time; unknown ones are NaN."""

    path: str
    time_s: float
    names: tuple[str, ...]  # with units; equal for all entries of a path
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """An image (H, W, 3) uint8 RGB."""

    time_s: float
    pixels: NDArray[np.uint8]
    path: str = CAMERA


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log."""

    path: ClassVar = LOG
    time_s: float
    text: str
    level: str  # INFO, WARN or ERROR


Entry = Numbers | Picture | Line


def command_entry(time_s: float, speed: float, yaw_rate: float) -> Numbers:
    """Entry of a latent command [m/s, rad/s]; NaN: none is followed."""
    return Numbers(COMMAND, time_s, ("speed [m/s]", "yaw rate [rad/s]"), (speed, yaw_rate))


def duration_entry(time_s: float, duration_s: float) -> Numbers:
    """Entry of a decision's duration [s]."""
    return Numbers(DURATION, time_s, ("duration [s]",), (duration_s,))


def goal_entry(time_s: float, distance_m: float, bearing_rad: float) -> Numbers:
    """Entry of the goal, relative to the robot; NaN: unknown. Ahead has a bearing alone."""
    return Numbers(GOAL, time_s, ("distance [m]", "bearing [rad]"), (distance_m, bearing_rad))


def ages_entry(time_s: float, ages: Mapping[str, float]) -> Numbers:
    """Entry of every sensor's age [s]; infinite (no message yet) becomes NaN."""
    names = tuple(f"{sensor} [s]" for sensor in ages)
    known = (age if math.isfinite(age) else math.nan for age in ages.values())
    return Numbers(AGES, time_s, names, tuple(known))


def joint_entries(spec: RobotSpec, what: str, time_s: float, angles: Array) -> list[Numbers]:
    """One entry per leg of joint angles (12,) [rad]; `what` is ANGLE or TARGET."""
    entries = []
    for leg, first in zip(LEGS, range(0, len(spec.joint_names), 3), strict=True):
        own = slice(first, first + 3)
        names = tuple(f"{joint} {what}" for joint in spec.joint_names[own])
        entries.append(
            Numbers(f"{JOINTS}/{leg}/{what}", time_s, names, tuple(angles[own].tolist()))
        )
    return entries


def health_level(health: SensorHealth) -> str:
    """Log level of a sensor's health."""
    return {SensorHealth.FRESH: INFO, SensorHealth.DEAD: ERROR}.get(health, WARN)


def recorded_entries(recording: Recording, bundle: Bundle) -> Iterator[Entry]:
    """Entries of a recording, on its own clock. Decisions and attention come from the bundle.

    With the recorded bundle they are those of the walk, except for rounding. After a gap they are
    unknown until the next session.

    Raises:
        UserError: if the bundle is for another robot, or its policy expects other images.
    """
    changes = _Changes(recording.steps[0])
    last = {step.session: step for step in recording.steps}
    for step in replayed(recording, bundle):
        yield from _decision(step, bundle)
        yield from _numbers(step.recorded, bundle.spec)
        if (pixels := step.recorded.local_map) is not None:
            yield Picture(step.recorded.inputs.reading.time_s, pixels, LOCAL_MAP)
        yield from changes.of(step.recorded)
        if step.recorded is last[step.recorded.session]:
            yield from _ending(step.recorded, recording)
    if recording.damaged:
        end_s = recording.steps[-1].inputs.reading.time_s
        yield Line(end_s, "the file is damaged after this step", WARN)


def _ending(step: RecordedStep, recording: Recording) -> Iterator[Entry]:
    """Cause of a session's end; none if the controller was killed."""
    if (cause := recording.endings.get(step.session)) is not None:
        yield Line(step.inputs.reading.time_s, cause, INFO)


def _decision(step: Replayed, bundle: Bundle) -> Iterator[Entry]:
    result, time_s = step.result, step.recorded.inputs.reading.time_s
    followed = None if result is None else result.latent
    command = (math.nan, math.nan) if followed is None else commanded(followed)
    yield command_entry(time_s, *command)
    if result is None or result.image is None or result.decision is None:
        return
    decision = result.decision
    yield duration_entry(time_s, decision.duration_steps * bundle.control_dt_s)
    if "ahead" in bundle.takes:  # has no side effect after the start
        ahead = step.operation.controller.goal(step.recorded.inputs.reading)
        if ahead is not None:
            yield goal_entry(time_s, math.nan, ahead[1])
    yield Picture(time_s, draw_attention(result.image.whole, decision.attention))


def _numbers(step: RecordedStep, spec: RobotSpec) -> Iterator[Entry]:
    """Joints, gains, ages and times of a step. A withheld command has no targets and gains."""
    reading, time_s = step.inputs.reading, step.inputs.reading.time_s
    if reading.joint_angles.size:  # a robot with its own gait shows none
        yield from _joints(step, spec)
    yield ages_entry(time_s, step.inputs.ages)
    yield Numbers(LATENCY, time_s, ("step [us]",), (step.took_us,))
    yield Numbers(PERIOD, time_s, ("since the last command [us]",), (step.inputs.gap_s * 1e6,))
    if (goal_position := step.inputs.commands.goal_position) is not None:
        yield goal_entry(time_s, *_goal(goal_position, reading))


def _joints(step: RecordedStep, spec: RobotSpec) -> Iterator[Entry]:
    reading, stiff = step.inputs.reading, step.sent and bool(step.kp.any())
    time_s = reading.time_s
    yield from joint_entries(spec, ANGLE, time_s, reading.joint_angles)
    targets = step.targets if stiff else np.full_like(step.targets, np.nan)
    yield from joint_entries(spec, TARGET, time_s, targets)
    for name, unit, gains in (("kp", "Nm/rad", step.kp), ("kd", "Nm s/rad", step.kd)):
        names = tuple(f"{joint} {name} [{unit}]" for joint in spec.joint_names)
        shown = gains if step.sent else np.full_like(gains, np.nan)
        yield Numbers(f"{GAINS}/{name}", time_s, names, tuple(shown.tolist()))


def _goal(goal_position: tuple[float, float], reading: Reading) -> tuple[float, float]:
    """Distance [m] and bearing [rad] of a place x, y [m]; NaN while there is no odometry."""
    if reading.odometry is None:
        return math.nan, math.nan
    distance_m, bearing_rad = goal_vector(np.array(goal_position), reading.odometry).tolist()
    return distance_m, bearing_rad


class _Changes:
    """Log lines of a recording: changes of state, fault and sensor health."""

    def __init__(self, first: RecordedStep) -> None:
        self._sensor_timeouts = dict(first.sensor_timeouts)
        self._sensors = SensorStatus(self._sensor_timeouts)
        self._state = self._fault = ""

    def of(self, step: RecordedStep) -> Iterator[Entry]:
        """Lines for what this step has changed."""
        time_s = step.inputs.reading.time_s
        self._sensor_timeouts.update(step.sensor_timeouts)  # may be set at runtime
        self._sensors.update(step.inputs.ages, {}, time_s)
        while self._sensors.changes:
            health, text = self._sensors.changes.popleft()
            yield Line(time_s, text, health_level(health))
        if step.lost:
            yield Line(time_s, f"{step.lost} steps are missing before this one", WARN)
        if step.state != self._state:
            yield Line(time_s, f"{step.state}: {step.cause}", INFO)
        if step.fault and step.fault != self._fault:
            yield Line(time_s, step.fault, ERROR)
        self._state, self._fault = step.state, step.fault or ""
