"""Collision guard: how far the commanded way is free of obstacles in the map."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.mapping.local_map import AHEAD_M, ASIDE_M, CELL_M, Surroundings
from pixelgait.robot.spec import Array, RobotSpec

LOOK_M = 0.3  # ahead of the robot: from 0.6 m/s it stands after 0.1 m; assumption
MARGIN_M = 0.05  # beside the feet, and ahead of the camera; assumption
SAMPLES = 6  # of the way


class CollisionGuard:
    """Judges velocity commands by obstacles that were seen."""

    def __init__(self, spec: RobotSpec) -> None:
        feet = np.abs(spec.feet_m).max(axis=0)
        margin_m = MARGIN_M + CELL_M / 2.0  # places are middles of cells
        self._front_m = max(float(feet[0]), spec.camera.position_m[0]) + margin_m
        self._half_m = float(feet[1]) + margin_m
        self._places = np.zeros((0, 2))  # of obstacles, x, y [m] in odometry's frame

    def update(self, around: Surroundings) -> None:
        """Take over the obstacles of the map."""
        row, column = np.nonzero(around.obstacles())
        ahead = AHEAD_M - (row + 0.5) * CELL_M
        left = ASIDE_M - (column + 0.5) * CELL_M
        near = (np.abs(left) < 1.0) & (np.abs(ahead) < 1.0)
        x, y, heading_rad = around.place
        self._places = np.array((x, y)) + _turned(ahead[near], left[near], heading_rad)

    def free_m(self, x: float, y: float, heading_rad: float, speed: float, turn: float) -> float:
        """Free way [m] of a robot there at this speed [m/s] and yaw rate [rad/s]; inf: all of it.

        A robot that turns on the spot is not judged: it may turn away.
        """
        if speed <= 0.02 or not len(self._places):
            return math.inf
        away = self._places - np.array((x, y))
        places = _turned(away[:, 0], away[:, 1], -heading_rad)
        ways = np.linspace(0.0, LOOK_M, SAMPLES)
        bend = ways * (turn / speed)  # heading after each way
        half = bend / 2.0
        chord = ways * np.sinc(half / np.pi)
        ahead, left = chord * np.cos(half), chord * np.sin(half)
        cos, sin = np.cos(bend)[:, None], np.sin(bend)[:, None]
        dx, dy = places[:, 0] - ahead[:, None], places[:, 1] - left[:, None]
        front, side = cos * dx + sin * dy, cos * dy - sin * dx
        # What is beside or under the body already does not get nearer by going on.
        hit = (front > 0.0) & (front < self._front_m) & (np.abs(side) < self._half_m)
        hits = np.flatnonzero(hit.any(axis=1))
        return float(ways[hits[0]]) if hits.size else math.inf


def _turned(x: Array, y: Array, angle_rad: float) -> Array:
    """Vectors (n, 2) turned by an angle."""
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return np.stack((cos * x - sin * y, sin * x + cos * y), axis=-1)
