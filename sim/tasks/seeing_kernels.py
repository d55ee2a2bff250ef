"""Kernels of the seeing teacher: what a camera shows, and whether a plan still holds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.tasks.teacher_kernels import Course
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.map_kernels import cell_at, next_cell
from pixelgait.sim.world.traversability import CELL_M

Bools = NDArray[np.bool_]

RAY_RAD = math.radians(1.0)  # between two rays: 5 cm at 3 m
STEP_M = 0.05  # along a ray: half a cell
TOUCHED_M = 0.45  # from a robot's middle: what its legs and shoulders find out
UNREACHED_M = 1e6  # cost to go of a cell that the plan does not reach
AROUND = 5  # cells around a seen one of which the room is known: more than half of a robot's length


@compiled
def look(
    truth: Course,
    believed: Course,
    cells: tuple[Bools, Bools, Bools],
    pose: tuple[float, float, float],
    eye_m: float,
    half_fov_rad: float,
    range_m: float,
) -> None:
    """Note what the camera shows from a pose, and what the robot touches, in `believed`.

    Rays end at the first solid cell, also at low ones that a camera may look over. Around a solid
    cell that was seen all room is known.

    Args:
        truth: the course.
        believed: what is known of it; its cells are written.
        cells: (rows, columns) each: solid ones that were seen, those whose room is known, and those
            that have changed.
        pose: x, y [m] and heading [rad].
        eye_m: from the robot's middle to its camera, ahead.
        half_fov_rad: half of the horizontal field of view.
        range_m: of the camera.
    """
    x, y, yaw = pose
    reach = int(TOUCHED_M / CELL_M)
    row, column = cell_at(truth.free, truth.corner_m, CELL_M, x, y)
    rows, columns = truth.free.shape
    for i in range(max(row - reach, 0), min(row + reach + 1, rows)):
        for j in range(max(column - reach, 0), min(column + reach + 1, columns)):
            if truth.solid[i, j]:
                _meet(truth, believed, cells, i, j)
    eye_x, eye_y = x + eye_m * math.cos(yaw), y + eye_m * math.sin(yaw)
    count = int(2.0 * half_fov_rad / RAY_RAD) + 1
    for k in range(count):
        angle = yaw - half_fov_rad + k * RAY_RAD
        cos, sin = math.cos(angle), math.sin(angle)
        for step in range(1, int(range_m / STEP_M) + 1):
            away = step * STEP_M
            i = math.floor((eye_y + away * sin - truth.corner_m[1]) / CELL_M)
            j = math.floor((eye_x + away * cos - truth.corner_m[0]) / CELL_M)
            if not (0 <= i < rows and 0 <= j < columns):
                break
            if truth.solid[i, j]:
                _meet(truth, believed, cells, i, j)
                break


@compiled
def _meet(
    truth: Course, believed: Course, cells: tuple[Bools, Bools, Bools], row: int, column: int
) -> None:
    """Know the room around a solid cell."""
    met, known, changed = cells
    if met[row, column]:
        return
    met[row, column] = True
    rows, columns = met.shape
    for i in range(max(row - AROUND, 0), min(row + AROUND + 1, rows)):
        for j in range(max(column - AROUND, 0), min(column + AROUND + 1, columns)):
            if known[i, j]:
                continue
            known[i, j] = True
            changed[i, j] = not truth.free[i, j] or truth.counts[i, j] != 1
            believed.free[i, j] = truth.free[i, j]
            believed.turnable[i, j] = truth.turnable[i, j]
            believed.counts[i, j] = truth.counts[i, j]


@compiled
def is_affected(believed: Course, changed: Bools, x: float, y: float) -> bool:
    """Whether the plan does not hold at a position [m], or its path comes near changed cells.

    Cells only become dearer, so a path without such cells is still the shortest.
    """
    free, costs = believed.free, believed.costs
    row, column = cell_at(free, believed.corner_m, CELL_M, x, y)
    rows, columns = free.shape
    if costs[row, column] >= UNREACHED_M:
        return True
    while costs[row, column] > 0.0:
        best, least = (row, column), costs[row, column]
        for i in range(max(row - 1, 0), min(row + 2, rows)):
            for j in range(max(column - 1, 0), min(column + 2, columns)):
                if changed[i, j]:
                    return True
                if free[i, j] and costs[i, j] < least:
                    best, least = (i, j), costs[i, j]
        if best == (row, column):
            return True
        row, column = best
    return False


@compiled
def enter(believed: Course, x: float, y: float) -> None:
    """Set the cost to go at a position [m] without room: through the next cell that has some."""
    free, costs = believed.free, believed.costs
    row, column = cell_at(free, believed.corner_m, CELL_M, x, y)
    if free[row, column]:
        return
    costs[row, column] = np.inf
    i, j = next_cell(free, costs, row, column)
    costs[row, column] = costs[i, j] + CELL_M * math.hypot(float(i - row), float(j - column))
