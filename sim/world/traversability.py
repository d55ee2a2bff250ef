"""Traversability map: free cells for a robot, geodesic distances and shortest paths.

Maps have Gibson's format: 0.01 m a pixel, white where a robot can walk, rows along y and columns
along x (iGibson, `indoor_scene.py`), with the world's origin in the middle by default.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

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
        self.solid = _solid(traversable)
        enough, turnable, roomy = _clear(traversable, clearance_m, TURNING_M, ROOMY_M)
        _, labels, statistics, _ = cv2.connectedComponentsWithStats(enough, connectivity=4)
        areas = statistics[1:, cv2.CC_STAT_AREA]  # without the background
        self.free = labels == 1 + (areas.argmax() if len(areas) else 0)
        if around_m is not None:
            self.free = labels == _nearest_label(np.asarray(labels, np.int32), self.cell(*around_m))
        self.turnable = self.free & (turnable == 1)
        self.counts = np.where(roomy, 1, np.where(self.turnable, NARROW, TIGHT))
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
        return self._distances(goals, self.counts)

    def _distances(self, goals: NDArray[np.int64], costs: NDArray[np.int64]) -> Array:
        from pixelgait.sim.world.map_kernels import waves

        steps = waves(self.free, goals, costs, STRAIGHT, DIAGONAL, -1)[self.free]
        return np.asarray(steps[self._nearest] * (CELL_M / STRAIGHT) + self._away_m)

    def geodesic_distance(self, distances: Array, x: float, y: float) -> float:
        """Length of the path from a point [m], given the `geodesic_distances` to the goal."""
        from pixelgait.sim.world.map_kernels import distance_at

        low_x, low_y = self.corner_m
        return distance_at(distances, low_x, low_y, CELL_M, float(x), float(y))

    def path(self, distances: Array, start: Cell) -> NDArray[np.int64]:
        """Cells (n, 2) of the path from a free one to the goal, given its `geodesic_distances`."""
        from pixelgait.sim.world.map_kernels import path_cells

        return path_cells(self.free, distances, *start, self.free.size)

    def ahead(self, costs: Array, x: float, y: float, near: int, far: int) -> tuple[float, float]:
        """A place x, y [m] to steer to from a point, on the path given by `costs_to_go`.

        It is the last one within `far` cells to which a straight line costs no more than the path,
        but at least the one after `near` cells, and not beyond the goal.
        """
        from pixelgait.sim.world.map_kernels import ahead

        corner = np.array(self.corner_m)
        return ahead(self.free, self.counts, costs, corner, CELL_M, x, y, near, far, SAMPLES)


def _solid(traversable: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Cells (rows, columns) of which not all is white."""
    rows, columns = (size // CELL_PIXELS for size in traversable.shape)
    cells = traversable[: rows * CELL_PIXELS, : columns * CELL_PIXELS]
    return np.asarray(cv2.resize(cells, (columns, rows), interpolation=cv2.INTER_AREA) < 255)


def _clear(traversable: NDArray[np.uint8], *radii_m: float) -> NDArray[np.uint8]:
    """1 for cells (k, rows, columns) whose middles have more room than each radius, within 4 %."""
    from pixelgait.sim.world.map_kernels import clear

    # At half the resolution, a quarter of the work; a pixel stays white if all of it is.
    coarse = cv2.resize(traversable, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    white = (coarse == 255).astype(np.uint8)
    return clear(white, CELL_PIXELS // 2, np.array(radii_m) / (2 * PIXEL_M))


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
