"""Traversability map of where a robot can walk indoors, and geodesic distances on it.

Maps are Gibson's: square, 0.01 m a pixel, white where one can walk, the world's origin in their
middle, rows along y and columns along x (iGibson, `indoor_scene.py`).
"""

from __future__ import annotations

from collections import defaultdict

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.grid import interpolate

PIXEL_M = 0.01
CELL_PIXELS = 10
CELL_M = PIXEL_M * CELL_PIXELS  # iGibson's resolution for planning
# Chamfer distances with steps of 5 straight and 7 diagonally (Borgefors 1986): at most 8 % more
# than the shortest way.
STRAIGHT, DIAGONAL = 5, 7
CLEARANCE_M = 0.27  # of a robot's middle: half the width of a trotting A1 and 2 cm
TURNING_M = 0.40  # more than half of its length, and of a Laikago's

Cell = tuple[int, int]  # row, column


class TraversabilityMap:
    """The largest connected area in which a robot can walk.

    Its middle can be in cells that are `free`; in `turnable` ones it can turn on the spot.
    """

    def __init__(self, traversable: NDArray[np.uint8]) -> None:
        """From a map (n, n).

        Raises:
            ValueError: nowhere is there room.
        """
        self.half_m = PIXEL_M * len(traversable) / 2.0
        # Half as fine is a quarter of the work; only what is all white stays so.
        coarse = cv2.resize(traversable, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        walkable = np.pad((coarse == 255).astype(np.uint8), 1)  # the map's edge is a wall
        clear = cv2.distanceTransform(walkable, cv2.DIST_L2, 3)[1:-1, 1:-1]  # within 4 %
        every = CELL_PIXELS // 2
        cells = clear[every // 2 :: every, every // 2 :: every] * 2 * PIXEL_M
        _, labels, statistics, _ = cv2.connectedComponentsWithStats(
            (cells > CLEARANCE_M).astype(np.uint8), connectivity=4
        )
        areas = statistics[1:, cv2.CC_STAT_AREA]  # without the background
        self.free = labels == 1 + (areas.argmax() if len(areas) else 0)
        self.turnable = self.free & (cells > TURNING_M)
        if not self.turnable.any():
            raise ValueError(f"nowhere on the map is there {TURNING_M} m of room all around")
        # Every cell's nearest free one: near walls, where a robot's middle may still come.
        away, nearest = cv2.distanceTransformWithLabels(
            (~self.free).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
        )
        self._away_m = CELL_M * away
        self._nearest = nearest - 1  # index into the free cells in their order
        self.cells = np.argwhere(self.free)

    def place(self, cell: Cell) -> tuple[float, float]:
        """The middle of a cell: x, y [m]."""
        row, column = cell
        return (column + 0.5) * CELL_M - self.half_m, (row + 0.5) * CELL_M - self.half_m

    def cell(self, x: float, y: float) -> Cell:
        """The cell of a point."""
        return int((y + self.half_m) / CELL_M), int((x + self.half_m) / CELL_M)

    def covers(self, x: float, y: float) -> bool:
        """Whether the point is on the map."""
        return abs(x) < self.half_m and abs(y) < self.half_m

    def draw(self, rng: np.random.Generator) -> Cell:
        """Any free cell."""
        return _cell(self.cells[rng.integers(len(self.cells))])

    def geodesic_distances(self, goal: Cell) -> Array:
        """How long the way to a free cell is from every other, (rows, columns) [m].

        From a cell that is not free, by way of the nearest that is.
        """
        steps = _waves(self.free, goal)[self.free]
        return np.asarray(steps[self._nearest] * (CELL_M / STRAIGHT) + self._away_m)

    def geodesic_distance(self, distances: Array, x: float, y: float) -> float:
        """How long the way from a point is [m], given `geodesic_distances` the goal."""
        last = len(distances) - 1.0
        row, column = ((c + self.half_m) / CELL_M - 0.5 for c in (y, x))
        return interpolate(distances, min(max(row, 0.0), last), min(max(column, 0.0), last))

    def path(self, distances: Array, start: Cell) -> list[Cell]:
        """The way from a free cell to the goal, cell by cell, given `geodesic_distances` it."""
        path = [start]
        while distances[path[-1]] > 0.0:
            path.append(self._next(distances, path[-1]))
        return path

    def ahead(self, distances: Array, x: float, y: float, cells: int) -> tuple[float, float]:
        """Where the way from a point leads after so many cells: x, y [m]; not beyond the goal."""
        row, column = self.cell(x, y)
        last = len(distances) - 1
        at = min(max(row, 0), last), min(max(column, 0), last)
        for _ in range(cells):
            if distances[at] > 0.0:
                at = self._next(distances, at)
        return self.place(at)

    def _next(self, distances: Array, cell: Cell) -> Cell:
        """The next cell on the way: of the free ones around, or of the nearest further off."""
        row, column = cell
        for reach in range(1, len(distances)):
            beside = range(-reach, reach + 1)
            around = [(row + i, column + j) for i in beside for j in beside]
            inside = [c for c in around if min(c) >= 0 and max(c) < len(distances) and self.free[c]]
            if any(distances[c] < distances[cell] for c in inside):
                return min(inside, key=lambda c: float(distances[c]))
        return cell


def _waves(free: NDArray[np.bool_], goal: Cell) -> NDArray[np.int64]:
    """Steps from every free cell to the goal (Dial's algorithm), -1 where there is no way."""
    room = np.pad(free, 1)  # so that no neighbour lies in another row
    width = room.shape[1]
    straight = np.array((1, -1, width, -width))[:, None]
    diagonal = np.array((width + 1, width - 1, 1 - width, -width - 1))[:, None]
    unreached, steps = room.ravel().copy(), np.full(room.size, -1)
    first = np.zeros(room.size, dtype=np.int64)
    pending = defaultdict(list, {0: [np.array([(goal[0] + 1) * width + goal[1] + 1])]})
    while pending:
        now = min(pending)
        wave = np.concatenate(pending.pop(now))
        wave = wave[unreached[wave]]
        if len(wave):
            count = np.arange(len(wave))
            first[wave] = count
            wave = wave[first[wave] == count]  # every cell once: quicker than sorting
            unreached[wave], steps[wave] = False, now
            pending[now + STRAIGHT].append((wave + straight).ravel())
            pending[now + DIAGONAL].append((wave + diagonal).ravel())
    return np.asarray(steps.reshape(room.shape)[1:-1, 1:-1])


def _cell(row_column: NDArray[np.int64]) -> Cell:
    row, column = row_column.tolist()
    return row, column
