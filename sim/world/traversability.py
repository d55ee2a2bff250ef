"""Traversability map: free cells for a robot, geodesic distances and shortest paths.

Maps have Gibson's format: 0.01 m a pixel, white where a robot can walk, rows along y and columns
along x (iGibson, `indoor_scene.py`), with the world's origin in the middle by default.
"""

from __future__ import annotations

import math
from collections import defaultdict

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import interpolate

PIXEL_M = 0.01
CELL_PIXELS = 10
CELL_M = PIXEL_M * CELL_PIXELS  # iGibson's resolution for planning
# Chamfer distances with steps of 5 straight and 7 diagonally (Borgefors 1986): at most 8 % more
# than the shortest path.
STRAIGHT, DIAGONAL = 5, 7
HALF_WIDTH_M = 0.25  # of a trotting A1
CLEARANCE_M = HALF_WIDTH_M + 0.02  # of a robot's middle
TURNING_M = 0.40  # more than half of its length, and of a Laikago's
# Costs of a cell without room to turn, and of one with less than a metre across: the teacher keeps
# clear of walls, because its students will come nearer than it does. Assumption.
TIGHT, NARROW, ROOMY_M = 3, 2, 0.50
SAMPLES = 4  # per cell of a straight line, whose cost is their mean

Cell = tuple[int, int]  # row, column


