"""Boxes strewn over a platform by Poisson-disc sampling, with ground around each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, WIDTH_M
from pixelgait.sim.world.scene import STORE, Box, Pose

# Free ground between any two boxes, edge to edge of their circumscribed circles. More than a
# robot's width (0.5 m): however they lie, no row of boxes can close the platform.
GAP_M = 0.6
FIRST_M, LAST_M = 1.5, LENGTH_M - 1.5  # along x, where boxes' middles are
ASIDE_M = WIDTH_M / 2 - 0.25  # and across, either way
AHEAD_M = (1.8, 3.5)  # one box always stands this far ahead of the robot
DARTS = 100  # tries to place one box

Place = tuple[float, float]  # x, y [m]


def place_boxes(
    rng: np.random.Generator, start: Pose, boxes: Sequence[Box], turns: tuple[float, float]
) -> list[Pose]:
    """Where boxes are that are thrown one by one where there is room, each turned within `turns`.

    The first is straight ahead of the robot; for whom there is no room is in the store.
    """
    ahead = float(rng.uniform(*AHEAD_M))
    place: Place | None
    place = ahead * math.cos(start.yaw), start.y + ahead * math.sin(start.yaw)
    places: list[Place] = []
    radii: list[float] = []
    poses = []
    for box in boxes:
        if places:
            place = _throw(rng, np.array(places), np.array(radii) + _radius(box) + GAP_M)
        if place is None:
            poses.append(STORE)
            continue
        places.append(place)
        radii.append(_radius(box))
        poses.append(Pose(*place, box.half_m[2], float(rng.uniform(*turns))))
    return poses


def _radius(box: Box) -> float:
    """Of the circle around its outline [m]."""
    return math.hypot(*box.half_m[:2])


def _throw(rng: np.random.Generator, places: Array, distances: Array) -> Place | None:
    """A random place at least `distances` (n,) from `places` (n, 2), if one is found."""
    darts = rng.uniform((FIRST_M, -ASIDE_M), (LAST_M, ASIDE_M), (DARTS, 2))
    apart = np.linalg.norm(darts[:, None] - places, axis=2) > distances
    free = apart.all(axis=1).nonzero()[0]
    return (float(darts[free[0], 0]), float(darts[free[0], 1])) if len(free) else None
