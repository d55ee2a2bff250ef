"""Point goals indoors: a start and a goal on a map, and the geodesic distance between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import Box, Pose, Scene
from pixelgait.sim.world.traversability import CELL_M, Cell, TraversabilityMap

LEAST_PATH_SHARE = 0.5  # the start's way to the goal, at least, as a share of the longest there is
MARK_HALF_M = (0.25, 0.25, 0.005)  # on the floor: no obstacle, and nothing to a depth camera
GOAL_COLOUR = (0.05, 0.85, 0.15)
SAMPLES = 4  # per cell of a straight line, of which all must be free


class Indoor(Scene):
    """A scene with a map. The destination has a green mark on the floor.

    Progress is minus the length of the way that is left: round walls and through doors.
    """

    has_goal_position = True
    mark = Box(Pose(0.0, 0.0, 0.0), MARK_HALF_M, GOAL_COLOUR)
    map: TraversabilityMap  # of the last layout, as is what follows
    floor_m: float
    distances: Array  # from every cell to the goal (rows, columns) [m]
    start: tuple[int, int]  # cell

    def point_goal(
        self, rng: np.random.Generator, traversability_map: TraversabilityMap, floor_m: float
    ) -> list[Pose]:
        """Draw start and goal: poses of the robot and of the mark."""
        self.map, self.floor_m = traversability_map, floor_m
        goal = traversability_map.draw(rng)
        self.distances = traversability_map.geodesic_distances(goal)
        least = LEAST_PATH_SHARE * self.distances[traversability_map.turnable].max()
        far = np.argwhere(traversability_map.turnable & (self.distances >= least))
        row, column = far[rng.integers(len(far))].tolist()
        self.start = row, column
        x, y = traversability_map.place(self.start)
        heading = float(rng.uniform(-math.pi, math.pi))  # as in Habitat: the way may be behind
        self.goal_position = np.array(traversability_map.place(goal))
        return [
            Pose(x, y, floor_m, heading),
            Pose(*traversability_map.place(goal), floor_m + MARK_HALF_M[2]),
        ]

    def progress_m(self, x: float, y: float) -> float:
        return -self.map.geodesic_distance(self.distances, x, y)

    def path_length_m(self, x: float, y: float) -> float:
        path = self.map.path(self.distances, self.map.cell(x, y))
        return straightened_length_m(self.map.free, path)

    def ground_m(self, x: float, y: float) -> float | None:
        return self.floor_m if self.map.covers(x, y) else None


def straightened_length_m(free: NDArray[np.bool_], path: Sequence[Cell]) -> float:
    """The shortest way from the first to the last cell (row, column) of a path, in straight lines
    between some of its cells [m], all of it over `free` ones (rows, columns).

    No less than the shortest of all ways, whose corners need not be on the path.
    """
    points = np.array(path, dtype=np.float64)
    shortest = np.full(len(points), np.inf)
    shortest[0] = 0.0
    for number in range(1, len(points)):
        before = points[:number]
        lengths = shortest[:number] + np.hypot(*(points[number] - before).T)
        for last in np.argsort(lengths):  # the first that can be seen is the best
            if last == number - 1 or _sees(free, points[last], points[number]):
                shortest[number] = lengths[last]
                break
    return float(shortest[-1]) * CELL_M


def _sees(free: NDArray[np.bool_], start: NDArray[np.float64], end: NDArray[np.float64]) -> bool:
    """Whether a straight line between the middles of two cells is free."""
    count = 1 + int(SAMPLES * np.abs(end - start).max())
    shares = np.linspace(0.0, 1.0, count + 1)[:, None]
    rows, columns = np.rint(start + shares * (end - start)).astype(np.int64).T
    return bool(free[rows, columns].all())
