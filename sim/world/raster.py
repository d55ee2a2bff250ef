"""Traversability map of any scene, rasterised from the shapes of a layout."""

from __future__ import annotations

import math
from collections import deque

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.world.obstacles import obstacle_boxes
from pixelgait.sim.world.scene import Layout, Pose, Scene, corners
from pixelgait.sim.world.traversability import (
    CELL_M,
    CELL_PIXELS,
    HALF_WIDTH_M,
    PIXEL_M,
    TraversabilityMap,
)

REACH_M = 16.0  # from the start: extent of a map on endless ground, and at least
FURTHEST_M = 64.0  # of ground whose edges are known: no house is larger
STEP_M = 0.07  # highest step between two cells: more than those of the shipped scenes' stairs


def walk_map(scene: Scene, layout: Layout, height_m: float) -> TraversabilityMap:
    """Map of the ground around a layout's start, for a robot of a height [m].

    Raises:
        UserError: if there is no room to turn.
    """
    # Walls of houses are aligned with whole cells: another grid would make doors narrower.
    reach = reach_m(scene, layout.start)
    corner = np.floor(np.array((layout.start.x, layout.start.y)) / CELL_M) * CELL_M - reach
    ground = _ground_cells(scene, layout, corner, reach)
    rows, columns = np.nonzero(ground)
    low_x, low_y = (corner + CELL_M * np.array((columns.min(), rows.min()))).tolist()
    inside = ground[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    size = CELL_PIXELS * inside.shape[1], CELL_PIXELS * inside.shape[0]
    image = cv2.resize(255 * inside, size, interpolation=cv2.INTER_NEAREST).astype(
        np.uint8, copy=False
    )
    boxes = obstacle_boxes(scene, layout, height_m)
    half_m = np.array([box.half_m[:2] for box, _ in boxes])
    outlines = corners([pose for _, pose in boxes], half_m) - (low_x, low_y)
    for pixels in np.floor(outlines / PIXEL_M).astype(np.int32):
        cv2.fillConvexPoly(image, pixels, 0)
    try:
        around = layout.start.x, layout.start.y
        return TraversabilityMap(image, (low_x, low_y), around, HALF_WIDTH_M)
    except ValueError as error:
        raise UserError(f"scene {scene.name}: {error}") from None


def reach_m(scene: Scene, start: Pose) -> float:
    """How far a map reaches from a start along x and y: over all ground on the way to a goal."""
    ground = scene.ground()
    if ground is None or not scene.has_goal_position:
        return REACH_M
    edges = ground.rectangles[:, :4] - (start.x, start.x, start.y, start.y)
    furthest = float(np.abs(edges).max(initial=0.0))
    return max(REACH_M, math.ceil(furthest)) if furthest < FURTHEST_M else REACH_M


def _ground_cells(scene: Scene, layout: Layout, corner: Array, reach_m: float) -> NDArray[np.uint8]:
    """1 for every cell (n, n) that can be reached over ground from the start, in the middle.

    `corner` (2,) is the least x, y [m].
    """
    from pixelgait.sim.world.map_kernels import ground_within_reach

    ground, middle = scene.ground(), round(reach_m / CELL_M)
    if ground is None:
        return _asked_cells(scene, layout, corner, middle)
    x, y = corner.tolist()
    return ground_within_reach(ground, x, y, middle, layout.start.z, CELL_M, STEP_M)


def _asked_cells(scene: Scene, layout: Layout, corner: Array, middle: int) -> NDArray[np.uint8]:
    """The same, of a scene that answers for one point at a time."""
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
