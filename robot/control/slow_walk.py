"""Slow walk: velocity commands of a person or a planner below the low level's least command.

Below `LEAST_COMMAND` the low level shrinks its steps until the feet stay on the ground. Asked for
0.05 m/s the robot stood or crept backwards, and a planner that slows down never arrived.

Steps are whole if speed or turn exceeds its least. So slow commands get a turn to and fro: one of
that size, whose sign changes between half gait cycles such that its mean is the commanded turn. The
feet step in place, the base swings by a degree or two, and any speed can be commanded.

Policies' decisions do not pass here: policies were trained with shrinking steps.
"""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    commanded,
)
from pixelgait.robot.control.low_level import LEAST_COMMAND
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array

# No command but noise, as of a planner that has arrived: the robot stands. Assumption, a sixth of
# the least command that was measured.
NOTHING_M_PER_S, NOTHING_RAD_PER_S = 0.005, 0.005
# Creep is compensated in full up to the first speed, not at all from the second on.
FADE_M_PER_S = (0.08, 0.18)
# The turn to and fro, in units of the least: smaller ones are partly undone by the heading hold,
# and the A1 then creeps back at 0.04 m/s.
ENOUGH = 2.0


class SlowWalk:
    """Turns slow latent commands into such with whole steps, and compensates the creep."""

    def __init__(self, creep_m_per_s: float) -> None:
        self._creep = creep_m_per_s
        self._owed_rad = 0.0  # turn that was commanded, less the turn that was passed on
        self._sign, self._half = 1.0, 0  # of the turn to and fro; which half of the gait cycle

    def __call__(self, latent: Array, phase_rad: float) -> Array:
        """The latent command (2,) to follow for a commanded one, at this phase of the gait."""
        speed, yaw_rate = commanded(latent)
        if speed < NOTHING_M_PER_S and abs(yaw_rate) < NOTHING_RAD_PER_S:
            self._owed_rad = 0.0
            return STAND
        slow, fast = FADE_M_PER_S
        speed += self._creep * min(1.0, max(0.0, (fast - speed) / (fast - slow)))
        turn = self._turn(speed / MAX_SPEED_M_PER_S, yaw_rate, phase_rad)
        return np.array((2.0 * speed / MAX_SPEED_M_PER_S - 1.0, turn / MAX_YAW_RATE_RAD_PER_S))

    def _turn(self, speed: float, yaw_rate: float, phase_rad: float) -> float:
        """The yaw rate [rad/s] to follow; `speed` as a share of the highest."""
        missing = max(0.0, ENOUGH**2 - (speed / LEAST_COMMAND) ** 2)
        to_and_fro = math.sqrt(missing) * LEAST_COMMAND * MAX_YAW_RATE_RAD_PER_S
        if (half := math.floor(phase_rad / math.pi + 0.5) % 2) != self._half:
            # Feet pass below the hips: the size of a turn makes no difference to where they are.
            self._half, self._sign = half, math.copysign(1.0, self._owed_rad)
        if abs(yaw_rate) >= to_and_fro:
            self._owed_rad = 0.0
            return yaw_rate
        turn = self._sign * to_and_fro
        self._owed_rad += (yaw_rate - turn) * CONTROL_DT_S
        return turn
