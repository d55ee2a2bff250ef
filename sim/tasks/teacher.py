"""A map-aware high level: steers by the true pose and the true map, as an upper bound."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    Decision,
    latent_for,
)
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import Walker
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.obstacles import Mover, movers
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Layout, Scene
from pixelgait.sim.world.traversability import TraversabilityMap

HOLD_STEPS = 20
LOOK_CELLS, LOOK_CELLS_TIGHT = 5, 3  # it walks to where its way is after half a metre, or less
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error
# Who turns about goes on as he has begun: round the shorter side he could see neither why nor when
# that side changes, and no student could learn it. It costs a quarter of a turn at most.
BEHIND_RAD = 0.75 * math.pi  # a way so far round may be turned to on either side
TURNING_RAD = 0.05  # since the last decision: more than swaying
BEYOND_M = 0.3  # a goal without a destination is reached when it lies this far behind

# Of what moves it knows where it will be. It looks as far ahead in time as it takes to get past
# somebody, along a fan of directions about its way, and stays so far from them, middle to side:
# more than half of a robot's length. What is missing counts as so much of a detour; all ours.
FAN_RAD = np.radians(np.linspace(-105.0, 105.0, 15))
FORESIGHT_S, EVERY_S = 2.4, 0.1
KEEP_AWAY_M = 0.5
DETOUR_PER_M = 20.0
BLOCKED_M = 5.0  # the detour that a way through what stands is worth


class Teacher:
    """Knows the way through any scene, from the shapes it is made of, to where it ends."""

    def __init__(self, body: Walker) -> None:
        self.body = body
        self._layout: Layout | None = None  # that it knows its way in
        self._map: TraversabilityMap
        self._costs: Array
        self._movers: list[Mover]
        self._yaw: float  # at its last decision [rad]

    def decide(self, *_: object) -> Decision:
        """The decision for where the robot is now, whatever the camera sees."""
        x, y, yaw = planar_pose(self.body)
        if self._layout is not self.body.layout:
            self._learn(self.body.scene, self.body.layout)
            self._yaw = yaw
        turned = wrap_angle(yaw - self._yaw)
        self._yaw = yaw
        far = LOOK_CELLS if self._map.turnable[self._map.cell(x, y)] else LOOK_CELLS_TIGHT
        target_x, target_y = self._map.ahead(self._costs, x, y, far)
        error = _way_round(wrap_angle(math.atan2(target_y - y, target_x - x) - yaw), turned)
        return self._past_movers(error, x, y, yaw) if self._movers else steer(error)

    def _learn(self, scene: Scene, layout: Layout) -> None:
        self._map = walk_map(scene, layout, self.body.spec.stand_height_m)
        self._costs = self._map.costs_to_go(_goals(scene, self._map))
        self._movers = movers(scene, layout, self.body.spec.stand_height_m)
        self._layout = layout

    def _past_movers(self, error_rad: float, x: float, y: float, yaw: float) -> Decision:
        """Of the ways around the one on this bearing [rad], and of standing, what costs least."""
        errors = error_rad + FAN_RAD
        ways = np.concatenate((_ways(x, y, yaw, yaw + errors), _standing(x, y)))
        detours = DETOUR_PER_M * np.maximum(0.0, KEEP_AWAY_M - self._distance_m(ways))
        best = int(np.argmin(detours + [self._left_m(way) for way in ways]))
        return steer(errors[best]) if best < len(errors) else Decision(STAND, HOLD_STEPS)

    def _distance_m(self, ways: Array) -> Array:
        """How near to what moves (n,) one comes on ways (n, steps, 2) from now on."""
        times = self.body.time_s + EVERY_S * np.arange(1, ways.shape[1] + 1)
        nearest = np.full(len(ways), np.inf)
        for mover in self._movers:
            poses = [mover.pose(time_s) for time_s in times]
            away = ways - [(pose.x, pose.y) for pose in poses]
            cos, sin = math.cos(mover.middle.yaw), math.sin(mover.middle.yaw)
            local = np.stack((away @ (cos, sin), away @ (-sin, cos)), -1)
            outside = np.maximum(0.0, np.abs(local) - mover.box.half_m[:2])
            nearest = np.minimum(nearest, np.hypot(*np.moveaxis(outside, -1, 0)).min(1))
        return nearest

    def _left_m(self, way: Array) -> float:
        """What is left to go from the end of a way (steps, 2), as the map counts it [m]."""
        cells = [self._map.cell(*place) for place in way[4::5].tolist()]
        blocked = not all(self._map.free[cell] for cell in cells)
        return float(self._costs[cells[-1]]) + BLOCKED_M * blocked


def steer(error_rad: float) -> Decision:
    """Towards a place on this bearing [rad]: the faster, the straighter ahead it is."""
    speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(1.5 * max(-1.0, min(1.0, error_rad))))
    return Decision(latent_for(speed, TURN_GAIN * error_rad), HOLD_STEPS)


def _ways(x: float, y: float, yaw: float, headings: Array) -> Array:
    """Where `steer` leads to from a pose towards headings (n,) [rad]: (n, steps, 2)."""
    yaws, places = np.full(len(headings), yaw), np.tile((x, y), (len(headings), 1))
    ways = []
    for _ in range(round(FORESIGHT_S / EVERY_S)):
        errors = headings - yaws
        speeds = MAX_SPEED_M_PER_S * np.maximum(0.0, np.cos(1.5 * np.clip(errors, -1.0, 1.0)))
        rates = np.clip(TURN_GAIN * errors, -MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S)
        yaws = yaws + EVERY_S * rates
        places = places + EVERY_S * speeds[:, None] * np.stack((np.cos(yaws), np.sin(yaws)), -1)
        ways.append(places)
    return np.stack(ways, 1)


def _standing(x: float, y: float) -> Array:
    """The way (1, steps, 2) of who stays where he is."""
    return np.tile((x, y), (1, round(FORESIGHT_S / EVERY_S), 1))


def _way_round(error_rad: float, turned_rad: float) -> float:
    """How far to turn [rad], having turned so far since the last decision: on, if it is about."""
    against = error_rad * turned_rad < 0.0 and abs(turned_rad) > TURNING_RAD
    if against and abs(error_rad) > BEHIND_RAD:
        return error_rad - math.copysign(2.0 * math.pi, error_rad)
    return error_rad


def _goals(scene: Scene, traversability_map: TraversabilityMap) -> NDArray[np.int64]:
    """Cells (n, 2) where the way ends: the destination, the goal, or as far as the map goes."""
    cells = traversability_map.cells
    places = np.array([traversability_map.place((row, column)) for row, column in cells.tolist()])
    if scene.destination is not None:
        away = np.hypot(*(places - scene.destination).T)
        return np.asarray(cells[[away.argmin()]])
    progress = np.array([scene.progress_m(x, y) for x, y in places.tolist()])
    return np.asarray(cells[progress >= min(scene.goal_m + BEYOND_M, progress.max())])
