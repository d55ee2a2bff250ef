"""Gates: walls from both sides of a platform, with a gap somewhere between them."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, WIDTH_M, OnPlatform
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose

HEIGHT_M, THICKNESS_M = 0.8, 0.16
FIRST_M = 2.5
# At difficulty 0 and 1. A trotting robot is 0.5 m wide.
GAP_M = (1.3, 0.85)
SPACING_M = (3.0, 2.2)
EDGE_M = 0.1  # least width of the platform beside a gap
COLOUR = (0.25, 0.35, 0.65)


class Gates(OnPlatform):
    """Platform along x; the gap of every gate is drawn."""

    name = "gates"

    def __init__(self, difficulty: float = 0.5) -> None:
        self.gap_m = float(np.interp(difficulty, (0.0, 1.0), GAP_M))
        spacing = float(np.interp(difficulty, (0.0, 1.0), SPACING_M))
        self.gate_x = np.arange(FIRST_M, LENGTH_M - 2.0 + 1e-9, spacing).tolist()
        half = (THICKNESS_M / 2, WIDTH_M / 2, HEIGHT_M / 2)
        self.movable = [Box(STORE, half, COLOUR) for _ in range(2 * len(self.gate_x))]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Slide both walls of every gate in, up to its gap."""
        places = []
        reach = (WIDTH_M - self.gap_m) / 2 - EDGE_M
        for x in self.gate_x:
            middle = float(rng.uniform(-reach, reach))
            aside = (self.gap_m + WIDTH_M) / 2
            places += [Pose(x, middle + side * aside, HEIGHT_M / 2) for side in (-1, 1)]
        return Layout(self.platform.start(rng), places)
