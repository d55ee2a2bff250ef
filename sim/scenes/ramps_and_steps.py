"""Ramps and steps: strips along x that lead up and down again."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import (
    GROUND_COLOUR,
    PLATFORM_COLOUR,
    PLATFORM_HEIGHT_M,
)
from pixelgait.sim.scenes.rough import COLOUR
from pixelgait.sim.world.scene import Box, HeightField, Layout, Pose, Scene

START_M = 1.5  # level ground around the start, ahead and behind
LENGTH_M, HALF_WIDTH_M = 15.0, 2.4
START_SHIFT_M, START_YAW_RAD = 0.3, 0.1  # ranges of the start, to either side
SURROUNDINGS = Box(Pose(0.0, 0.0, -PLATFORM_HEIGHT_M - 0.5), (30, 30, 0.5), GROUND_COLOUR)

STEEPEST_RAD = float(np.radians(20.0))  # ramps at difficulty 1, proportional to it
RAMP_M = 1.5  # length along x of a ramp, and of the level ground between two
CELL_M = 0.15

HIGHEST_M = 0.06  # a step at difficulty 1, proportional to it
TREAD_M = 0.5
FLIGHT = (0, 1, 2, 3, 3, 2, 1, 0)  # heights of its treads, in steps
TREAD_COLOURS = (PLATFORM_COLOUR, (0.55, 0.53, 0.48))  # in turn


class RampsAndSteps(Scene):
    """A strip along x whose height depends on x alone."""

    goal_m = 12.0

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a start near the middle, heading about ahead."""
        x, y = rng.uniform(-START_SHIFT_M, START_SHIFT_M, 2).tolist()
        return Layout(Pose(x, y, 0.0, float(rng.uniform(-START_YAW_RAD, START_YAW_RAD))))

    def ground_m(self, x: float, y: float) -> float | None:
        on_it = -START_M < x < LENGTH_M and abs(y) < HALF_WIDTH_M
        return self._height_m(x) if on_it else None

    @abstractmethod
    def _height_m(self, x: float) -> float:
        """Height of the ground at x [m]."""


class Ramps(RampsAndSteps):
    """Up, along, down, along."""

    name = "ramps"

    def __init__(self, difficulty: float = 0.5) -> None:
        rise = RAMP_M * float(np.tan(difficulty * STEEPEST_RAD))
        self.knots_x = START_M + RAMP_M * np.arange(9)
        self.knots_z = rise * np.array([0, 1, 1, 0, 0, 1, 1, 0, 0])
        points = np.arange(-START_M, LENGTH_M + CELL_M / 2, CELL_M)
        profile: Array = np.interp(points, self.knots_x, self.knots_z)
        heights = np.repeat(profile[:, None], 1 + round(2 * HALF_WIDTH_M / CELL_M), axis=1)
        middle = Pose(float(points.mean()), 0.0, 0.0)
        self.fixed = (SURROUNDINGS, HeightField(heights, CELL_M, COLOUR, pose=middle))

    def _height_m(self, x: float) -> float:
        return float(np.interp(x, self.knots_x, self.knots_z))


class Steps(RampsAndSteps):
    """Flights of low stairs."""

    name = "steps"

    def __init__(self, difficulty: float = 0.5) -> None:
        treads = round((LENGTH_M - START_M) / TREAD_M)
        self.heights_m = [difficulty * HIGHEST_M * FLIGHT[i % len(FLIGHT)] for i in range(treads)]
        start = Box(Pose(0.0, 0.0, -0.25), (START_M, HALF_WIDTH_M, 0.25), PLATFORM_COLOUR)
        self.fixed = (SURROUNDINGS, start, *(self._tread(i) for i in range(treads)))

    def _tread(self, i: int) -> Box:
        middle = Pose(START_M + (i + 0.5) * TREAD_M, 0.0, self.heights_m[i] - 0.25)
        return Box(middle, (TREAD_M / 2, HALF_WIDTH_M, 0.25), TREAD_COLOURS[i % 2])

    def _height_m(self, x: float) -> float:
        return self.heights_m[int((x - START_M) / TREAD_M)] if x > START_M else 0.0
