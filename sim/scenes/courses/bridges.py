"""Bridges: wide platforms with narrow ones between them, each further left or right."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import (
    GROUND_COLOUR,
    PLATFORM_COLOUR,
    PLATFORM_HEIGHT_M,
)
from pixelgait.sim.world.ground import make_ground, open_rectangle
from pixelgait.sim.world.scene import Box, Layout, Pose, Scene

START_M, LENGTH_M = -1.0, 13.0
WIDE_M = 3.0
NARROW_M = (1.5, 1.0)  # wide, at difficulty 0 and 1
WIDE_LENGTH_M, BRIDGE_M = (2.2, 1.8), (1.2, 2.2)  # along x, at difficulty 0 and 1
EDGE_M = 0.1  # least width of the wide platform beside a bridge
OVERLAP_M = 0.02  # of one platform into the next: no gap


class Bridges(Scene):
    """Wide and narrow platforms in turn along x, without obstacles."""

    name = "bridges"
    goal_m = LENGTH_M - 1.0

    def __init__(self, difficulty: float = 0.5) -> None:
        self.narrow_m, wide_m, bridge_m = (
            float(np.interp(difficulty, (0.0, 1.0), ends))
            for ends in (NARROW_M, WIDE_LENGTH_M, BRIDGE_M)
        )
        ends, at, narrow = [START_M], START_M + 1.0 + wide_m, False
        while at < LENGTH_M - 1.0:
            ends.append(at)
            narrow = not narrow
            at += bridge_m if narrow else wide_m
        ends.append(LENGTH_M)
        pieces = list(pairwise(ends))
        self.wide, self.bridges = pieces[::2], pieces[1::2]
        ground = Pose(LENGTH_M / 2, 0.0, -PLATFORM_HEIGHT_M - 0.5)
        surroundings = Box(ground, (30, 30, 0.5), GROUND_COLOUR)
        self.fixed = (surroundings, *(_platform(*ends, WIDE_M) for ends in self.wide))
        self.movable = [_platform(*ends, self.narrow_m) for ends in self.bridges]
        self._shift([0.0] * len(self.bridges))

    def layout(self, rng: np.random.Generator) -> Layout:
        """Shift every bridge; the robot starts near the middle."""
        reach = (WIDE_M - self.narrow_m) / 2 - EDGE_M
        self._shift(rng.uniform(-reach, reach, len(self.bridges)).tolist())
        places = [
            Pose(box.pose.x, y, box.pose.z)
            for box, y in zip(self.movable, self.aside_m, strict=True)
        ]
        yaw = float(rng.uniform(-0.2, 0.2))
        return Layout(Pose(0.0, float(rng.uniform(-0.5, 0.5)), 0.0, yaw), places)

    def _shift(self, aside_m: list[float]) -> None:
        """Put every bridge aside; their ends touch the wide platforms."""
        self.aside_m = aside_m  # in the last layout
        wide = [open_rectangle(low, high, -WIDE_M / 2, WIDE_M / 2) for low, high in self.wide]
        half = self.narrow_m / 2
        narrow = [
            (low, math.nextafter(high, math.inf), aside - half, aside + half, 0.0)
            for (low, high), aside in zip(self.bridges, aside_m, strict=True)
        ]
        self._ground = make_ground([*wide, *narrow])


def _platform(low: float, high: float, width_m: float) -> Box:
    half = ((high - low) / 2 + OVERLAP_M / 2, width_m / 2, 0.25)
    return Box(Pose((low + high) / 2, 0.0, -0.25), half, PLATFORM_COLOUR)
