"""The obstacle course of the IAP paper (arXiv 2102.04353, section 5.3): a platform with walls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, WIDTH_M, OnPlatform
from pixelgait.sim.world.scene import Box, Layout, Pose

# Assumption: the paper gives no sizes. Medium difficulty (0.5): walls over 40 to 50 % of a 3 m wide
# platform, every 2.5 m.
WALL_THICKNESS_M = 0.16
WALL_HEIGHT_M = 0.8
FIRST_WALL_M = 2.5
BLOCKED = (0.30, 0.50)  # least fraction of the width a wall blocks, at difficulty 0 and 1
BLOCKED_SPREAD = 0.10
SPACING_M = (3.0, 2.0)  # between walls, at difficulty 0 and 1
WALL_COLOUR = (0.75, 0.30, 0.20)


@dataclass(frozen=True, slots=True)
class Wall:
    """A wall across the platform at x, from one side over `blocked` metres of its width."""

    x: float
    side: float  # +1: from the left (positive y), -1: from the right
    blocked: float


class ObstacleCourse(OnPlatform):
    """Platform along x with walls across it; the top of the platform is z = 0."""

    name = "obstacle-course"

    def __init__(self, difficulty: float = 0.5) -> None:
        self.least_blocked = float(np.interp(difficulty, (0.0, 1.0), BLOCKED))
        spacing = np.interp(difficulty, (0.0, 1.0), SPACING_M)
        self.wall_x = np.arange(FIRST_WALL_M, LENGTH_M - 2.0 + 1e-9, spacing)
        self.wall_length = WIDTH_M * (self.least_blocked + BLOCKED_SPREAD)
        self.walls: list[Wall] = []  # of the last layout
        size = (WALL_THICKNESS_M / 2, self.wall_length / 2, WALL_HEIGHT_M / 2)
        self.movable = [Box(Pose(x, 0, WALL_HEIGHT_M / 2), size, WALL_COLOUR) for x in self.wall_x]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Slide every wall in from a random side, over a random part of the width."""
        self.walls, places = [], []
        for x in self.wall_x:
            blocked = WIDTH_M * (self.least_blocked + BLOCKED_SPREAD * float(rng.random()))
            side = 1.0 if rng.random() < 0.5 else -1.0
            self.walls.append(Wall(float(x), side, blocked))
            y = side * (WIDTH_M / 2 - blocked + self.wall_length / 2)
            places.append(Pose(x, y, WALL_HEIGHT_M / 2))
        start = self.platform.start(rng)
        return Layout(start, places)
