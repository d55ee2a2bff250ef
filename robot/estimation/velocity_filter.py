"""Velocity of the base by its legs and its accelerometer.

Within a stride the trunk swings by 0.1 m/s, which skidding feet tell late and badly; acceleration
tells it at once. Over seconds an integrated acceleration drifts, and the legs are right. A Kalman
filter joins both. The accelerometer's offset, with that of the up direction, is learned from what
the legs correct.
"""

from __future__ import annotations

import math

from pixelgait.robot.interface import GRAVITY_M_PER_S2
from pixelgait.robot.rotation import Vector

# An accelerometer shows gravity at the mean. One that does not has another unit or leaves it out.
GRAVITY_WITHIN = 0.2  # share; assumption
SHOWN_GAIN = 0.01  # of the mean, per step of 10 ms
# Per step of 10 ms; found on walks of validation seeds: docs/robot/odometry.md.
CHANGE_M_PER_S = 0.01  # of the velocity, against the integrated acceleration; standard deviation
OFFSET_GAIN = 0.3  # [1/s] of the offset, by what the legs correct
MOST_M_PER_S = 0.5  # standard deviation, at most


class VelocityFilter:
    """Velocity ahead and to the left [m/s], as in `Motion`."""

    def __init__(self) -> None:
        self.ahead = self.left = self.variance = 0.0
        self._ahead_offset = self._left_offset = 0.0  # of the accelerometer [m/s^2]
        self._shown = GRAVITY_M_PER_S2  # mean length of the specific force

    def usable(self, force: Vector) -> bool:
        """Whether this specific force [m/s^2] in the base's frame is that of an accelerometer."""
        x, y, z = force
        length = math.sqrt(x * x + y * y + z * z)
        if not math.isfinite(length):
            return False
        self._shown += SHOWN_GAIN * (length - self._shown)
        return abs(self._shown / GRAVITY_M_PER_S2 - 1.0) < GRAVITY_WITHIN

    def follow(self, ahead: float, left: float, variance: float) -> None:
        """Take another estimate [m/s]: there is no accelerometer."""
        self.ahead, self.left, self.variance = ahead, left, variance

    def predict(self, ahead: float, left: float, turn: float, step_s: float) -> None:
        """Integrate the acceleration [m/s^2] ahead and to the left of a base that turns [rad/s]."""
        ahead, left = ahead - self._ahead_offset, left - self._left_offset
        self.ahead, self.left = (
            self.ahead + (ahead + turn * self.left) * step_s,
            self.left + (left - turn * self.ahead) * step_s,
        )
        self.variance = min(MOST_M_PER_S**2, self.variance + CHANGE_M_PER_S**2)

    def correct(self, ahead: float, left: float, variance: float) -> None:
        """Correct by the velocity that the legs measure [m/s], of this variance."""
        gain = self.variance / (self.variance + variance)
        self.variance *= 1.0 - gain
        more_ahead, more_left = gain * (ahead - self.ahead), gain * (left - self.left)
        self.ahead, self.left = self.ahead + more_ahead, self.left + more_left
        self._ahead_offset -= OFFSET_GAIN * more_ahead
        self._left_offset -= OFFSET_GAIN * more_left
