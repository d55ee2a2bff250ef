"""Point goals indoors: a start, a goal, and the geodesic distance between them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.ground import make_ground, open_rectangle
from pixelgait.sim.world.scene import Box, Pose, Scene
from pixelgait.sim.world.traversability import CELL_M, TraversabilityMap

LEAST_PATH_SHARE = 0.5  # least length of the path to the goal, as a share of the longest
MARK_HALF_M = (0.25, 0.25, 0.005)  # on the floor: no obstacle, and invisible in depth
GOAL_COLOUR = (0.05, 0.85, 0.15)
SAMPLES = 4  # per cell of a straight line, of which all must be free


class Indoor(Scene):
    """A scene with a traversability map and a green mark on the floor at the goal.

    Progress is minus the length of the remaining path, round walls and through doors.
    """

    has_goal_position = True
    draws_reachable_goals = True
    mark = Box(Pose(0.0, 0.0, 0.0), MARK_HALF_M, GOAL_COLOUR)
    map: TraversabilityMap  # this and the following: of the last layout
    distances: Array  # from every cell to the goal (rows, columns) [m]
    start: tuple[int, int]  # cell

    def point_goal(
        self, rng: np.random.Generator, traversability_map: TraversabilityMap, floor_m: float
    ) -> list[Pose]:
        """Draw the poses of the robot at the start and of the mark at the goal."""
        self.map = traversability_map
        self._ground = make_ground([open_rectangle(*traversability_map.extent_m, floor_m)])
        goal = traversability_map.draw(rng)
        self.distances = traversability_map.geodesic_distances(goal)
        least = LEAST_PATH_SHARE * self.distances[traversability_map.turnable].max()
        far = np.argwhere(traversability_map.turnable & (self.distances >= least))
        row, column = far[rng.integers(len(far))].tolist()
        self.start = row, column
        x, y = traversability_map.place(self.start)
        heading = float(
            rng.uniform(-math.pi, math.pi)
        )  # as in Habitat: the path may lead backwards
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


def straightened_length_m(free: NDArray[np.bool_], path: NDArray[np.int64]) -> float:
    """Length of a path (n, 2) [m] after replacing detours by straight lines over `free` cells.

    Lines connect cells (row, column) of the path, so it is never shorter than the shortest path,
    whose corners may be elsewhere. Chamfer distances are up to 8 % more than that.
    """
    from pixelgait.sim.world.map_kernels import straightened

    return straightened(free, path, SAMPLES) * CELL_M
