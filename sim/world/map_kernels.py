"""Kernels of maps in machine code: room around cells, ground within reach, shortest paths.

Cells are (row, column). Sums and products are in the order of the formulas: results do not depend
on the machine code.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.ground import Ground
from pixelgait.sim.world.ground_kernels import ground_m

Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# Chamfer distances of 3 x 3 pixels (Borgefors 1986), as in OpenCV's `distanceTransform`.
SIDE, CORNER = 0.955, 1.3693


@compiled
def ground_within_reach(
    ground: Ground, low_x: float, low_y: float, middle: int, z: float, cell_m: float, step_m: float
) -> NDArray[np.uint8]:
    """1 for every cell (n, n) that is reached over steps of at most `step_m` from the middle one.

    `low_x`, `low_y` are the map's corner, `z` the height in the middle [m]; n = 2 `middle`.
    """
    n = 2 * middle
    reached = np.zeros((n, n), np.uint8)
    heights = np.full((n, n), np.inf)  # not looked up yet
    edge = np.empty(n * n, np.int64)  # a queue: every cell enters once
    first, last = 0, 1
    edge[0] = middle * n + middle
    heights[middle, middle] = z
    reached[middle, middle] = 1
    while first < last:
        row, column = edge[first] // n, edge[first] % n
        first += 1
        here = heights[row, column]
        for k in range(4):
            i = row + (1 if k == 0 else -1 if k == 1 else 0)
            j = column + (1 if k == 2 else -1 if k == 3 else 0)
            if not (0 <= i < n and 0 <= j < n) or reached[i, j]:
                continue
            if heights[i, j] == np.inf:
                x, y = low_x + (j + 0.5) * cell_m, low_y + (i + 0.5) * cell_m
                heights[i, j] = ground_m(ground, x, y)
            if abs(heights[i, j] - here) <= step_m:
                reached[i, j] = 1
                edge[last] = i * n + j
                last += 1
    return reached


@compiled
def clear(white: NDArray[np.uint8], every: int, radii: Array) -> NDArray[np.uint8]:
    """1 for cells (k, rows, columns) with nothing but white within each of radii (k,) [pixels].

    Cells have `every` x `every` pixels of an image (n, m) of 0 and 1; around it nothing is white.
    For each row of cells, bars are pixels with white above and below them, and discs are composed
    of bars: all are operations on whole rows of pixels.
    """
    n, m = white.shape
    reach, half = int(radii.max() / SIDE), every // 2
    rows, columns = (n - half + every - 1) // every, (m - half + every - 1) // every
    padded = np.zeros((n + 2 * reach, m + 2 * reach), np.uint8)
    padded[reach : reach + n, reach : reach + m] = white
    bars = np.empty((reach + 1, m + 2 * reach), np.uint8)  # by their half lengths
    disc = np.empty(m, np.uint8)
    result = np.empty((len(radii), rows, columns), np.uint8)
    for i in range(rows):
        middle = reach + half + every * i
        bars[0] = padded[middle]
        for high in range(1, reach + 1):
            bars[high] = bars[high - 1]
            _keep(bars[high], padded[middle - high], padded[middle + high])
        for k in range(len(radii)):
            disc[:] = 1
            for aside in range(reach + 1):
                high = _half_height(aside, radii[k])
                if high >= 0:
                    left, right = reach - aside, reach + aside
                    _keep(disc, bars[high, left : left + m], bars[high, right : right + m])
            result[k, i] = disc[half::every]
    return result


@compiled
def _keep(kept: NDArray[np.uint8], one: NDArray[np.uint8], other: NDArray[np.uint8]) -> None:
    """Keep what is in both rows as well."""
    for i in range(len(kept)):
        kept[i] &= one[i] & other[i]


@compiled
def _half_height(aside: int, radius: float) -> int:
    """Half the height in pixels of a disc so many pixels from its middle; -1: beyond its edge."""
    high = -1
    while True:
        less, more = min(aside, high + 1), max(aside, high + 1)
        if CORNER * less + SIDE * (more - less) > radius:
            return high
        high += 1


@compiled
def waves(free: Bools, goals: Ints, costs: Ints, straight: int, diagonal: int, until: int) -> Ints:
    """Steps from every free cell to the nearest of goals (n, 2), -1 where there is no path.

    Dial's algorithm; a step to a cell is multiplied by the cell's cost. It ends at a cell's index
    `until`: cells further away are then -1 as well.
    """
    rows, columns = free.shape
    dearest = 1
    for i in range(rows):
        for j in range(columns):
            if free[i, j]:
                dearest = max(dearest, costs[i, j])
    buckets = max(straight, diagonal) * dearest + 1
    steps = np.full((rows, columns), -1)
    best = np.full((rows, columns), np.iinfo(np.int64).max)
    # Lists of cells at each distance, modulo the longest step; a cell may wait in several.
    heads = np.full(buckets, -1)
    size = len(goals) + 8 * rows * columns
    cells, following = np.empty(size, np.int32), np.empty(size, np.int32)
    count = waiting = now = 0
    for k in range(len(goals)):
        i, j = goals[k, 0], goals[k, 1]
        if free[i, j] and best[i, j] > 0:
            best[i, j] = 0
            cells[count], following[count], heads[0] = i * columns + j, heads[0], count
            count += 1
            waiting += 1
    while waiting:
        bucket = now % buckets
        while heads[bucket] >= 0:
            entry = heads[bucket]
            heads[bucket] = following[entry]
            waiting -= 1
            row, column = cells[entry] // columns, cells[entry] % columns
            if steps[row, column] >= 0:
                continue
            steps[row, column] = now
            if cells[entry] == until:
                return steps
            for i in range(max(row - 1, 0), min(row + 2, rows)):
                for j in range(max(column - 1, 0), min(column + 2, columns)):
                    if not free[i, j] or steps[i, j] >= 0:
                        continue
                    length = straight if i == row or j == column else diagonal
                    there = now + length * costs[i, j]
                    if there < best[i, j]:
                        best[i, j] = there
                        to = there % buckets
                        cells[count], following[count] = i * columns + j, heads[to]
                        heads[to] = count
                        count += 1
                        waiting += 1
        now += 1
    return steps


@compiled
def spread(cost: Floats, straight: Floats, diagonal: Floats) -> None:
    """Lower costs (n, m) in place, as `policy_map.spread_cost` does, until none falls any more."""
    rows, columns = cost.shape
    falls, forth = True, True
    while falls:
        falls = False
        for k in range(rows * columns):
            at = k if forth else rows * columns - 1 - k
            i, j = at // columns, at % columns
            least = cost[i, j]
            for row in range(max(i - 1, 0), min(i + 2, rows)):
                for column in range(max(j - 1, 0), min(j + 2, columns)):
                    step = straight[i, j] if row == i or column == j else diagonal[i, j]
                    least = min(least, cost[row, column] + step)
            if least < cost[i, j]:
                cost[i, j] = least
                falls = True
        forth = not forth


@compiled
def straightened(free: Bools, path: Ints, samples: int) -> float:
    """Length in cells of a path (n, 2) after replacing detours by straight lines over free cells.

    `samples` per cell of a line must all be free; between neighbours there is no check.
    """
    shortest = np.zeros(len(path))
    for number in range(1, len(path)):
        end = path[number]
        shortest[number] = np.inf
        for last in range(number - 1, -1, -1):
            rows, columns = end[0] - path[last, 0], end[1] - path[last, 1]
            length = shortest[last] + math.hypot(float(rows), float(columns))
            if length < shortest[number] and (
                last == number - 1 or _is_visible(free, path[last], rows, columns, samples)
            ):
                shortest[number] = length
    return float(shortest[-1])


@compiled
def _is_visible(free: Bools, start: Ints, rows: int, columns: int, samples: int) -> bool:
    """Whether a straight line over so many rows and columns from a cell's middle is free."""
    count = 1 + int(samples * float(max(abs(rows), abs(columns))))
    step = 1.0 / count
    for k in range(count + 1):
        share = k * step if k < count else 1.0
        row, column = np.rint(start[0] + share * rows), np.rint(start[1] + share * columns)
        if not free[int(row), int(column)]:
            return False
    return True


