"""The teacher among what moves: it knows where that will be."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.low_level import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S, STAND
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.tasks.teacher import (
    HOLD_STEPS,
    SLOWS_BY,
    TURN_GAIN,
    Teacher,
    steer,
)
from pixelgait.sim.world.obstacles import MovingObstacle, moving_obstacles
from pixelgait.sim.world.scene import Layout, Scene

# It looks as far ahead in time as it takes to get past somebody, along a fan of directions about
# its way, and keeps so far from them, its middle from their sides: more than half of a robot's
# length. What is missing counts as so much of a detour; what stands in the way, or where the ground
# ends, as more than all of it. All ours.
FAN_RAD = np.radians(np.linspace(-105.0, 105.0, 15))
FORESIGHT_S, EVERY_S = 2.4, 0.1
KEEP_AWAY_M = 0.5
DETOUR_PER_M = 20.0
BLOCKED_M = 100.0
SOME = slice(3, None, 4)  # places of a way that are looked up on the map, 0.24 m apart; its end


class ForesightedTeacher(Teacher):
    """Where nothing moves, the teacher itself; else it tries directions out in its mind.

    In short, a dynamic window (Fox et al. 1997, doi 10.1109/100.580977) over headings, with the
    map's costs to go and obstacles that move on meanwhile.
    """

    _movers: list[MovingObstacle]

    def decide(self, *_: object) -> Decision:
        """The decision for where the robot is now, and for what moves there soon."""
        decision = super().decide()
        return self._past_movers() if self._movers else decision

    def _learn(self, scene: Scene, layout: Layout) -> None:
        super()._learn(scene, layout)
        self._movers = moving_obstacles(scene, layout, self.body.spec.stand_height_m)

    def _past_movers(self) -> Decision:
        """Of the ways around the map's, and of standing, what costs least."""
        x, y, yaw = planar_pose(self.body)
        headings = self._heading(x, y) + FAN_RAD
        errors = (headings - yaw + math.pi) % (2.0 * math.pi) - math.pi
        ways = np.concatenate((_ways(x, y, yaw, errors), _standing(x, y)))
        detours = DETOUR_PER_M * np.maximum(0.0, KEEP_AWAY_M - self._distance_m(ways))
        best = int(np.argmin(detours + [self._remaining_m(way) for way in ways]))
        return steer(float(errors[best])) if best < len(errors) else Decision(STAND, HOLD_STEPS)

    def _distance_m(self, ways: Array) -> Array:
        """How near one comes to what moves (n,), on ways (n, steps, 2) from now on."""
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

    def _remaining_m(self, way: Array) -> float:
        """What is left to go from the end of a way (steps, 2), as the map counts it [m]."""
        cells = [self._map.cell(*place) for place in way[SOME].tolist()]
        blocked = not all(self._map.free[cell] for cell in cells)
        return float(self._costs[cells[-1]]) + BLOCKED_M * blocked


def _ways(x: float, y: float, yaw: float, errors: Array) -> Array:
    """Where `steer` leads to from a pose, towards bearings (n,) [rad]: (n, steps, 2)."""
    headings, places = np.full(len(errors), yaw), np.tile((x, y), (len(errors), 1))
    ways = []
    for _ in range(round(FORESIGHT_S / EVERY_S)):
        left = yaw + errors - headings
        speeds = MAX_SPEED_M_PER_S * np.maximum(0.0, np.cos(SLOWS_BY * np.clip(left, -1.0, 1.0)))
        rates = np.clip(TURN_GAIN * left, -MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S)
        headings = headings + EVERY_S * rates
        ahead = np.stack((np.cos(headings), np.sin(headings)), -1)
        places = places + EVERY_S * speeds[:, None] * ahead
        ways.append(places)
    return np.stack(ways, 1)


def _standing(x: float, y: float) -> Array:
    """The way (1, steps, 2) of who stays where he is."""
    return np.tile((x, y), (1, round(FORESIGHT_S / EVERY_S), 1))
