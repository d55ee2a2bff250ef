"""Latent commands, from the high level to the low: what they mean, how a robot keeps to them."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.spec import Array

# What a latent command stands for, a velocity command: (-1..1, -1..1) is speed and yaw rate.
MAX_SPEED_M_PER_S = 0.6
MAX_YAW_RATE_RAD_PER_S = 1.0
SLOW_S = 0.3  # from full speed to a stand, when a sensor is stale; ours


def commanded(latent: Array) -> tuple[float, float]:
    """Speed [m/s] and yaw rate [rad/s] that a latent command (2,) asks for."""
    speed = (float(latent[0]) + 1.0) / 2.0 * MAX_SPEED_M_PER_S
    return speed, float(latent[1]) * MAX_YAW_RATE_RAD_PER_S


def latent_for(speed: float, yaw_rate: float) -> Array:
    """The latent command (2,) for a speed [m/s] and a yaw rate [rad/s], within its range."""
    latent = (2.0 * speed / MAX_SPEED_M_PER_S - 1.0, yaw_rate / MAX_YAW_RATE_RAD_PER_S)
    return np.clip(latent, -1.0, 1.0)


STAND = latent_for(speed=0.0, yaw_rate=0.0)


def slower(latent: Array) -> Array:
    """A latent command (2,) a control step later, on the way to a stand within `SLOW_S`."""
    speed, yaw_rate = commanded(latent)
    share = CONTROL_DT_S / SLOW_S
    turn = max(0.0, abs(yaw_rate) - share * MAX_YAW_RATE_RAD_PER_S)
    return latent_for(max(0.0, speed - share * MAX_SPEED_M_PER_S), math.copysign(turn, yaw_rate))


class HeadingHold:
    """Turns the robot as far as it was told to: corrects the turn of latent commands.

    No gait turns by exactly what is asked for, on every robot and ground, and one that walks
    straight ahead drifts aside unless somebody looks where it is heading. The heading shall follow
    the integral of the commanded yaw rate, as a robot without inertia in legs and body could not
    do better: smoothed over `LAG_S`. What is missing is added to the yaw rate asked for.
    """

    GAIN_PER_S = 2.0
    MOST_RAD = 0.25  # held against a wall it asks for 0.5 rad/s more, and no more
    LAG_S = 0.2
    FASTEST_RAD_PER_S = 5.0  # no faster than that does the heading itself change: else the IMU's

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Hold whatever heading the robot has now."""
        self.missing_rad = 0.0
        self._yaw_rate = 0.0  # that the heading follows
        self._heading: float | None = None

    def corrected(self, latent: Array, orientation: Array) -> Array:
        """The latent command (2,) for the low level: turn within 1.5 times its range."""
        before, self._heading = self._heading, heading(orientation.tolist())
        speed, yaw_rate = commanded(latent)
        if before is None or (speed == 0.0 and yaw_rate == 0.0):  # a stand does not turn its feet
            self.missing_rad = self._yaw_rate = 0.0
            return latent
        self._yaw_rate += (yaw_rate - self._yaw_rate) * CONTROL_DT_S / self.LAG_S
        turned, fastest = wrap_angle(self._heading - before), self.FASTEST_RAD_PER_S * CONTROL_DT_S
        if abs(turned) <= fastest:  # neither a jump nor not a number
            missing = self.missing_rad + self._yaw_rate * CONTROL_DT_S - turned
            self.missing_rad = min(max(missing, -self.MOST_RAD), self.MOST_RAD)
        more = self.GAIN_PER_S * self.missing_rad / MAX_YAW_RATE_RAD_PER_S
        return np.array((latent[0], latent[1] + more))


# As it stands in the contract.
HEADING_HOLD = {
    "gain_per_s": HeadingHold.GAIN_PER_S,
    "most_rad": HeadingHold.MOST_RAD,
    "lag_s": HeadingHold.LAG_S,
    "fastest_rad_per_s": HeadingHold.FASTEST_RAD_PER_S,
}