@compiled
def next_cell(free: Bools, distances: Array, row: int, column: int) -> tuple[int, int]:
    """The next cell on the path: among the free ones around, or the nearest further off.

    Among equals, straight ahead goes first.
    """
    rows, columns = distances.shape
    here = distances[row, column]
    for reach in range(1, max(rows, columns)):
        best, least, least_away = (row, column), np.inf, 0
        found = False
        for i in range(max(row - reach, 0), min(row + reach + 1, rows)):
            for j in range(max(column - reach, 0), min(column + reach + 1, columns)):
                if not free[i, j]:
                    continue
                there, away = distances[i, j], (i - row) ** 2 + (j - column) ** 2
                if there < here:
                    found = True
                if there < least or (there == least and away < least_away):
                    best, least, least_away = (i, j), there, away
        if found:
            return best
    return row, column


@compiled
def path_cells(free: Bools, distances: Array, row: int, column: int, longest: int) -> Ints:
    """Cells (n, 2) of the path from a cell to the goal, the first `longest` of them."""
    path = np.empty((longest, 2), np.int64)
    path[0, 0], path[0, 1] = row, column
    count = 1
    while count < longest and distances[row, column] > 0.0:
        row, column = next_cell(free, distances, row, column)
        path[count, 0], path[count, 1] = row, column
        count += 1
    return path[:count]


