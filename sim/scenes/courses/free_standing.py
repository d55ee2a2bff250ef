"""Free-standing walls at many angles, with free ground all around them."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import OnPlatform, place_boxes
from pixelgait.sim.world.scene import STORE, Box, Layout

WALL_COUNTS = (4, 10)  # at difficulty 0 and 1
SHORTEST_M, LONGEST_M = (0.15, 0.3), (0.3, 0.55)  # half lengths, at difficulty 0 and 1
HALF_THICKNESS_M = (0.04, 0.12)
HALF_HEIGHT_M = (0.2, 0.6)
SKEW_RAD = 1.0  # from straight across, to either side
SIZES_SEED = 1
COLOURS = ((0.70, 0.45, 0.20), (0.30, 0.50, 0.35), (0.60, 0.60, 0.65))


class FreeStanding(OnPlatform):
    """Platform along x with walls anywhere on it; one always straight ahead."""

    name = "free-standing"

    def __init__(self, difficulty: float = 0.5) -> None:
        rng = np.random.default_rng(SIZES_SEED)
        count = round(float(np.interp(difficulty, (0.0, 1.0), WALL_COUNTS)))
        shortest, longest = (
            float(np.interp(difficulty, (0.0, 1.0), ends)) for ends in (SHORTEST_M, LONGEST_M)
        )
        self.movable: list[Box] = []
        for i in range(count):
            half = (
                float(rng.uniform(*HALF_THICKNESS_M)),
                float(rng.uniform(shortest, longest)),
                float(rng.uniform(*HALF_HEIGHT_M)),
            )
            self.movable.append(Box(STORE, half, COLOURS[i % len(COLOURS)]))

    def layout(self, rng: np.random.Generator) -> Layout:
        """Place wall by wall where there is room; the first straight ahead of the robot."""
        start = self.platform.start(rng)
        return Layout(start, place_boxes(rng, start, self.movable, (-SKEW_RAD, SKEW_RAD)))
