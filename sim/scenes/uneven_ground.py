"""Uneven ground: a rough height field, ramps, and steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import (
    GROUND_COLOUR,
    PLATFORM_COLOUR,
    PLATFORM_HEIGHT_M,
)
from pixelgait.sim.world.ground import make_ground, open_rectangle
from pixelgait.sim.world.scene import ORIGIN, Box, HeightField, Layout, Pose, Scene
from pixelgait.sim.world.texture import Colour

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
START_M = 1.5  # level ground around the start, ahead and behind
LENGTH_M, HALF_WIDTH_M = 15.0, 2.4
START_SHIFT_M, START_YAW_RAD = 0.3, 0.1  # ranges of the start, to either side
SURROUNDINGS = Box(Pose(0.0, 0.0, -PLATFORM_HEIGHT_M - 0.5), (30, 30, 0.5), GROUND_COLOUR)

STEEPEST_RAD = float(np.radians(20.0))  # ramps at difficulty 1, proportional to it
RAMP_M = 1.5  # length along x of a ramp, and of the level ground between two
CELL_M = 0.15

HIGHEST_M = 0.06  # a step at difficulty 1, proportional to it
TREAD_M, STAIR_M = 0.5, 0.3  # length along x of a low and of a usual stair
FLIGHT = (0, 1, 2, 3, 3, 2, 1, 0)  # heights of its treads, in steps
HIGHEST_KERB_M = 0.10  # at difficulty 1, proportional to it
TREAD_COLOURS = (PLATFORM_COLOUR, (0.55, 0.53, 0.48))  # in turn


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
        self._lay(ORIGIN)

    def layout(self, rng: np.random.Generator) -> Layout:
        """Shift and turn the field; the robot starts on top of it."""
        dx, dy = rng.uniform(-SLIDE_M, SLIDE_M, 2).tolist()
        field = Pose(MIDDLE_M + dx, dy, 0.0, math.pi if rng.random() < 0.5 else 0.0)
        self._lay(field)
        start = Pose(0.0, 0.0, self._highest(field), float(rng.uniform(-0.2, 0.2)))
        return Layout(start, (field,))

    def _lay(self, field: Pose) -> None:
        """Put the field at a pose; where it may not reach there is no ground."""
        half_x, half_y = ((n - 1) * GRID_M / 2 - SLIDE_M for n in GRID_POINTS)
        around = open_rectangle(MIDDLE_M - half_x, MIDDLE_M + half_x, -half_y, half_y)
        sign = 1.0 if field.yaw == 0.0 else -1.0
        self._ground = make_ground([around], self.heights, (field.x, field.y, sign, GRID_M))

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


STRIP = open_rectangle(-START_M, LENGTH_M, -HALF_WIDTH_M, HALF_WIDTH_M)


class RampsAndSteps(Scene):
    """A strip along x whose height depends on x alone."""

    goal_m = 12.0

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a start near the middle, heading about ahead."""
        x, y = rng.uniform(-START_SHIFT_M, START_SHIFT_M, 2).tolist()
        return Layout(Pose(x, y, 0.0, float(rng.uniform(-START_YAW_RAD, START_YAW_RAD))))


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
        x = [*STRIP[:1], *self.knots_x.tolist(), LENGTH_M]
        z = [0.0, *self.knots_z.tolist(), 0.0]
        slopes = np.diff(z) / np.diff(x)
        self._ground = make_ground(
            [(*x[i : i + 2], *STRIP[2:4], z[i], slopes[i]) for i in range(len(slopes))]
        )


class Flight(RampsAndSteps):
    """Some stairs up, or one kerb, then level ground: trials of walkers."""

    name = "flight"

    def __init__(self, rises_m: Sequence[float]) -> None:
        heights = np.cumsum(rises_m).tolist()
        ends = [START_M + STAIR_M * (i + 1) for i in range(len(heights) - 1)]
        edges = [-START_M, START_M, *ends, LENGTH_M]
        self.top_m = edges[-2]  # where the level ground begins
        floors = list(zip(edges, edges[1:], [0.0, *heights], strict=False))
        self.fixed = (
            SURROUNDINGS,
            *(_floor(floor, TREAD_COLOURS[i % 2]) for i, floor in enumerate(floors)),
        )
        self._ground = make_ground([(*ends, *STRIP[2:4], height) for *ends, height in floors])


def _floor(floor: tuple[float, float, float], colour: Colour) -> Box:
    """A box across the strip, by its begin, end and height [m]."""
    begin, end, height_m = floor
    half = (end - begin) / 2, HALF_WIDTH_M, 0.25
    return Box(Pose((begin + end) / 2, 0.0, height_m - 0.25), half, colour)


class Steps(RampsAndSteps):
    """Flights of low stairs."""

    name = "steps"
    start_m, tread_m = START_M, TREAD_M
    highest_m = HIGHEST_M
    flight: tuple[int, ...] = FLIGHT

    def __init__(self, difficulty: float = 0.5) -> None:
        treads = round((LENGTH_M - self.start_m) / self.tread_m)
        rises = [self.flight[i % len(self.flight)] for i in range(treads)]
        self.heights_m = [difficulty * self.highest_m * rise for rise in rises]
        middle = (self.start_m - START_M) / 2
        half = ((self.start_m + START_M) / 2, HALF_WIDTH_M, 0.25)
        start = Box(Pose(middle, 0.0, -0.25), half, PLATFORM_COLOUR)
        self.fixed = (SURROUNDINGS, start, *(self._tread(i) for i in range(treads)))
        edges = [*STRIP[:1], *(self.start_m + self.tread_m * np.arange(treads)).tolist(), LENGTH_M]
        heights = [0.0, *self.heights_m]
        self._ground = make_ground(
            [(*edges[i : i + 2], *STRIP[2:4], heights[i]) for i in range(len(heights))]
        )

    def _tread(self, i: int) -> Box:
        middle = Pose(self.start_m + (i + 0.5) * self.tread_m, 0.0, self.heights_m[i] - 0.25)
        return Box(middle, (self.tread_m / 2, HALF_WIDTH_M, 0.25), TREAD_COLOURS[i % 2])


class Kerb(Steps):
    """A kerb up, 0.95 m on its top, and down; then level ground."""

    name = "kerb"
    goal_m = 3.0
    start_m, tread_m = 0.75, 0.95
    highest_m = HIGHEST_KERB_M
    flight = (1, *(0,) * 14)
