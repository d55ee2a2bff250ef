"""Clutter: boxes of many sizes strewn over a platform by Poisson-disc sampling."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import Platform
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose, Scene

WIDTH_M = 3.0
LENGTH_M = 13.0
BOX_COUNTS = (6, 20)  # at difficulty 0 and 1; 20 are about as many as find room
HALF_SIDE_M = (0.08, 0.25)
HALF_HEIGHT_M = (0.15, 0.40)
# Free ground between any two boxes, edge to edge of their circumscribed circles. More than a
# robot's width (0.5 m): however they lie, no row of boxes can close the platform.
GAP_M = 0.6
FIRST_M, LAST_M = 1.5, LENGTH_M - 1.5  # along x, where boxes' middles are
AHEAD_M = (1.8, 3.5)  # one box always stands this far ahead of the robot
DARTS = 100  # tries to place one box
SIZES_SEED = 0
COLOURS = ((0.20, 0.35, 0.70), (0.70, 0.60, 0.15), (0.55, 0.20, 0.50))


class Clutter(Scene):
    """Platform along x with boxes; their sizes stay, their places are new in every episode."""

    name = "clutter"
    goal_m = LENGTH_M - 1.0

    def __init__(self, difficulty: float = 0.5) -> None:
        self.platform = Platform(WIDTH_M, LENGTH_M)
        self.fixed = self.platform.boxes()
        rng = np.random.default_rng(SIZES_SEED)
        count = round(float(np.interp(difficulty, (0.0, 1.0), BOX_COUNTS)))
        self.movable: list[Box] = [_box(rng, i) for i in range(count)]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Throw box by box where there is room; the first straight ahead of the robot."""
        start = self.platform.start(rng)
        ahead = float(rng.uniform(*AHEAD_M))
        places = [(ahead * math.cos(start.yaw), start.y + ahead * math.sin(start.yaw))]
        radii = [radius(self.movable[0])]
        poses = [_pose(rng, self.movable[0], places[0])]
        for box in self.movable[1:]:
            place = throw(rng, np.array(places), np.array(radii) + radius(box) + GAP_M)
            if place is None:
                poses.append(STORE)
                continue
            places.append(place)
            radii.append(radius(box))
            poses.append(_pose(rng, box, place))
        return Layout(start, poses)

    def ground_m(self, x: float, y: float) -> float | None:
        return self.platform.ground_m(x, y)


def _box(rng: np.random.Generator, i: int) -> Box:
    half_x, half_y = rng.uniform(*HALF_SIDE_M, 2).tolist()
    size = (half_x, half_y, float(rng.uniform(*HALF_HEIGHT_M)))
    return Box(STORE, size, COLOURS[i % len(COLOURS)])


def radius(box: Box) -> float:
    """Of the circle around its outline [m]."""
    return math.hypot(*box.half_m[:2])


def _pose(rng: np.random.Generator, box: Box, place: tuple[float, float]) -> Pose:
    return Pose(*place, box.half_m[2], float(rng.uniform(0.0, math.pi)))


def throw(rng: np.random.Generator, places: Array, distances: Array) -> tuple[float, float] | None:
    """A random place at least `distances` (n,) from `places` (n, 2), if one is found."""
    side = WIDTH_M / 2 - HALF_SIDE_M[1]
    darts = rng.uniform((FIRST_M, -side), (LAST_M, side), (DARTS, 2))
    apart = np.linalg.norm(darts[:, None] - places, axis=2) > distances
    free = apart.all(axis=1).nonzero()[0]
    return (float(darts[free[0], 0]), float(darts[free[0], 1])) if len(free) else None
