"""Teacher: map-aware high level that steers by the true pose and the true map (upper bound)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import (
    ARRIVAL_M,
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    Decision,
    latent_for,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.scenes.registry import HOUSES
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.obstacles import MovingObstacle, moving_obstacles
from pixelgait.sim.world.raster import REACH_M, walk_map
from pixelgait.sim.world.scene import Layout, Scene
from pixelgait.sim.world.traversability import HALF_WIDTH_M, TraversabilityMap

HOLD_STEPS = 20  # of a decision: five a second; assumption
# It walks to the point of its path half a metre ahead, nearer where it is tight, further where the
# path is straight.
LOOK_CELLS, LOOK_CELLS_TIGHT, LOOK_CELLS_STRAIGHT = 5, 3, 15
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error  # assumption
SLOWS_BY = (
    1.5  # in a cosine, heading errors: from 1 rad on it nearly turns on the spot  # assumption
)
# A turn to a path behind the robot goes on as it began. Without this hysteresis the shorter side
# can change, for reasons a student does not see and cannot learn. It costs a quarter turn at most.
BEHIND_RAD = 0.75 * math.pi  # heading error from which on either side will do
TURNING_RAD = 0.05  # since the last decision: more than swaying
BEYOND_M = 0.3  # a goal that is no position is reached when it lies this far behind
# Among moving obstacles: a fan of headings about the path, each predicted over a horizon. Clearance
# is from the robot's centre to an obstacle's side: more than half of a robot's length. What lacks
# costs a detour; a blocked path costs more than any detour. All assumptions.
FAN_RAD = np.radians(np.linspace(-105.0, 105.0, 15))
HORIZON_S, STEP_S = 2.4, 0.1
CLEARANCE_M = 0.5
DETOUR_PER_M = 20.0
BLOCKED_M = 100.0
CHECKED = slice(3, None, 4)  # steps of a path looked up on the map: 0.24 m apart, and the last
FURTHEST_M = REACH_M - HALF_WIDTH_M  # the map's edge is a wall


class Teacher:
    """Follows the shortest path of a scene's map to its goal, and avoids moving obstacles.

    Among moving obstacles it is a dynamic window (Fox et al. 1997, doi 10.1109/100.580977) over
    headings, with the map's costs to go and the obstacles' known motion.
    """

    def __init__(self, body: RobotBase) -> None:
        self.body = body
        self._layout: Layout | None = None  # of `_map`
        self._map: TraversabilityMap
        self._costs: Array
        self._movers: list[MovingObstacle]
        self._yaw: float  # at the last decision [rad]

    def decide(self, *_: object) -> Decision:
        """The decision at the robot's true pose; the arguments of a high level are not used.

        Raises:
            UserError: if a user's scene has no path to its goal position.
        """
        x, y, yaw = planar_pose(self.body)
        if self._layout is not self.body.layout:
            self._learn(self.body.scene, self.body.layout)
            self._yaw = yaw
        turned = wrap_angle(yaw - self._yaw)
        self._yaw = yaw
        if self._movers:
            return self._avoid_movers(x, y, yaw)
        error = wrap_angle(self._heading(x, y) - yaw)
        return steer(_turn(error, turned))

    def _heading(self, x: float, y: float) -> float:
        """Direction of the path at a position [rad]."""
        near = LOOK_CELLS if self._map.turnable[self._map.cell(x, y)] else LOOK_CELLS_TIGHT
        to_x, to_y = self._map.ahead(self._costs, x, y, near, LOOK_CELLS_STRAIGHT)
        return math.atan2(to_y - y, to_x - x)

    def _learn(self, scene: Scene, layout: Layout) -> None:
        self._map = walk_map(scene, layout, self.body.spec.stand_height_m)
        self._costs = self._map.costs_to_go(_goals(scene, self._map))
        self._layout = layout
        self._movers = moving_obstacles(scene, layout, self.body.spec.stand_height_m)
        if (
            scene.goal_position is not None and scene.name not in HOUSES
        ):  # houses draw reachable ones
            self._require_path(scene, *map(float, scene.goal_position))

    def _require_path(self, scene: Scene, x: float, y: float) -> None:
        """Raises UserError if there is no path to the goal position: nothing could be learned."""
        where = f"scene {scene.name}: no path to its goal position ({x:g}, {y:g})"
        start = self.body.layout.start
        if max(abs(x - start.x), abs(y - start.y)) > FURTHEST_M:
            raise UserError(
                f"{where} from the start ({start.x:g}, {start.y:g}): the teacher's map ends there, "
                f"expected within {FURTHEST_M:g} m along x and y"
            )
        # The goal is the free cell nearest to the goal position; only its cost is zero.
        row, column = np.unravel_index(np.argmin(self._costs), self._costs.shape)
        end_x, end_y = self._map.place((int(row), int(column)))
        if math.hypot(end_x - x, end_y - y) > ARRIVAL_M:
            raise UserError(
                f"{where}: the nearest position with room for a robot that can be reached is "
                f"({end_x:.2f}, {end_y:.2f}), expected one within {ARRIVAL_M:g} m"
            )

    def _avoid_movers(self, x: float, y: float, yaw: float) -> Decision:
        """The cheapest of the headings about the path, and of standing."""
        headings = self._heading(x, y) + FAN_RAD
        errors = (headings - yaw + math.pi) % (2.0 * math.pi) - math.pi
        stand = np.tile((x, y), (1, round(HORIZON_S / STEP_S), 1))
        paths = np.concatenate((_predicted_paths(x, y, yaw, errors), stand))
        detours = DETOUR_PER_M * np.maximum(0.0, CLEARANCE_M - self._clearance_m(paths))
        best = int(np.argmin(detours + [self._remaining_m(path) for path in paths]))
        return steer(float(errors[best])) if best < len(errors) else Decision(STAND, HOLD_STEPS)

    def _clearance_m(self, paths: Array) -> Array:
        """Least distance (n,) [m] to moving obstacles on paths (n, steps, 2) from now on."""
        times = self.body.time_s + STEP_S * np.arange(1, paths.shape[1] + 1)
        nearest = np.full(len(paths), np.inf)
        for mover in self._movers:
            poses = [mover.pose(time_s) for time_s in times]
            away = paths - [(pose.x, pose.y) for pose in poses]
            cos, sin = math.cos(mover.middle.yaw), math.sin(mover.middle.yaw)
            local = np.stack((away @ (cos, sin), away @ (-sin, cos)), -1)
            outside = np.maximum(0.0, np.abs(local) - mover.box.half_m[:2])
            nearest = np.minimum(nearest, np.hypot(*np.moveaxis(outside, -1, 0)).min(1))
        return nearest

    def _remaining_m(self, path: Array) -> float:
        """Cost to go [m] from the end of a path (steps, 2)."""
        cells = [self._map.cell(*place) for place in path[CHECKED].tolist()]
        blocked = not all(self._map.free[cell] for cell in cells)
        return float(self._costs[cells[-1]]) + BLOCKED_M * blocked


def steer(error_rad: float) -> Decision:
    """The decision for a heading error [rad]: the straighter ahead, the faster."""
    speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(SLOWS_BY * max(-1.0, min(1.0, error_rad))))
    return Decision(latent_for(speed, TURN_GAIN * error_rad), HOLD_STEPS)


def _turn(error_rad: float, turned_rad: float) -> float:
    """The turn [rad] to take, of up to 2 pi, after such a turn since the last decision."""
    against = error_rad * turned_rad < 0.0 and abs(turned_rad) > TURNING_RAD
    if against and abs(error_rad) > BEHIND_RAD:
        return error_rad - math.copysign(2.0 * math.pi, error_rad)
    return error_rad


def _goals(scene: Scene, traversability_map: TraversabilityMap) -> NDArray[np.int64]:
    """Cells (n, 2) where the path ends: goal position, goal line, or as far as the map goes."""
    cells = traversability_map.cells
    places = traversability_map.places(cells)
    if scene.goal_position is not None:
        away = np.hypot(*(places - scene.goal_position).T)
        return np.asarray(cells[[away.argmin()]])
    progress = np.array([scene.progress_m(x, y) for x, y in places.tolist()])
    return np.asarray(cells[progress >= min(scene.goal_m + BEYOND_M, progress.max())])


def _predicted_paths(x: float, y: float, yaw: float, errors: Array) -> Array:
    """Paths (n, steps, 2) of `steer` from a pose, towards headings off by (n,) [rad]."""
    headings, places = np.full(len(errors), yaw), np.tile((x, y), (len(errors), 1))
    paths = []
    for _ in range(round(HORIZON_S / STEP_S)):
        left = yaw + errors - headings
        speeds = MAX_SPEED_M_PER_S * np.maximum(0.0, np.cos(SLOWS_BY * np.clip(left, -1.0, 1.0)))
        rates = np.clip(TURN_GAIN * left, -MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S)
        headings = headings + STEP_S * rates
        ahead = np.stack((np.cos(headings), np.sin(headings)), -1)
        places = places + STEP_S * speeds[:, None] * ahead
        paths.append(places)
    return np.stack(paths, 1)
