"""Collision boxes of a scanned house, from the blocked cells of its traversability map.

For MuJoCo, which would replace the house's triangles by their convex hull, and for gliding robots.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import Box, Pose
from pixelgait.sim.world.traversability import PIXEL_M

FINEST_CELL_PIXELS = 2  # as fine as `TraversabilityMap`; or coarser by powers of two
MAX_BOXES = 1000  # of a floor; that many nearly double the time of a physics step
HEIGHT_M = 1.0  # higher than a robot, lower than the next storey
UNSEEN = (1.0, 1.0, 1.0)

CellRectangle = tuple[int, int, int, int]  # first row, first column, rows and columns' ends


def collision_boxes(traversable: NDArray[np.uint8], floor_m: float) -> list[Box]:
    """Invisible boxes on a floor at a height [m], where its map (n, n) is not white.

    A cell that is not all white is filled, so boxes exceed the blocked area by less than a cell.
    """
    pixels = FINEST_CELL_PIXELS
    while len(rectangles := covering_rectangles(_blocked(traversable, pixels))) > MAX_BOXES:
        pixels *= 2
    corners_m = np.array(rectangles).reshape(-1, 2, 2) * (PIXEL_M * pixels)
    corners_m -= PIXEL_M * len(traversable) / 2.0
    return [_box(low, high, floor_m) for low, high in corners_m]


def _blocked(traversable: NDArray[np.uint8], pixels: int) -> NDArray[np.bool_]:
    """Which cells of `pixels` x `pixels` are not all white."""
    beyond = -len(traversable) % pixels
    whole = np.pad(traversable != 255, (0, beyond))
    cells = len(whole) // pixels
    return np.asarray(whole.reshape(cells, pixels, cells, pixels).any(axis=(1, 3)))


def _box(low: Array, high: Array, floor_m: float) -> Box:
    """A box over a rectangle between two corners (y, x) [m]."""
    (y, x), (half_y, half_x) = (low + high) / 2.0, (high - low) / 2.0
    half_m = (float(half_x), float(half_y), HEIGHT_M / 2.0)
    pose = Pose(float(x), float(y), floor_m + HEIGHT_M / 2.0)
    return Box(pose, half_m, UNSEEN, visible=False)


def covering_rectangles(cells: NDArray[np.bool_]) -> list[CellRectangle]:
    """Rectangles whose union are the cells (n, m).

    Each is grown from the deepest cell that is left, and may overlap others. So diagonal walls
    become squares of their thickness without gaps, not strips as thin as a cell.
    """
    padded = np.pad(cells.astype(np.uint8), 1)
    depth = cv2.distanceTransform(padded, cv2.DIST_C, 3)[1:-1, 1:-1].astype(int)
    left, right = _runs(cells)
    above, below = (ends.T for ends in _runs(cells.T))
    left_over, found = cells.copy(), []
    rows, columns = cells.nonzero()
    for i in np.argsort(-depth[rows, columns], kind="stable"):
        row, column = rows[i], columns[i]
        if not left_over[row, column]:
            continue
        reach = depth[row, column] - 1
        beside = slice(row - reach, row + reach + 1), column
        first, end = left[beside].max(), right[beside].min()
        across = row, slice(first, end)
        top, bottom = above[across].max(), below[across].min()
        left_over[top:bottom, first:end] = False
        found.append((int(top), int(first), int(bottom), int(end)))
    return found


def _runs(cells: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of the run of cells in its row around every cell, (n, m) each."""
    columns = np.arange(cells.shape[1])
    start = np.maximum.accumulate(np.where(cells, 0, columns + 1), axis=1)
    end = np.minimum.accumulate(np.where(cells, len(columns), columns)[:, ::-1], axis=1)[:, ::-1]
    return start, end
