"""Poses of the base over the last tenths of a second: where it was when an image was taken."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.rotation import Vector
from pixelgait.robot.spec import Array, RobotSpec

# Between two readings: more is a jump of the odometry, not of the robot. Assumption: 20 m/s.
JUMP_M, JUMP_RAD = 0.2, 0.3
KEPT_S = 0.5  # an image that is older when it arrives is not used; assumption


class Poses:
    """Positions (3,) [m] and rotations (3, 3) of the base, by their times."""

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._poses: list[tuple[Vector, Array]] = []

    def add(self, time_s: float, position: Vector, rotation: Array) -> None:
        """Add the newest pose, unless its time is known. Time that goes back starts anew."""
        if self._times_s and time_s == self._times_s[-1]:
            return
        if self._times_s and time_s < self._times_s[-1]:
            self._times_s, self._poses = [], []
        self._times_s.append(time_s)
        self._poses.append((position, rotation))
        if self._times_s[0] < time_s - 2.0 * KEPT_S:  # seldom, since it takes time
            old = bisect_right(self._times_s, time_s - KEPT_S) - 1
            del self._times_s[:old], self._poses[:old]

    def at(self, time_s: float) -> tuple[Vector, Array] | None:
        """The pose at a time, linear between two; None: unknown, too long ago.

        A time after the newest pose has that pose.
        """
        later = bisect_right(self._times_s, time_s)
        if later == 0:
            return None
        if later == len(self._times_s):
            return self._poses[-1]
        before_s, after_s = self._times_s[later - 1 : later + 1]
        share = (time_s - before_s) / (after_s - before_s)
        (a, rotation), (b, after) = self._poses[later - 1 : later + 1]
        x, y, z = (one + share * (two - one) for one, two in zip(a, b, strict=True))
        return (x, y, z), rotation + share * (after - rotation)  # 10 ms apart: small angles


class FootHeights:
    """Height of the base above where it started, by its two lowest feet: they bear it."""

    def __init__(self, spec: RobotSpec) -> None:
        self._legs, self._radius_m = LegKinematics(spec), spec.foot_radius_m
        self._before: list[float] | None = None  # heights of the feet below the base
        self.height_m = 0.0

    def step(self, angles: Sequence[float], rotation: Array) -> list[Vector]:
        """Update `height_m`; returns soles of the two feet, from the base, along the world's axes.

        `angles` (12,) [rad], `rotation` (3, 3) of the base.
        """
        rows = rotation.tolist()
        soles = [_turned(rows, foot.position, self._radius_m) for foot in self._legs.feet(angles)]
        heights = [sole[2] for sole in soles]
        before, self._before = self._before, heights
        # Lowest now and before together: those that are lowest now alone have fallen on average.
        both = (
            heights if before is None else [sum(pair) for pair in zip(heights, before, strict=True)]
        )
        first, second = sorted(range(len(both)), key=both.__getitem__)[:2]
        if before is None:
            self.height_m = -(heights[first] + heights[second]) / 2.0
        else:
            fell = heights[first] - before[first] + heights[second] - before[second]
            self.height_m -= fell / 2.0
        return [soles[first], soles[second]]


def jumped(before: Vector, now: Vector) -> bool:
    """Whether odometry, x, y [m] and heading [rad], has jumped between two readings."""
    (was_x, was_y, was_rad), (x, y, heading_rad) = before, now
    turned = math.remainder(heading_rad - was_rad, 2.0 * math.pi)
    return abs(x - was_x) + abs(y - was_y) > JUMP_M or abs(turned) > JUMP_RAD


def _turned(rows: list[list[float]], at: Vector, radius_m: float) -> Vector:
    """The lowest point of a ball `at` in the base frame, along the world's axes."""
    x, y, z = at
    (a, b, c), (d, e, f), (g, h, i) = rows
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z - radius_m