@compiled
def cell_at(free: Bools, corner: Array, cell_m: float, x: float, y: float) -> tuple[int, int]:
    """The cell of a point; beyond the map, the nearest one of its edge."""
    row, column = int((y - corner[1]) / cell_m), int((x - corner[0]) / cell_m)
    return min(max(row, 0), free.shape[0] - 1), min(max(column, 0), free.shape[1] - 1)


@compiled
def ahead(
    free: Bools,
    counts: Ints,
    costs: Array,
    corner: Array,
    cell_m: float,
    x: float,
    y: float,
    near: int,
    far: int,
    samples: int,
) -> tuple[float, float]:
    """A place x, y [m] to steer to from a point, on the path given by `costs` to go.

    It is the last one within `far` cells to which a straight line costs no more than the path, but
    at least the one after `near` cells, and not beyond the goal. A line costs the mean of `counts`,
    at `samples` per cell of the path, a metre.
    """
    row, column = cell_at(free, corner, cell_m, x, y)
    path = path_cells(free, costs, row, column, far + 1)
    count = samples * len(path)  # of the parts of a line
    for last in range(len(path) - 1, near, -1):
        place_x = corner[0] + (path[last, 1] + 0.5) * cell_m
        place_y = corner[1] + (path[last, 0] + 0.5) * cell_m
        total = _line_count(free, counts, corner, cell_m, x, y, place_x - x, place_y - y, count)
        line = total / (count + 1) * math.hypot(place_x - x, place_y - y)
        # The path's diagonals are 1 % too short.
        if total >= 0 and line <= 1.02 * (costs[row, column] - costs[path[last, 0], path[last, 1]]):
            return place_x, place_y
    last = min(near, len(path) - 1)
    return corner[0] + (path[last, 1] + 0.5) * cell_m, corner[1] + (path[last, 0] + 0.5) * cell_m


@compiled
def _line_count(
    free: Bools,
    counts: Ints,
    corner: Array,
    cell_m: float,
    x: float,
    y: float,
    away_x: float,
    away_y: float,
    parts: int,
) -> int:
    """Sum of counts at both ends and between the parts of a line; -1: it is not free."""
    total, step = 0, 1.0 / parts
    for k in range(parts + 1):
        share = k * step if k < parts else 1.0
        i, j = cell_at(free, corner, cell_m, x + share * away_x, y + share * away_y)
        if not free[i, j]:
            return -1
        total += counts[i, j]
    return total


@compiled
def distance_at(
    distances: Array, low_x: float, low_y: float, cell_m: float, x: float, y: float
) -> float:
    """Bilinear value at a point [m] of distances (rows, columns) in the middles of cells."""
    rows, columns = distances.shape
    row = min(max((y - low_y) / cell_m - 0.5, 0.0), rows - 1.0)
    column = min(max((x - low_x) / cell_m - 0.5, 0.0), columns - 1.0)
    i, j = min(int(row), rows - 2), min(int(column), columns - 2)
    u, v = row - i, column - j
    near = (1 - v) * distances[i, j] + v * distances[i, j + 1]
    far = (1 - v) * distances[i + 1, j] + v * distances[i + 1, j + 1]
    value: float = (1 - u) * near + u * far
    return value
