"""Poisson-disc placement of boxes on a platform, with free ground around each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, WIDTH_M
from pixelgait.sim.world.scene import STORE, Box, Pose

# Free ground between the circumscribed circles of any two boxes. It is more than a robot's width
# (0.5 m), so that no row of boxes can close the platform.
GAP_M = 0.6
FIRST_M, LAST_M = 1.5, LENGTH_M - 1.5  # range of the boxes' middles along x
ASIDE_M = WIDTH_M / 2 - 0.25  # and across, to either side
AHEAD_M = (1.8, 3.5)  # distance of the box that is always straight ahead
TRIES = 100  # to place one box

Place = tuple[float, float]  # x, y [m]


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
