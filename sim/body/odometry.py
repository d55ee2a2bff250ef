"""Odometry with drift: errors of scale and heading that accumulate with distance."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array


class DriftingOdometry:
    """Integrates the true motion, scaled and turned by a constant angle per metre.

    It begins at the true pose, so its frame is the world's at first. Every reading has noise of a
    standard deviation of `noise_m` [m] in x and y, and of the same number [rad] in the heading,
    drawn from `rng`.
    """

    def __init__(
        self,
        scale: float = 1.0,
        turn_rad_per_m: float = 0.0,
        noise_m: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.scale, self.turn_rad_per_m, self.noise_m = scale, turn_rad_per_m, noise_m
        self._rng = rng or np.random.default_rng(0)
        self._true: Array | None = None
        self._estimate = np.zeros(3)

    def read(self, true: Array) -> Array:
        """Estimated pose (3,) x, y [m], heading [rad], given the true one."""
        if self._true is None:
            self._estimate = true
        else:
            x, y = _turned(true[:2] - self._true[:2], -self._true[2])
            step = self.scale * np.array((x, y))
            bent = self.turn_rad_per_m * np.hypot(x, y)
            heading = self._estimate[2] + wrap_angle(true[2] - self._true[2]) + bent
            moved = self._estimate[:2] + _turned(step, self._estimate[2])
            self._estimate = np.array((*moved, wrap_angle(heading)))
        self._true = true
        if self.noise_m == 0.0:
            return self._estimate
        x, y, yaw = self._estimate + self._rng.normal(0.0, self.noise_m, 3)
        return np.array((x, y, wrap_angle(yaw)))


def _turned(vector: Array, angle: float) -> Array:
    """A vector (2,) rotated by an angle [rad]."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array((cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]))
