"""A map-aware high level: steers by the true pose and the true map, as an upper bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.low_level import MAX_SPEED_M_PER_S, latent_for
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Layout, Scene
from pixelgait.sim.world.traversability import TraversabilityMap

HOLD_STEPS = 20  # of a decision: five a second; ours
# It walks to where its way is after half a metre, or less where it is tight; straight on, further.
LOOK_CELLS, LOOK_CELLS_TIGHT, LOOK_CELLS_STRAIGHT = 5, 3, 15
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error; ours
SLOWS_BY = 1.5  # in a cosine, heading errors: from 1 rad on it nearly turns on the spot; ours
# Who turns about goes on as he has begun: round the shorter side he could see neither why nor when
# that side changes, and no student could learn it. It costs a quarter of a turn at most.
BEHIND_RAD = 0.75 * math.pi  # a way so far round may be turned to on either side
TURNING_RAD = 0.05  # since the last decision: more than swaying
BEYOND_M = 0.3  # a goal without a destination is reached when it lies this far behind


class Teacher:
    """Knows the way through any scene, from the shapes it is made of, to where it ends."""

    def __init__(self, body: RobotBase) -> None:
        self.body = body
        self._layout: Layout | None = None  # that it knows its way in
        self._map: TraversabilityMap
        self._costs: Array
        self._yaw: float  # at its last decision [rad]

    def decide(self, *_: object) -> Decision:
        """The decision for where the robot is now, whatever the camera sees."""
        x, y, yaw = planar_pose(self.body)
        if self._layout is not self.body.layout:
            self._learn(self.body.scene, self.body.layout)
            self._yaw = yaw
        turned = wrap_angle(yaw - self._yaw)
        self._yaw = yaw
        error = wrap_angle(self._heading(x, y) - yaw)
        return steer(_way_round(error, turned))

    def _heading(self, x: float, y: float) -> float:
        """In which direction its way leads from a place [rad]."""
        near = LOOK_CELLS if self._map.turnable[self._map.cell(x, y)] else LOOK_CELLS_TIGHT
        to_x, to_y = self._map.ahead(self._costs, x, y, near, LOOK_CELLS_STRAIGHT)
        return math.atan2(to_y - y, to_x - x)

    def _learn(self, scene: Scene, layout: Layout) -> None:
        self._map = walk_map(scene, layout, self.body.spec.stand_height_m)
        self._costs = self._map.costs_to_go(_goals(scene, self._map))
        self._layout = layout


def steer(error_rad: float) -> Decision:
    """Towards a place on this bearing [rad]: the faster, the straighter ahead it is."""
    speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(SLOWS_BY * max(-1.0, min(1.0, error_rad))))
    return Decision(latent_for(speed, TURN_GAIN * error_rad), HOLD_STEPS)


def _way_round(error_rad: float, turned_rad: float) -> float:
    """How far to turn [rad], having turned so far since the last decision: on, if it is about."""
    against = error_rad * turned_rad < 0.0 and abs(turned_rad) > TURNING_RAD
    if against and abs(error_rad) > BEHIND_RAD:
        return error_rad - math.copysign(2.0 * math.pi, error_rad)
    return error_rad


def _goals(scene: Scene, traversability_map: TraversabilityMap) -> NDArray[np.int64]:
    """Cells (n, 2) where the way ends: the destination, the goal, or as far as the map goes."""
    cells = traversability_map.cells
    places = traversability_map.places(cells)
    if scene.goal_position is not None:
        away = np.hypot(*(places - scene.goal_position).T)
        return np.asarray(cells[[away.argmin()]])
    progress = np.array([scene.progress_m(x, y) for x, y in places.tolist()])
    return np.asarray(cells[progress >= min(scene.goal_m + BEYOND_M, progress.max())])
