"""Collision guard: how far the commanded path is free of obstacles in the map."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.mapping.local_map import AHEAD_M, ASIDE_M, CELL_M, Surroundings
from pixelgait.robot.spec import Array, RobotSpec

LOOK_M = 0.3  # ahead of the robot: from 0.6 m/s it stands after 0.1 m; assumption
MARGIN_M = 0.05  # around feet and camera; assumption
SAMPLES = 6  # of the path
SLOWEST_M_PER_S = 0.02  # slower is a turn on the spot


class CollisionGuard:
    """Judges velocity commands by obstacles that were seen."""

    def __init__(self, spec: RobotSpec) -> None:
        length, width = np.abs(spec.feet_m).max(axis=0)
        length = max(float(length), spec.camera.position_m[0])
        # Half of the body's length and width; places are middles of cells.
        self._half_m = length + CELL_M / 2.0, float(width) + CELL_M / 2.0
        self._around: Surroundings | None = None
        self._places = np.zeros((0, 2))  # of obstacles, x, y [m] in odometry's frame

    def look(self, around: Surroundings) -> None:
        """Take over the obstacles of the newest map, once."""
        if around is self._around:
            return
        self._around = around
        row, column = np.nonzero(around.obstacles())
        ahead = AHEAD_M - (row + 0.5) * CELL_M
        left = ASIDE_M - (column + 0.5) * CELL_M
        near = (np.abs(left) < 1.0) & (np.abs(ahead) < 1.0)
        x, y, heading_rad = around.place
        self._places = np.array((x, y)) + _turned(ahead[near], left[near], heading_rad)

    def free_m(self, x: float, y: float, heading_rad: float, velocity: Array) -> float:
        """Free distance [m] of a robot there with this velocity (3,), see `controller.velocity`.

        inf: it does not meet anything within `LOOK_M`. A robot that turns on the spot is not
        judged: it may turn away.
        """
        speed = math.hypot(velocity[0], velocity[1])
        if speed < SLOWEST_M_PER_S or not len(self._places):
            return math.inf
        away = self._places - np.array((x, y))
        places = _turned(away[:, 0], away[:, 1], -heading_rad)
        distances_m = np.linspace(0.0, LOOK_M, SAMPLES)
        bend = distances_m * (velocity[2] / speed)  # of the heading, after each
        chord = distances_m * np.sinc(bend / 2.0 / np.pi)
        course = math.atan2(velocity[1], velocity[0])
        ahead, left = chord * np.cos(course + bend / 2.0), chord * np.sin(course + bend / 2.0)
        cos, sin = np.cos(bend)[:, None], np.sin(bend)[:, None]
        dx, dy = places[:, 0] - ahead[:, None], places[:, 1] - left[:, None]
        front, side = np.abs(cos * dx + sin * dy), np.abs(cos * dy - sin * dx)
        meets = (front < self._half_m[0] + MARGIN_M) & (side < self._half_m[1] + MARGIN_M)
        # Obstacles beside the body, not ahead of it, do not come nearer.
        cos0, sin0 = math.cos(course), math.sin(course)
        reach_m = abs(cos0) * self._half_m[0] + abs(sin0) * self._half_m[1]
        is_ahead = cos0 * places[:, 0] + sin0 * places[:, 1] > reach_m
        hits = np.flatnonzero((meets & (is_ahead | ~meets[0])).any(axis=1))
        return float(distances_m[hits[0]]) if hits.size else math.inf


def _turned(x: Array, y: Array, angle_rad: float) -> Array:
    """Vectors (n, 2) turned by an angle."""
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return np.stack((cos * x - sin * y, sin * x + cos * y), axis=-1)
