"""The teacher as training and evaluation ask it: it says so where no way leads."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.control.controller import ARRIVAL_M
from pixelgait.robot.errors import UserError
from pixelgait.sim.scenes.registry import HOUSES
from pixelgait.sim.tasks.dynamic_window_teacher import ForesightedTeacher
from pixelgait.sim.world.raster import REACH_M
from pixelgait.sim.world.scene import Layout, Scene
from pixelgait.sim.world.traversability import HALF_WIDTH_M

FURTHEST_M = REACH_M - HALF_WIDTH_M  # the map's edge is a wall


class CheckedTeacher(ForesightedTeacher):
    """Where no way leads to the destination the teacher goes as near as it can, and never arrives.

    Nobody could learn from that, and a success rate of 0 would not say why. Houses have a map of
    their own, from which they draw their destinations.
    """

    def _learn(self, scene: Scene, layout: Layout) -> None:
        """Raises UserError if a scene of the user's own has no way to its destination."""
        super()._learn(scene, layout)
        if scene.goal_position is None or scene.name in HOUSES:
            return
        x, y = map(float, scene.goal_position)
        where = f"scene {scene.name}: no way to its destination ({x:g}, {y:g})"
        start = layout.start
        if max(abs(x - start.x), abs(y - start.y)) > FURTHEST_M:
            raise UserError(
                f"{where} from the start ({start.x:g}, {start.y:g}): the teacher's map ends there, "
                f"expected within {FURTHEST_M:g} m along x and y"
            )
        # The one goal is the free cell nearest to the destination; it alone has no way to go.
        row, column = np.unravel_index(np.argmin(self._costs), self._costs.shape)
        end_x, end_y = self._map.place((int(row), int(column)))
        if math.hypot(end_x - x, end_y - y) > ARRIVAL_M:
            raise UserError(
                f"{where}: the nearest place with room for a robot that can be walked to is "
                f"({end_x:.2f}, {end_y:.2f}), expected one within {ARRIVAL_M:g} m"
            )
