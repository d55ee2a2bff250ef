"""Raised platform along x with its top at z = 0: the ground of obstacle courses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pixelgait.sim.world.scene import Box, Pose, Scene

# Assumption: the IAP paper gives no sizes.
WIDTH_M, LENGTH_M = 3.0, 13.0  # ahead of the robot
START_M = 1.0  # behind it
PLATFORM_HEIGHT_M = 1.0  # the surroundings lie this much lower
PLATFORM_COLOUR = (0.62, 0.60, 0.55)
GROUND_COLOUR = (0.10, 0.16, 0.10)


@dataclass(frozen=True, slots=True)
class Platform:
    """From `start_m` behind the origin to `length_m` ahead of it, `width_m` wide."""

    width_m: float
    length_m: float
    start_m: float = START_M

    def boxes(self) -> tuple[Box, Box]:
        """The platform and the ground below it."""
        middle, half = (self.length_m - self.start_m) / 2, (self.length_m + self.start_m) / 2
        ground = Pose(middle, 0, -PLATFORM_HEIGHT_M - 0.5)
        return (
            Box(Pose(middle, 0, -0.25), (half, self.width_m / 2, 0.25), PLATFORM_COLOUR),
            Box(ground, (30, 30, 0.5), GROUND_COLOUR),
        )

    def start(self, rng: np.random.Generator) -> Pose:
        """Draw a start near the middle, heading about ahead."""
        return Pose(0.0, float(rng.uniform(-0.5, 0.5)), 0.0, float(rng.uniform(-0.2, 0.2)))

    def ground_m(self, x: float, y: float) -> float | None:
        """Height at (x, y) [m]; None beside the platform."""
        on_it = -self.start_m < x < self.length_m and abs(y) < self.width_m / 2
        return 0.0 if on_it else None


class OnPlatform(Scene):
    """A platform with obstacles; the goal is a metre before its end."""

    platform = Platform(WIDTH_M, LENGTH_M)
    fixed = platform.boxes()
    goal_m = LENGTH_M - 1.0

    def ground_m(self, x: float, y: float) -> float | None:
        return self.platform.ground_m(x, y)
