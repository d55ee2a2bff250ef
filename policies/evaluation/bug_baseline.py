"""Bug baseline: wall following to a goal position by touch alone."""

from __future__ import annotations

import math

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.rotation import wrap_angle
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.tasks.teacher import steer
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Layout
from pixelgait.sim.world.traversability import TraversabilityMap

FEELS_M = (0.2, 0.3, 0.4)  # distances of the probes: as far as a leg reaches
PROBES = 16  # directions of the probes, all around
CORNER_RAD = 0.5 * math.pi  # how far to the right it probes for the end of a wall
NEARER_M = 0.1  # progress since the wall was met, to leave it


class Bug:
    """Walk straight to the goal position, along walls in the way on the right, and straight again.

    Bug2 (Lumelsky and Stepanov 1987) with the leaving rule of DistBug: where the path to the goal
    is open, and nearer to it than where the wall was met. The map within `FEELS_M` replaces touch;
    pose and goal position are known.
    """

    def __init__(self, body: RobotBase) -> None:
        self.body = body
        self._layout: Layout | None = None  # of `_map`
        self._map: TraversabilityMap

    def decide(self, *_: object) -> Decision:
        """The decision at the robot's true pose; the arguments of a high level are not used."""
        if self._layout is not self.body.layout:
            self._map = walk_map(self.body.scene, self.body.layout, self.body.height_m)
            self._layout, self._met_m, self._direction = self.body.layout, math.inf, 0.0
        goal_position = self.body.scene.goal_position
        if goal_position is None:
            return steer(0.0)
        x, y, yaw = planar_pose(self.body)
        remaining_m = math.dist((x, y), goal_position)
        straight = math.atan2(goal_position[1] - y, goal_position[0] - x)
        if self._open(x, y, straight) and remaining_m < self._met_m - NEARER_M:
            self._met_m, self._direction = math.inf, straight
        else:
            if math.isinf(self._met_m):
                self._met_m, self._direction = remaining_m, straight + CORNER_RAD
            self._direction = self._along(x, y)
        return steer(wrap_angle(self._direction - yaw))

    def _along(self, x: float, y: float) -> float:
        """The first open direction [rad], from the wall counter-clockwise."""
        first = self._direction - CORNER_RAD
        directions = [first + 2.0 * math.pi * i / PROBES for i in range(PROBES)]
        return next((each for each in directions if self._open(x, y, each)), self._direction)

    def _open(self, x: float, y: float, direction: float) -> bool:
        """Whether there is room in a direction [rad]."""
        ahead = [(m * math.cos(direction), m * math.sin(direction)) for m in FEELS_M]
        return all(self._map.free[self._map.cell(x + i, y + j)] for i, j in ahead)
