"""Raised platform along x with its top at z = 0: the ground of obstacle courses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.world.ground import Ground, make_ground, open_rectangle
from pixelgait.sim.world.scene import STORE, Box, Pose, Scene

# Assumption: the IAP paper gives no sizes.
WIDTH_M, LENGTH_M = 3.0, 13.0  # ahead of the robot
START_M = 1.0  # behind it
PLATFORM_HEIGHT_M = 1.0  # the surroundings lie this much lower
PLATFORM_COLOUR = (0.62, 0.60, 0.55)
GROUND_COLOUR = (0.10, 0.16, 0.10)

# Free ground between the circumscribed circles of any two boxes. It is more than a robot's width
# (0.5 m), so that no row of boxes can close the platform.
GAP_M = 0.6
FIRST_M, LAST_M = 1.5, LENGTH_M - 1.5  # range of the boxes' middles along x
ASIDE_M = WIDTH_M / 2 - 0.25  # and across, to either side
AHEAD_M = (1.8, 3.5)  # distance of the box that is always straight ahead
TRIES = 100  # to place one box

Place = tuple[float, float]  # x, y [m]


@dataclass(frozen=True, slots=True)
class Platform:
    """From `START_M` behind the origin to `length_m` ahead of it, `width_m` wide."""

    width_m: float
    length_m: float

    def boxes(self) -> tuple[Box, Box]:
        """The platform and the ground below it."""
        middle, half = (self.length_m - START_M) / 2, (self.length_m + START_M) / 2
        ground = Pose(middle, 0, -PLATFORM_HEIGHT_M - 0.5)
        return (
            Box(Pose(middle, 0, -0.25), (half, self.width_m / 2, 0.25), PLATFORM_COLOUR),
            Box(ground, (30, 30, 0.5), GROUND_COLOUR),
        )

    def start(self, rng: np.random.Generator) -> Pose:
        """Draw a start near the middle, heading about ahead."""
        return Pose(0.0, float(rng.uniform(-0.5, 0.5)), 0.0, float(rng.uniform(-0.2, 0.2)))

    def ground(self) -> Ground:
        """Its top."""
        y = self.width_m / 2
        return make_ground([open_rectangle(-START_M, self.length_m, -y, y)])


class OnPlatform(Scene):
    """A platform with obstacles; the goal is a metre before its end."""

    platform = Platform(WIDTH_M, LENGTH_M)
    fixed = platform.boxes()
    goal_m = LENGTH_M - 1.0
    _ground = platform.ground()


def place_boxes(
    rng: np.random.Generator, start: Pose, boxes: Sequence[Box], turns: tuple[float, float]
) -> list[Pose]:
    """Poses of boxes that are placed one by one where there is room, each turned within `turns`.

    The first is straight ahead of the robot; boxes without room are in the store.
    """
    ahead = float(rng.uniform(*AHEAD_M))
    place: Place | None
    place = ahead * math.cos(start.yaw), start.y + ahead * math.sin(start.yaw)
    places: list[Place] = []
    radii: list[float] = []
    poses = []
    for box in boxes:
        if places:
            place = _free_place(rng, np.array(places), np.array(radii) + _radius(box) + GAP_M)
        if place is None:
            poses.append(STORE)
            continue
        places.append(place)
        radii.append(_radius(box))
        poses.append(Pose(*place, box.half_m[2], float(rng.uniform(*turns))))
    return poses


def _radius(box: Box) -> float:
    """Radius of the circle around a footprint [m]."""
    return math.hypot(*box.half_m[:2])


def _free_place(rng: np.random.Generator, places: Array, distances: Array) -> Place | None:
    """A random place at least `distances` (n,) from `places` (n, 2), if one is found."""
    tries = rng.uniform((FIRST_M, -ASIDE_M), (LAST_M, ASIDE_M), (TRIES, 2))
    apart = np.linalg.norm(tries[:, None] - places, axis=2) > distances
    free = apart.all(axis=1).nonzero()[0]
    return (float(tries[free[0], 0]), float(tries[free[0], 1])) if len(free) else None
