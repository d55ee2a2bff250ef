"""Viewer entries of a recording, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pixelgait.robot.bundle import Bundle
from pixelgait.robot.control.controller import commanded
from pixelgait.robot.control.observation import goal_vector
from pixelgait.robot.interface import Reading
from pixelgait.robot.recording.reader import RecordedStep, Recording
from pixelgait.robot.recording.replay import Replayed, replayed
from pixelgait.robot.runtime.attention_overlay import draw_attention
from pixelgait.robot.safety.sensor_age import SensorStatus
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.viewing.entries import (
    ANGLE,
    CAMERA,
    ERROR,
    GAINS,
    INFO,
    LATENCY,
    LOG,
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
    health_level,
    joint_entries,
)


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
        yield from changes.of(step.recorded)
        if step.recorded is last[step.recorded.session]:
            yield from _ending(step.recorded, recording)
    if recording.damaged:
        end_s = recording.steps[-1].inputs.reading.time_s
        yield Line(LOG, end_s, "the file is damaged after this step", WARN)


def _ending(step: RecordedStep, recording: Recording) -> Iterator[Entry]:
    """Cause of a session's end; none if the controller was killed."""
    if (cause := recording.endings.get(step.session)) is not None:
        yield Line(LOG, step.inputs.reading.time_s, cause, INFO)


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
    yield Picture(CAMERA, time_s, draw_attention(result.image.pixels, decision.attention))


def _numbers(step: RecordedStep, spec: RobotSpec) -> Iterator[Entry]:
    """Joints, gains, ages and times of a step. A withheld command has no targets and gains."""
    reading, stiff = step.inputs.reading, step.sent and bool(step.kp.any())
    time_s = reading.time_s
    yield from joint_entries(spec, ANGLE, time_s, reading.joint_angles)
    targets = step.targets if stiff else np.full_like(step.targets, np.nan)
    yield from joint_entries(spec, TARGET, time_s, targets)
    for name, unit, gains in (("kp", "Nm/rad", step.kp), ("kd", "Nm s/rad", step.kd)):
        names = tuple(f"{joint} {name} [{unit}]" for joint in spec.joint_names)
        shown = gains if step.sent else np.full_like(gains, np.nan)
        yield Numbers(f"{GAINS}/{name}", time_s, names, tuple(shown.tolist()))
    yield ages_entry(time_s, step.inputs.ages)
    yield Numbers(LATENCY, time_s, ("step [us]",), (step.took_us,))
    yield Numbers(PERIOD, time_s, ("since the last command [us]",), (step.inputs.gap_s * 1e6,))
    if (goal_position := step.inputs.commands.goal_position) is not None:
        yield goal_entry(time_s, *_goal(goal_position, reading))


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
            yield Line(LOG, time_s, text, health_level(health))
        if step.lost:
            yield Line(LOG, time_s, f"{step.lost} steps are missing before this one", WARN)
        if step.state != self._state:
            yield Line(LOG, time_s, f"{step.state}: {step.cause}", INFO)
        if step.fault and step.fault != self._fault:
            yield Line(LOG, time_s, step.fault, ERROR)
        self._state, self._fault = step.state, step.fault or ""
