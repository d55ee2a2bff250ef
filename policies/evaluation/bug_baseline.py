"""A wall-following bug: how far one comes to a destination with touch and patience alone."""

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

FEELS_M = (0.2, 0.3, 0.4)  # where it feels that there is room: as far as a leg reaches
PROBES = 16  # directions in which it feels, all around
ROUND_A_CORNER = 0.5 * math.pi  # [rad] so far to its right it looks for a wall that has ended
NEARER_M = 0.1  # it leaves a wall where it is so much nearer to the destination than it met it


class Bug:
    """Straight to the destination; along what is in the way, on its right; then straight again.

    Bug2 and its kin (Lumelsky and Stepanov 1987) with the rule of leaving of "distbug": where the
    way to the destination is open, and it is nearer than where the wall was met. It reads off the
    map what it could feel, `FEELS_M` around it, and knows pose and destination.
    """

    def __init__(self, body: RobotBase) -> None:
        self.body = body
        self._layout: Layout | None = None  # that it feels its way in
        self._map: TraversabilityMap

    def decide(self, *_: object) -> Decision:
        """The decision for where the robot is now, whatever the camera sees."""
        if self._layout is not self.body.layout:
            self._map = walk_map(self.body.scene, self.body.layout, self.body.spec.stand_height_m)
            self._layout, self._met_m, self._way = self.body.layout, math.inf, 0.0
        goal_position = self.body.scene.goal_position
        if goal_position is None:
            return steer(0.0)
        x, y, yaw = planar_pose(self.body)
        remaining_m = math.dist((x, y), goal_position)
        straight = math.atan2(goal_position[1] - y, goal_position[0] - x)
        if self._open(x, y, straight) and remaining_m < self._met_m - NEARER_M:
            self._met_m, self._way = math.inf, straight
        else:
            if math.isinf(self._met_m):
                self._met_m, self._way = remaining_m, straight + ROUND_A_CORNER
            self._way = self._along(x, y)
        return steer(wrap_angle(self._way - yaw))

    def _along(self, x: float, y: float) -> float:
        """The first open direction [rad], from where the wall was to the left all around."""
        first = self._way - ROUND_A_CORNER
        directions = [first + 2.0 * math.pi * i / PROBES for i in range(PROBES)]
        return next((each for each in directions if self._open(x, y, each)), self._way)

    def _open(self, x: float, y: float, direction: float) -> bool:
        """Whether there is room ahead in a direction [rad]."""
        ahead = [(m * math.cos(direction), m * math.sin(direction)) for m in FEELS_M]
        return all(self._map.free[self._map.cell(x + i, y + j)] for i, j in ahead)