class TraversabilityMap:
    """The largest connected area in which a robot can walk, or the one around a place.

    `free` cells have `clearance_m` around them, `turnable` ones enough room to turn on the spot.
    """

    def __init__(
        self,
        traversable: NDArray[np.uint8],
        corner_m: tuple[float, float] | None = None,
        around_m: tuple[float, float] | None = None,
        clearance_m: float = CLEARANCE_M,
    ) -> None:
        """Build from a map (n, m), its corner of least x, y [m], and a place x, y [m] inside.

        Raises:
            ValueError: if there is no room to turn anywhere.
        """
        height_m, width_m = PIXEL_M * traversable.shape[0], PIXEL_M * traversable.shape[1]
        self.corner_m = corner_m or (-width_m / 2.0, -height_m / 2.0)
        self.size_m = (width_m, height_m)
        # At half the resolution, a quarter of the work; a pixel stays white if all of it is.
        coarse = cv2.resize(traversable, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        walkable = np.pad((coarse == 255).astype(np.uint8), 1)  # the map's edge is a wall
        clear = cv2.distanceTransform(walkable, cv2.DIST_L2, 3)[1:-1, 1:-1]  # within 4 %
        every = CELL_PIXELS // 2
        cells = clear[every // 2 :: every, every // 2 :: every] * 2 * PIXEL_M
        _, labels, statistics, _ = cv2.connectedComponentsWithStats(
            (cells > clearance_m).astype(np.uint8), connectivity=4
        )
        areas = statistics[1:, cv2.CC_STAT_AREA]  # without the background
        self.free = labels == 1 + (areas.argmax() if len(areas) else 0)
        if around_m is not None:
            self.free = labels == _nearest_label(np.asarray(labels, np.int32), self.cell(*around_m))
        self.turnable = self.free & (cells > TURNING_M)
        self._counts = np.where(cells > ROOMY_M, 1, np.where(self.turnable, NARROW, TIGHT))
        if not self.turnable.any():
            raise ValueError(f"nowhere on the map is there {TURNING_M} m of room all around")
        # The nearest free cell of every cell: a robot's middle may still come near walls.
        away, nearest = cv2.distanceTransformWithLabels(
            (~self.free).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
        )
        self._away_m = CELL_M * away
        self._nearest = nearest - 1  # index into the free cells in their order
        self.cells = np.argwhere(self.free)

    def place(self, cell: Cell) -> tuple[float, float]:
        """The middle of a cell: x, y [m]."""
        row, column = cell
        x, y = self.corner_m
        return x + (column + 0.5) * CELL_M, y + (row + 0.5) * CELL_M

    def places(self, cells: NDArray[np.int64]) -> Array:
        """The middles (n, 2) of cells (n, 2) [m]."""
        places: Array = np.array(self.corner_m) + (cells[:, ::-1] + 0.5) * CELL_M
        return places

    def cell(self, x: float, y: float) -> Cell:
        """The cell of a point; beyond the map, the nearest one of its edge."""
        (low_x, low_y), (width, height) = self.corner_m, self.size_m
        rows, columns = round(height / CELL_M), round(width / CELL_M)
        row, column = int((y - low_y) / CELL_M), int((x - low_x) / CELL_M)
        return min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)

    @property
    def extent_m(self) -> tuple[float, float, float, float]:
        """Its edges: least and greatest x, least and greatest y."""
        (low_x, low_y), (width, height) = self.corner_m, self.size_m
        return low_x, low_x + width, low_y, low_y + height

    def draw(self, rng: np.random.Generator) -> Cell:
        """Draw a free cell."""
        return _cell(self.cells[rng.integers(len(self.cells))])

    def geodesic_distances(self, goal: Cell) -> Array:
        """Length of the path from every cell to a free one, (rows, columns) [m].

        Paths from cells that are not free lead through the nearest free one.
        """
        return self._distances(np.array([goal]), np.ones(self.free.shape, dtype=np.int64))

    def costs_to_go(self, goals: NDArray[np.int64]) -> Array:
        """As `geodesic_distances`, to the nearest of free cells (n, 2); narrow cells cost more."""
        return self._distances(goals, self._counts)

    def _distances(self, goals: NDArray[np.int64], costs: NDArray[np.int64]) -> Array:
        steps = _waves(self.free, goals, costs)[self.free]
        return np.asarray(steps[self._nearest] * (CELL_M / STRAIGHT) + self._away_m)

    def geodesic_distance(self, distances: Array, x: float, y: float) -> float:
        """Length of the path from a point [m], given the `geodesic_distances` to the goal."""
        (low_x, low_y), (rows, columns) = self.corner_m, distances.shape
        row, column = (y - low_y) / CELL_M - 0.5, (x - low_x) / CELL_M - 0.5
        return interpolate(
            distances, min(max(row, 0.0), rows - 1.0), min(max(column, 0.0), columns - 1.0)
        )

    def path(self, distances: Array, start: Cell) -> list[Cell]:
        """Cells of the path from a free one to the goal, given the `geodesic_distances` to it."""
        path = [start]
        while distances[path[-1]] > 0.0:
            path.append(self._next(distances, path[-1]))
        return path

    def ahead(self, costs: Array, x: float, y: float, near: int, far: int) -> tuple[float, float]:
        """A place x, y [m] to steer to from a point, on the path given by `costs_to_go`.

        It is the last one within `far` cells to which a straight line costs no more than the path,
        but at least the one after `near` cells, and not beyond the goal.
        """
        path = [self.cell(x, y)]
        while len(path) <= far and costs[path[-1]] > 0.0:
            path.append(self._next(costs, path[-1]))
        places = np.array([self.place(cell) for cell in path])
        path_costs = costs[path[0]] - np.array([costs[cell] for cell in path])
        lines = self._straight_costs(np.array((x, y)), places)
        straight = np.flatnonzero(lines <= 1.02 * path_costs)  # whose diagonals are 1 % too short
        place_x, place_y = places[min(max([near, *straight]), len(path) - 1)].tolist()
        return place_x, place_y

    def _straight_costs(self, start: Array, ends: Array) -> Array:
        """Costs (n,) [m] of straight lines from a point (2,) to places (n, 2)."""
        away = ends - start
        shares = np.linspace(0.0, 1.0, 1 + SAMPLES * len(ends))
        cells = ((start + shares[:, None, None] * away - self.corner_m) / CELL_M).astype(np.int64)
        columns, rows = np.clip(cells, 0, np.array(self.free.shape[::-1]) - 1).transpose(2, 0, 1)
        counts = np.where(self.free[rows, columns], self._counts[rows, columns], np.inf)
        return np.asarray(counts.mean(0) * np.hypot(*away.T))

    def _next(self, distances: Array, cell: Cell) -> Cell:
        """The next cell on the path: among the free ones around, or the nearest further off."""
        row, column = cell
        rows, columns = distances.shape
        for reach in range(1, max(rows, columns)):
            beside = range(-reach, reach + 1)
            around = [(row + i, column + j) for i in beside for j in beside]
            inside = [
                c for c in around if min(c) >= 0 and c[0] < rows and c[1] < columns and self.free[c]
            ]
            if any(distances[c] < distances[cell] for c in inside):  # of equals, the straight one
                return min(inside, key=lambda c: (float(distances[c]), math.dist(c, cell)))
        return cell


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


def _nearest_label(labels: NDArray[np.int32], cell: Cell) -> int:
    """Label of the labelled (not 0) cell nearest to a cell; 0 if there is none."""
    labelled = np.argwhere(labels)
    if not len(labelled):
        return 0
    nearest = labelled[np.abs(labelled - cell).sum(axis=1).argmin()]
    return int(labels[tuple(nearest)])


def _cell(row_column: NDArray[np.int64]) -> Cell:
    row, column = row_column.tolist()
    return row, column
