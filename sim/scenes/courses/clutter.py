"""Clutter: boxes of many sizes all over a platform."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.sim.scenes.courses.raised_platform import OnPlatform, place_boxes
from pixelgait.sim.world.scene import STORE, Box, Layout

BOX_COUNTS = (6, 20)  # at difficulty 0 and 1; hardly more than 20 fit
HALF_SIDE_M = (0.08, 0.25)
HALF_HEIGHT_M = (0.15, 0.40)
SIZES_SEED = 0
COLOURS = ((0.20, 0.35, 0.70), (0.70, 0.60, 0.15), (0.55, 0.20, 0.50))


class Clutter(OnPlatform):
    """Platform along x with boxes, which have the same sizes and new places in every episode."""

    name = "clutter"

    def __init__(self, difficulty: float = 0.5) -> None:
        rng = np.random.default_rng(SIZES_SEED)
        count = round(float(np.interp(difficulty, (0.0, 1.0), BOX_COUNTS)))
        self.movable: list[Box] = [_box(rng, i) for i in range(count)]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Place box by box where there is room; the first straight ahead of the robot."""
        start = self.platform.start(rng)
        return Layout(start, place_boxes(rng, start, self.movable, (0.0, math.pi)))


def _box(rng: np.random.Generator, i: int) -> Box:
    half_x, half_y = rng.uniform(*HALF_SIDE_M, 2).tolist()
    size = (half_x, half_y, float(rng.uniform(*HALF_HEIGHT_M)))
    return Box(STORE, size, COLOURS[i % len(COLOURS)])
