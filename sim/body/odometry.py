"""Odometry: where a robot believes it is, with errors that add up on the way."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array


class DriftingOdometry:
    """The true motion, step by step, with every length too long or short and every metre turned.

    It begins at the true pose: its frame is then the world's, and stays while the robot drifts.
    What is read has noise besides, anew every time: x and y `noise_m` of standard deviation, the
    heading as many radians as that is metres. `rng` is where noise is drawn from.
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
        self._believed = np.zeros(3)

    def read(self, true: Array) -> Array:
        """The believed pose (3,) x, y [m], heading [rad] of a robot whose true one is this now."""
        if self._true is None:
            self._believed = true
        else:
            x, y = _turned(true[:2] - self._true[:2], -self._true[2])
            step = self.scale * np.array((x, y))
            bent = self.turn_rad_per_m * np.hypot(x, y)
            heading = self._believed[2] + wrap_angle(true[2] - self._true[2]) + bent
            moved = self._believed[:2] + _turned(step, self._believed[2])
            self._believed = np.array((*moved, wrap_angle(heading)))
        self._true = true
        if self.noise_m == 0.0:
            return self._believed
        x, y, yaw = self._believed + self._rng.normal(0.0, self.noise_m, 3)
        return np.array((x, y, wrap_angle(yaw)))


def _turned(vector: Array, angle: float) -> Array:
    """A vector (2,) turned by an angle [rad]."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array((cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]))
