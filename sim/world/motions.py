"""Motions of shapes as arrays: one formula for engines, gliding robots, cameras and the teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import Layout, Motion, Pose, Waypoint

# A motion without a path swings for ever about a frame that stands. A power of two: the time it has
# swung is the time since the reset, bit for bit.
FOREVER_S = 2.0**20
STANDING = (Waypoint(0.0, 0.0, 0.0), Waypoint(FOREVER_S, 0.0, 0.0, 0.0, FOREVER_S))


class Motions(NamedTuple):
    """Motions of n shapes."""

    own: Array  # (n, 4) pose in the frame of the path: x, y, z [m], yaw [rad]
    reach_m: Array  # (n, 3)
    period_s: Array  # (n,)
    first: NDArray[np.int64]  # (n + 1,) rows of `path` that are a shape's
    path: Array  # (m, 5) time [s], x, y [m], yaw [rad], time for which it has swung [s]


def motions_of(moving: Sequence[tuple[Motion, Pose]]) -> Motions:
    """Arrays of motions, and of the poses of their shapes in the layout."""
    paths = [_whole(motion.path or STANDING) for motion, _ in moving]
    rows = [(p.time_s, p.x, p.y, p.yaw, p.swung_s) for path in paths for p in path]
    return Motions(
        np.array([(own.x, own.y, own.z, own.yaw) for _, own in moving]).reshape(-1, 4),
        np.array([motion.reach_m for motion, _ in moving], np.float64).reshape(-1, 3),
        np.array([motion.period_s for motion, _ in moving], np.float64),
        np.array([0, *accumulate(map(len, paths))], np.int64),
        np.array(rows, np.float64).reshape(-1, 5),
    )


def _whole(path: Sequence[Waypoint]) -> Sequence[Waypoint]:
    """A path of at least two waypoints."""
    return path if len(path) > 1 else (path[0], *path[:1])


def pose_at(motions: Motions, i: int, time_s: float) -> tuple[float, float, float, float]:
    """Position x, y, z [m] and yaw [rad] of a shape at a time after the reset [s]."""
    path, low, high = motions.path, motions.first[i], motions.first[i + 1] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if path[middle, 0] <= time_s:
            low = middle
        else:
            high = middle
    share = (time_s - path[low, 0]) / max(path[high, 0] - path[low, 0], 1e-9)
    share = min(max(share, 0.0), 1.0)
    x = path[low, 1] + share * (path[high, 1] - path[low, 1])
    y = path[low, 2] + share * (path[high, 2] - path[low, 2])
    yaw = path[low, 3] + share * (path[high, 3] - path[low, 3])
    swung_s = path[low, 4] + share * (path[high, 4] - path[low, 4])
    swung = math.sin(2.0 * math.pi * swung_s / motions.period_s[i])
    ahead = motions.own[i, 0] + swung * motions.reach_m[i, 0]
    left = motions.own[i, 1] + swung * motions.reach_m[i, 1]
    up = motions.own[i, 2] + swung * motions.reach_m[i, 2]
    cos, sin = math.cos(yaw), math.sin(yaw)
    x, y = x + cos * ahead - sin * left, y + sin * ahead + cos * left
    return x, y, up, yaw + motions.own[i, 3]


def placed(layout: Layout, time_s: float = 0.0) -> list[Pose]:
    """Poses of all movable shapes at a time after the reset [s]."""
    poses = list(layout.movable)
    motions = layout_motions(layout)
    for i, motion in enumerate(layout.motions):
        poses[motion.shape] = Pose(*map(float, pose_at(motions, i, time_s)))
    return poses


def layout_motions(layout: Layout) -> Motions:
    """Arrays of a layout's motions."""
    return motions_of([(each, layout.movable[each.shape]) for each in layout.motions])


def fastest_m_per_s(motion: Motion, own: Pose, radius_m: float) -> float:
    """Bound on the horizontal speed of a shape's points, `radius_m` about its middle."""
    swing = 2.0 * math.pi * math.hypot(*motion.reach_m[:2]) / motion.period_s
    if not motion.path:
        return swing
    turned_m = math.hypot(own.x, own.y) + math.hypot(*motion.reach_m[:2]) + radius_m
    fastest = 0.0
    for a, b in zip(motion.path, motion.path[1:], strict=False):
        moved = math.hypot(b.x - a.x, b.y - a.y) + abs(b.yaw - a.yaw) * turned_m
        moved += swing * (b.swung_s - a.swung_s)
        fastest = max(fastest, moved / max(b.time_s - a.time_s, 1e-9))
    return fastest
