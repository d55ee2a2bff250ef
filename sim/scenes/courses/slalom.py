"""A slalom: rows of narrow walls across a platform, one in the middle, then two at the sides."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, OnPlatform
from pixelgait.sim.world.scene import Box, Layout, Pose

HEIGHT_M = 0.8
THICKNESS_M = 0.12
# From poles to walls, at difficulty 0 and 1. A robot 0.5 m wide cannot pass wide ones straight:
# 0.34 m + 0.25 m from the middle row's axis is more than the 0.9 m - 0.34 m - 0.25 m that a side
# row leaves free, whatever the shift.
HALF_WALL_M = (0.08, 0.34)
SPACING_M = (2.4, 1.6)  # between rows, at difficulty 0 and 1
FIRST_ROW_M = 2.0
SIDE_M = 0.9  # of a side wall's middle from the platform's
SHIFT_M = 0.1  # of a row, at most, along and across
COLOUR = (0.80, 0.50, 0.10)


class Slalom(OnPlatform):
    """Platform along x with rows of walls to weave through; every episode shifts each row."""

    name = "slalom"

    def __init__(self, difficulty: float = 0.5) -> None:
        spacing = np.interp(difficulty, (0.0, 1.0), SPACING_M)
        self.row_x = np.arange(FIRST_ROW_M, LENGTH_M - 2.0 + 1e-9, spacing)
        half_wall = float(np.interp(difficulty, (0.0, 1.0), HALF_WALL_M))
        size = (THICKNESS_M / 2, half_wall, HEIGHT_M / 2)
        self.walls = [(float(x), y) for i, x in enumerate(self.row_x) for y in _row(i)]
        self.movable = [Box(Pose(x, y, HEIGHT_M / 2), size, COLOUR) for x, y in self.walls]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Shift every row; the robot starts near the middle."""
        places = []
        for i, x in enumerate(self.row_x):
            dx, dy = rng.uniform(-SHIFT_M, SHIFT_M, 2).tolist()
            places += [Pose(float(x) + dx, y + dy, HEIGHT_M / 2) for y in _row(i)]
        start = self.platform.start(rng)
        return Layout(start, places)


def _row(i: int) -> tuple[float, ...]:
    """Positions of the walls of row i across the platform [m]."""
    return (0.0,) if i % 2 == 0 else (-SIDE_M, SIDE_M)
