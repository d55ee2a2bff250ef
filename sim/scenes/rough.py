"""Rough ground: a height field that every episode shifts and turns."""

from __future__ import annotations

import math

import cv2
import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import GROUND_COLOUR, PLATFORM_HEIGHT_M
from pixelgait.sim.world.scene import ORIGIN, Box, HeightField, Layout, Pose, Scene, interpolate

GRID_M = 0.15  # finer than a robot's stance (0.36 m x 0.26 m), and 15 ms an image in PyBullet
GRID_POINTS = (140, 100)  # 21 m along x, 15 m across
BUMP_M = 0.2  # the bumps' size: standard deviation of the blur
# Standard deviation of the heights at difficulty 0 and 1; slopes of 1 and 8 degrees are typical.
# The feet of a trotting A1 clear about 5 cm.
ROUGHNESS_M = (0.003, 0.025)
CLIP = 2.5  # standard deviations: no height beyond, so that a standing robot is never low
MIDDLE_M = 5.0  # of the field, along x
SLIDE_M = 2.0  # largest shift of the field, along and across
FOOTPRINT_M = 0.4  # radius around the start, so that no foot begins inside the ground
COLOUR = (0.70, 0.60, 0.42)
NOISE_SEED = 0


class Rough(Scene):
    """Uneven ground around z = 0: one field, shifted and turned by 0 or 180 degrees."""

    name = "rough"
    goal_m = 12.0

    def __init__(self, difficulty: float = 0.5) -> None:
        roughness = float(np.interp(difficulty, (0.0, 1.0), ROUGHNESS_M))
        self.heights = roughness * _noise()
        ground = Pose(MIDDLE_M, 0.0, -PLATFORM_HEIGHT_M - 0.5)
        self.fixed = (Box(ground, (30, 30, 0.5), GROUND_COLOUR),)
        self.movable = (HeightField(self.heights, GRID_M, COLOUR),)
        self.field = ORIGIN  # in the last layout

    def layout(self, rng: np.random.Generator) -> Layout:
        """Shift and turn the field; the robot starts on top of it."""
        dx, dy = rng.uniform(-SLIDE_M, SLIDE_M, 2).tolist()
        field = Pose(MIDDLE_M + dx, dy, 0.0, math.pi if rng.random() < 0.5 else 0.0)
        self.field = field
        start = Pose(0.0, 0.0, self._highest(field), float(rng.uniform(-0.2, 0.2)))
        return Layout(start, (field,))

    def ground_m(self, x: float, y: float) -> float | None:
        half_x, half_y = ((n - 1) * GRID_M / 2 for n in GRID_POINTS)
        if abs(x - MIDDLE_M) >= half_x - SLIDE_M or abs(y) >= half_y - SLIDE_M:
            return None
        sign = 1.0 if self.field.yaw == 0.0 else -1.0
        along, across = sign * (x - self.field.x), sign * (y - self.field.y)
        return interpolate(self.heights, (along + half_x) / GRID_M, (across + half_y) / GRID_M)

    def _highest(self, field: Pose) -> float:
        """Height of the highest ground around the start [m]."""
        sign = 1.0 if field.yaw == 0.0 else -1.0
        x, y = ((np.arange(n) - (n - 1) / 2) * sign * GRID_M for n in GRID_POINTS)
        near = np.hypot(field.x + x[:, None], field.y + y) < FOOTPRINT_M
        return float(self.heights[near].max())


def _noise() -> Array:
    """Smooth noise (GRID_POINTS) with standard deviation 1, clipped."""
    white = np.random.default_rng(NOISE_SEED).standard_normal(GRID_POINTS)
    smooth = cv2.GaussianBlur(white, (0, 0), BUMP_M / GRID_M)
    return np.asarray(np.clip((smooth - smooth.mean()) / smooth.std(), -CLIP, CLIP))
