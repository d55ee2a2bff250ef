"""Decisions of the teacher in machine code: where the path leads, and past what moves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.map_kernels import ahead, cell_at
from pixelgait.sim.world.motion_kernels import pose_at
from pixelgait.sim.world.motions import Motions
from pixelgait.sim.world.traversability import CELL_M, SAMPLES

_wrapped = compiled(wrap_angle)
# It walks to the point of its path half a metre ahead, nearer where it is tight, further where the
# path is straight.
LOOK_CELLS, LOOK_CELLS_TIGHT, LOOK_CELLS_STRAIGHT = 5, 3, 15
TURN_GAIN = 2.0  # [1/s] yaw rate per heading error  # assumption
# In a cosine, heading errors: from 1 rad on it nearly turns on the spot.  # assumption
SLOWS_BY = 1.5
# A turn to a path behind the robot goes on as it began. Without this hysteresis the shorter side
# can change, for reasons a student does not see and cannot learn. It costs a quarter turn at most.
BEHIND_RAD = 0.75 * math.pi  # heading error from which on either side will do
TURNING_RAD = 0.05  # since the last decision: more than swaying
# Among moving obstacles: a fan of headings about the path, each predicted over a horizon. Clearance
# is from the robot's centre to an obstacle's side: more than half of a robot's length. What lacks
# costs a detour; a blocked path costs more than any detour. All assumptions.
FAN_RAD = np.radians(np.linspace(-105.0, 105.0, 15))
HORIZON_S, STEP_S = 2.4, 0.1
STEPS = round(HORIZON_S / STEP_S)
CLEARANCE_M = 0.5
AMPLE_M = 0.8  # clearance of the path itself with which no other is considered
DETOUR_PER_M = 20.0
BLOCKED_M = 100.0
CHECKED = 4  # every so many steps of a path are looked up on the map: 0.24 m apart, and the last


class Course(NamedTuple):
    """An episode's course, as the teacher knows it."""

    free: NDArray[np.bool_]  # cells (rows, columns) where a robot's middle may be
    turnable: NDArray[np.bool_]  # and where it may turn
    counts: NDArray[np.int64]  # cost of a metre there
    costs: Array  # to go from every cell [m]
    corner_m: Array  # (2,) least x, y of the map
    solid: NDArray[np.bool_]  # cells with anything in them that a robot would touch
    goals: NDArray[np.int64]  # (n, 2) cells where the path ends
    half_m: Array  # (n, 2) half length and width of moving obstacles
    movers: Motions


@compiled
def decision(
    course: Course, x: float, y: float, yaw: float, turned: float, time_s: float
) -> tuple[float, float]:
    """Latent command at a pose, after such a turn since the last decision, and at a time [s]."""
    heading = _heading(course, x, y)
    if len(course.half_m):
        return _past_movers(course, x, y, yaw, heading, turned, time_s)
    return steered(_turn(_wrapped(heading - yaw), turned))


@compiled
def _heading(course: Course, x: float, y: float) -> float:
    """Direction of the path at a position [rad]."""
    free, corner = course.free, course.corner_m
    near = LOOK_CELLS if course.turnable[cell_at(free, corner, CELL_M, x, y)] else LOOK_CELLS_TIGHT
    far = LOOK_CELLS_STRAIGHT
    to_x, to_y = ahead(free, course.counts, course.costs, corner, CELL_M, x, y, near, far, SAMPLES)
    return math.atan2(to_y - y, to_x - x)


@compiled
def _turn(error: float, turned: float) -> float:
    """The turn [rad] to take, of up to 2 pi, after such a turn since the last decision."""
    against = error * turned < 0.0 and abs(turned) > TURNING_RAD
    if against and abs(error) > BEHIND_RAD:
        return error - math.copysign(2.0 * math.pi, error)
    return error


