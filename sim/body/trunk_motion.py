"""Trunk motion of a trotting robot: roll, pitch and height, for robots that glide instead of walk.

Fitted to `walk` on flat ground, in PyBullet and MuJoCo alike, over 13 s of each of nine commands.
All but a few per cent of the motion is at the frequency of the stride (roll; in turns also pitch
and height) and at twice that frequency (pitch and height); tests/sim/test_trunk_motion.py compares
the two. On ramps of 10 degrees the trunk is as steep as the ground (1.1 times, correlation 0.99).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pixelgait.robot.control.controller import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.control.low_level import LEAST_COMMAND

# Fitted to these measurements.
STRIDE_HZ = 2.62
# Standard deviations at a speed v [m/s] and a yaw rate w [rad/s]; see `TrunkMotion.at`.
ROLL_RAD, ROLL_FALLS = 0.015, 0.015  # per m/s
PITCH_RAD, PITCH_GROWS, PITCH_TURNING = 0.002, 0.03, 0.0045  # per (m/s)^2; per rad/s
HEIGHT_M, HEIGHT_FALLS, HEIGHT_TURNING_M = 0.004, 0.0028, 0.0025  # per m/s; per rad/s
LEAN, UPRIGHT_M_PER_S = -0.05, 0.75  # mean roll per yaw rate on the spot; none at this speed
NOSE_UP_RAD, NOSE_UP_GROWS = -0.005, -0.022  # mean pitch; per m/s
STANDING_SHARE, WALKING_SHARE, SINKS = 0.965, 0.92, 0.055  # of the standing height; per m/s
# Below these commands its steps are smaller.
WHOLE_STEP_M_PER_S = LEAST_COMMAND * MAX_SPEED_M_PER_S
WHOLE_STEP_RAD_PER_S = LEAST_COMMAND * MAX_YAW_RATE_RAD_PER_S
# Drawn every episode. Randomised robots sway up to twice as much; the lower bound and the range of
# the stride's frequency are assumptions.
SIZE, FREQUENCY = (0.8, 2.0), (0.97, 1.03)


class TrunkOffset(NamedTuple):
    """Deviation of a trunk from level, at its standing height."""

    roll_rad: float
    pitch_rad: float  # nose down
    sunk_share: float  # of the standing height
    lift_m: float  # in addition


@dataclass(frozen=True, slots=True)
class TrunkMotion:
    """One episode's amplitude, frequency and phases."""

    size: float
    stride_hz: float
    phases: tuple[float, ...]  # [rad] of roll, pitch and height, at once and at twice the stride

    @classmethod
    def draw(cls, rng: np.random.Generator) -> TrunkMotion:
        """Draw a robot."""
        size, frequency = rng.uniform(*SIZE), rng.uniform(*FREQUENCY)
        return cls(
            float(size),
            float(STRIDE_HZ * frequency),
            tuple(rng.uniform(0.0, 2.0 * math.pi, 5).tolist()),
        )

    def at(self, time_s: float, speed: float, yaw_rate: float) -> TrunkOffset:
        """The trunk at a time [s], at a speed [m/s] and yaw rate [rad/s]."""
        v, w = min(abs(speed), UPRIGHT_M_PER_S), abs(yaw_rate)
        step = min(1.0, max(v / WHOLE_STEP_M_PER_S, w / WHOLE_STEP_RAD_PER_S))
        turn = 2.0 * math.pi * self.stride_hz * time_s
        waves = (
            math.sqrt(2.0) * math.sin(n * turn + phase)
            for n, phase in zip((1, 1, 2, 1, 2), self.phases, strict=True)
        )
        roll, pitch, pitch_twice, height, height_twice = waves
        size = self.size * step
        lean = LEAN * yaw_rate * (1.0 - v / UPRIGHT_M_PER_S)
        return TrunkOffset(
            lean + size * max(0.0, ROLL_RAD - ROLL_FALLS * v) * roll,
            NOSE_UP_RAD
            + NOSE_UP_GROWS * v
            + size * ((PITCH_RAD + PITCH_GROWS * v * v) * pitch_twice + PITCH_TURNING * w * pitch),
            1.0 - STANDING_SHARE + step * (STANDING_SHARE - WALKING_SHARE) + SINKS * v,
            size * ((HEIGHT_M - HEIGHT_FALLS * v) * height_twice + HEIGHT_TURNING_M * w * height),
        )
