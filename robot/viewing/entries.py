"""Entries of a viewer as plain data: numbers, pictures and log lines, and the plots they fill."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.safety.supervisor import SensorHealth
from pixelgait.robot.spec import LEGS, Array, RobotSpec

CAMERA, LOG = "camera", "log"
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

    path: str
    time_s: float
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text."""

    path: str
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