@compiled
def steered(error: float) -> tuple[float, float]:
    """The latent command for a heading error [rad]: the straighter ahead, the faster."""
    speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(SLOWS_BY * max(-1.0, min(1.0, error))))
    turn = TURN_GAIN * error / MAX_YAW_RATE_RAD_PER_S
    ahead_share = 2.0 * speed / MAX_SPEED_M_PER_S - 1.0
    return max(-1.0, min(1.0, ahead_share)), max(-1.0, min(1.0, turn))


@compiled
def _past_movers(
    course: Course, x: float, y: float, yaw: float, heading: float, turned: float, time_s: float
) -> tuple[float, float]:
    """Along the path where nothing comes near it, else the cheapest heading, or standing."""
    places = _mover_places(course.movers, time_s)
    path = np.empty((STEPS, 2))
    along = _turn(_wrapped(heading - yaw), turned)
    _predict(path, x, y, yaw, along)
    if _clearance_m(course.half_m, path, places) >= AMPLE_M:
        return steered(along)
    path[:, 0], path[:, 1] = x, y
    best, least = -1, np.inf
    stand = _cost(course, path, places)
    for k in range(len(FAN_RAD)):
        error = _wrapped(heading + FAN_RAD[k] - yaw)
        _predict(path, x, y, yaw, error)
        cost = _cost(course, path, places)
        if cost < least:
            best, least = k, cost
    if best < 0 or stand < least:
        return -1.0, 0.0
    return steered(_wrapped(heading + FAN_RAD[best] - yaw))


@compiled
def _mover_places(movers: Motions, time_s: float) -> Array:
    """Middles x, y [m], cosines and sines (n, steps, 4) of moving obstacles from now on."""
    places = np.empty((len(movers.own), STEPS, 4))
    for i in range(len(movers.own)):
        for k in range(STEPS):
            x, y, _, yaw = pose_at(movers, i, time_s + STEP_S * (k + 1))
            places[i, k, 0], places[i, k, 1] = x, y
            places[i, k, 2], places[i, k, 3] = math.cos(yaw), math.sin(yaw)
    return places


@compiled
def _predict(path: Array, x: float, y: float, yaw: float, error: float) -> None:
    """Fill a path (steps, 2) of `steered` from a pose, towards a heading off by an error [rad]."""
    heading = yaw
    for k in range(len(path)):
        left = yaw + error - heading
        speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(SLOWS_BY * max(-1.0, min(1.0, left))))
        rate = max(-MAX_YAW_RATE_RAD_PER_S, min(MAX_YAW_RATE_RAD_PER_S, TURN_GAIN * left))
        heading = heading + STEP_S * rate
        x, y = x + STEP_S * speed * math.cos(heading), y + STEP_S * speed * math.sin(heading)
        path[k, 0], path[k, 1] = x, y


@compiled
def _cost(course: Course, path: Array, places: Array) -> float:
    """Cost [m] of a path (steps, 2): what lacks in clearance, what remains, whether blocked."""
    detour = DETOUR_PER_M * max(0.0, CLEARANCE_M - _clearance_m(course.half_m, path, places))
    blocked = 0.0
    i = j = 0
    for k in range(CHECKED - 1, len(path), CHECKED):
        i, j = cell_at(course.free, course.corner_m, CELL_M, path[k, 0], path[k, 1])
        if not course.free[i, j]:
            blocked = BLOCKED_M
    remaining: float = course.costs[i, j] + blocked
    return detour + remaining


@compiled
def _clearance_m(half_m: Array, path: Array, places: Array) -> float:
    """Least distance [m] from a path (steps, 2) to boxes at places (n, steps, 4)."""
    nearest = np.inf
    for i in range(len(half_m)):
        for k in range(len(path)):
            cos, sin = places[i, k, 2], places[i, k, 3]
            away_x, away_y = path[k, 0] - places[i, k, 0], path[k, 1] - places[i, k, 1]
            out_x = max(0.0, abs(away_x * cos + away_y * sin) - half_m[i, 0])
            out_y = max(0.0, abs(away_y * cos - away_x * sin) - half_m[i, 1])
            nearest = min(nearest, math.hypot(out_x, out_y))
    return nearest
