"""Maps and the teacher as written for numpy: what the kernels in machine code have to equal."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    latent_for,
)
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.teacher_kernels import (
    BEHIND_RAD,
    BLOCKED_M,
    CLEARANCE_M,
    DETOUR_PER_M,
    FAN_RAD,
    HORIZON_S,
    LOOK_CELLS,
    LOOK_CELLS_STRAIGHT,
    LOOK_CELLS_TIGHT,
    SLOWS_BY,
    STEP_S,
    TURN_GAIN,
    TURNING_RAD,
)
from pixelgait.sim.world.obstacles import MovingObstacle
from pixelgait.sim.world.raster import REACH_M, STEP_M
from pixelgait.sim.world.scene import Layout, Scene, interpolate
from pixelgait.sim.world.traversability import (
    CELL_M,
    CELL_PIXELS,
    DIAGONAL,
    PIXEL_M,
    ROOMY_M,
    SAMPLES,
    STRAIGHT,
    TURNING_M,
    Cell,
    TraversabilityMap,
)

CHECKED = slice(3, None, 4)


def ground_cells(scene: Scene, layout: Layout, corner: Array) -> NDArray[np.uint8]:
    """1 for every cell (n, n) that can be reached over ground from the start, in the middle.

    `corner` (2,) is the least x, y [m].
    """
    middle = round(REACH_M / CELL_M)
    n = 2 * middle
    across = n + 2  # cells are numbered row by row, within an edge that is never entered
    x, y = (low + (np.arange(-1, n + 1) + 0.5) * CELL_M for low in corner)
    xs, ys = x.tolist(), y.tolist()
    entered = np.pad(np.zeros((n, n), bool), 1, constant_values=True).ravel().tolist()
    start = (middle + 1) * (across + 1)
    heights, entered[start] = {start: layout.start.z}, True
    edge = deque(heights)
    while edge:
        at = edge.popleft()
        here = heights[at]
        for cell in (at + across, at - across, at + 1, at - 1):
            if entered[cell]:
                continue
            row, column = divmod(cell, across)
            height = scene.ground_m(xs[column], ys[row])
            if height is not None and abs(height - here) <= STEP_M:
                heights[cell], entered[cell] = height, True
                edge.append(cell)
    ground = np.zeros(across * across, np.uint8)
    ground[list(heights)] = 1
    return ground.reshape(across, across)[1:-1, 1:-1]


def clear_cells(
    traversable: NDArray[np.uint8], clearance_m: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Cells with room enough to be at, to turn, and plenty."""
    coarse = cv2.resize(traversable, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    walkable = np.pad((coarse == 255).astype(np.uint8), 1)  # the map's edge is a wall
    clear = cv2.distanceTransform(walkable, cv2.DIST_L2, 3)[1:-1, 1:-1]  # within 4 %
    every = CELL_PIXELS // 2
    cells = clear[every // 2 :: every, every // 2 :: every] * 2 * PIXEL_M
    return cells > clearance_m, cells > TURNING_M, cells > ROOMY_M


def geodesic_distance(area: TraversabilityMap, distances: Array, x: float, y: float) -> float:
    (low_x, low_y), (rows, columns) = area.corner_m, distances.shape
    row, column = (y - low_y) / CELL_M - 0.5, (x - low_x) / CELL_M - 0.5
    return interpolate(
        distances, min(max(row, 0.0), rows - 1.0), min(max(column, 0.0), columns - 1.0)
    )


def distances(area: TraversabilityMap, goals: NDArray[np.int64], costs: NDArray[np.int64]) -> Array:
    steps = _waves(area.free, goals, costs)[area.free]
    return np.asarray(steps[area._nearest] * (CELL_M / STRAIGHT) + area._away_m)


def _waves(
    free: NDArray[np.bool_], goals: NDArray[np.int64], costs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Steps from every free cell to the nearest of goals (n, 2), -1 where there is no path.

    Dial's algorithm; a step to a cell is multiplied by the cell's cost.
    """
    room = np.pad(free, 1)  # so that no neighbour lies in another row
    width = room.shape[1]
    straight = np.array((1, -1, width, -width))[:, None]
    diagonal = np.array((width + 1, width - 1, 1 - width, -width - 1))[:, None]
    unreached, steps = room.ravel().copy(), np.full(room.size, -1)
    cost = np.pad(costs, 1, constant_values=1).ravel()
    kinds = np.unique(cost[unreached])
    first = np.zeros(room.size, dtype=np.int64)
    pending = defaultdict(list, {0: [(goals[:, 0] + 1) * width + goals[:, 1] + 1]})
    while pending:
        now = min(pending)
        wave = np.concatenate(pending.pop(now))
        wave = wave[unreached[wave]]
        if len(wave):
            count = np.arange(len(wave))
            first[wave] = count
            wave = wave[first[wave] == count]  # every cell once: faster than sorting
            unreached[wave], steps[wave] = False, now
            for length, moves in ((STRAIGHT, straight), (DIAGONAL, diagonal)):
                reached = (wave + moves).ravel()
                for kind in kinds:
                    pending[now + length * int(kind)].append(reached[cost[reached] == kind])
    return np.asarray(steps.reshape(room.shape)[1:-1, 1:-1])


def straightened_length_m(free: NDArray[np.bool_], path: Sequence[Cell]) -> float:
    """Length of a path [m] after replacing detours by straight lines over `free` cells.

    Lines connect cells (row, column) of the path, so it is never shorter than the shortest path,
    whose corners may be elsewhere. Chamfer distances are up to 8 % more than that.
    """
    points = np.array(path, dtype=np.float64)
    shortest = np.full(len(points), np.inf)
    shortest[0] = 0.0
    for number in range(1, len(points)):
        before = points[:number]
        lengths = shortest[:number] + np.hypot(*(points[number] - before).T)
        for last in np.argsort(lengths):  # the first that is visible is the best
            if last == number - 1 or _is_visible(free, points[last], points[number]):
                shortest[number] = lengths[last]
                break
    return float(shortest[-1]) * CELL_M


def _is_visible(
    free: NDArray[np.bool_], start: NDArray[np.float64], end: NDArray[np.float64]
) -> bool:
    """Whether a straight line between the middles of two cells is free."""
    count = 1 + int(4 * np.abs(end - start).max())
    shares = np.linspace(0.0, 1.0, count + 1)[:, None]
    rows, columns = np.rint(start + shares * (end - start)).astype(np.int64).T
    return bool(free[rows, columns].all())


def path(area: TraversabilityMap, distances: Array, start: Cell) -> list[Cell]:
    """Cells of the path from a free one to the goal, given the `geodesic_distances` to it."""
    path = [start]
    while distances[path[-1]] > 0.0:
        path.append(_next(area, distances, path[-1]))
    return path


def ahead(
    area: TraversabilityMap, costs: Array, x: float, y: float, near: int, far: int
) -> tuple[float, float]:
    """A place x, y [m] to steer to from a point, on the path given by `costs_to_go`.

    It is the last one within `far` cells to which a straight line costs no more than the path,
    but at least the one after `near` cells, and not beyond the goal.
    """
    path = [area.cell(x, y)]
    while len(path) <= far and costs[path[-1]] > 0.0:
        path.append(_next(area, costs, path[-1]))
    places = np.array([area.place(cell) for cell in path])
    path_costs = costs[path[0]] - np.array([costs[cell] for cell in path])
    lines = _straight_costs(area, np.array((x, y)), places)
    straight = np.flatnonzero(lines <= 1.02 * path_costs)  # whose diagonals are 1 % too short
    place_x, place_y = places[min(max([near, *straight]), len(path) - 1)].tolist()
    return place_x, place_y


def _straight_costs(area: TraversabilityMap, start: Array, ends: Array) -> Array:
    """Costs (n,) [m] of straight lines from a point (2,) to places (n, 2)."""
    away = ends - start
    shares = np.linspace(0.0, 1.0, 1 + SAMPLES * len(ends))
    cells = ((start + shares[:, None, None] * away - area.corner_m) / CELL_M).astype(np.int64)
    columns, rows = np.clip(cells, 0, np.array(area.free.shape[::-1]) - 1).transpose(2, 0, 1)
    counts = np.where(area.free[rows, columns], area.counts[rows, columns], np.inf)
    return np.asarray(counts.mean(0) * np.hypot(*away.T))


def _next(area: TraversabilityMap, distances: Array, cell: Cell) -> Cell:
    """The next cell on the path: among the free ones around, or the nearest further off."""
    row, column = cell
    rows, columns = distances.shape
    for reach in range(1, max(rows, columns)):
        beside = range(-reach, reach + 1)
        around = [(row + i, column + j) for i in beside for j in beside]
        inside = [
            c for c in around if min(c) >= 0 and c[0] < rows and c[1] < columns and area.free[c]
        ]
        if any(distances[c] < distances[cell] for c in inside):  # of equals, the straight one
            return min(inside, key=lambda c: (float(distances[c]), math.dist(c, cell)))
    return cell


def decision(
    area: TraversabilityMap,
    costs: Array,
    movers: list[MovingObstacle],
    pose: tuple[float, float, float],
    turned: float,
    time_s: float,
) -> Array:
    """Latent command (2,) of the teacher."""
    x, y, yaw = pose
    near = LOOK_CELLS if area.turnable[area.cell(x, y)] else LOOK_CELLS_TIGHT
    to_x, to_y = ahead(area, costs, x, y, near, LOOK_CELLS_STRAIGHT)
    heading = math.atan2(to_y - y, to_x - x)
    if not movers:
        return steer(_turn(wrap_angle(heading - yaw), turned))
    errors = (heading + FAN_RAD - yaw + math.pi) % (2.0 * math.pi) - math.pi
    stand = np.tile((x, y), (1, round(HORIZON_S / STEP_S), 1))
    paths = np.concatenate((_predicted_paths(x, y, yaw, errors), stand))
    detours = DETOUR_PER_M * np.maximum(0.0, CLEARANCE_M - _clearance_m(movers, time_s, paths))
    best = int(np.argmin(detours + [_remaining_m(area, costs, path) for path in paths]))
    return steer(float(errors[best])) if best < len(errors) else STAND


def _clearance_m(movers: list[MovingObstacle], time_s: float, paths: Array) -> Array:
    """Least distance (n,) [m] to moving obstacles on paths (n, steps, 2) from now on."""
    times = time_s + STEP_S * np.arange(1, paths.shape[1] + 1)
    nearest = np.full(len(paths), np.inf)
    for mover in movers:
        poses = [mover.swing.pose(mover.middle, each) for each in times]
        away = paths - [(pose.x, pose.y) for pose in poses]
        cos, sin = math.cos(mover.middle.yaw), math.sin(mover.middle.yaw)
        local = np.stack((away @ (cos, sin), away @ (-sin, cos)), -1)
        outside = np.maximum(0.0, np.abs(local) - mover.box.half_m[:2])
        nearest = np.minimum(nearest, np.hypot(*np.moveaxis(outside, -1, 0)).min(1))
    return nearest


def _remaining_m(area: TraversabilityMap, costs: Array, path: Array) -> float:
    """Cost to go [m] from the end of a path (steps, 2)."""
    cells = [area.cell(*place) for place in path[CHECKED].tolist()]
    blocked = not all(area.free[cell] for cell in cells)
    return float(costs[cells[-1]]) + BLOCKED_M * blocked


def steer(error_rad: float) -> Array:
    """The decision for a heading error [rad]: the straighter ahead, the faster."""
    speed = MAX_SPEED_M_PER_S * max(0.0, math.cos(SLOWS_BY * max(-1.0, min(1.0, error_rad))))
    return latent_for(speed, TURN_GAIN * error_rad)


def _turn(error_rad: float, turned_rad: float) -> float:
    """The turn [rad] to take, of up to 2 pi, after such a turn since the last decision."""
    against = error_rad * turned_rad < 0.0 and abs(turned_rad) > TURNING_RAD
    if against and abs(error_rad) > BEHIND_RAD:
        return error_rad - math.copysign(2.0 * math.pi, error_rad)
    return error_rad


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
