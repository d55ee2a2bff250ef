"""Ground as data: the heights of everything in a scene that a robot can walk on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.spec import Array

NO_FIELD = (0.0, 0.0, 1.0, 1.0)

Rectangle = Sequence[float]  # first and last x, first and last y, height [m], and its rise along x


class Ground(NamedTuple):
    """Rectangles, the first of which counts where several overlap; none: no ground.

    A rectangle covers `x0 <= x < x1` and `y0 < y < y1`. Its height at x is `z + rise * (x - x0)`,
    or that of the field `heights_m` if there is one.
    """

    rectangles: Array  # (n, 6): x0, x1, y0, y1, z [m], rise [m/m]
    heights_m: Array  # (k, m) along x and y, all within the rectangles; (0, 0): there is no field
    field: (
        Array  # (4,): x, y of its middle [m], 1 or -1 if turned by half a turn, a cell's side [m]
    )


def make_ground(
    rectangles: Sequence[Rectangle],
    heights_m: Array | None = None,
    field: Sequence[float] = NO_FIELD,
) -> Ground:
    """Ground of rectangles with 5 numbers, or 6 if they rise."""
    rows = [(*each, 0.0)[:6] for each in rectangles]
    heights = np.zeros((0, 0)) if heights_m is None else np.ascontiguousarray(heights_m)
    return Ground(np.array(rows).reshape(-1, 6), heights, np.array(field))


def open_rectangle(x0: float, x1: float, y0: float, y1: float, z: float = 0.0) -> Rectangle:
    """Level ground within edges that are not part of it."""
    return float(np.nextafter(x0, math.inf)), x1, y0, y1, z


LEVEL = make_ground([(-math.inf, math.inf, -math.inf, math.inf, 0.0)])  # without an end


def ground_m(ground: Ground, x: float, y: float) -> float:
    """Height at (x, y) [m]; NaN: no ground. `ground_kernels.py` has it in machine code."""
    rectangles, heights, field = ground.rectangles, ground.heights_m, ground.field
    for i in range(len(rectangles)):
        x0, x1, y0, y1 = rectangles[i][0], rectangles[i][1], rectangles[i][2], rectangles[i][3]
        if not (x0 <= x < x1 and y0 < y < y1):
            continue
        if heights.size == 0:
            z, rise = rectangles[i][4], rectangles[i][5]
            return float(z if rise == 0.0 else rise * (x - x0) + z)
        (n, m), sign, cell_m = heights.shape, field[2], field[3]
        row = (sign * (x - field[0]) + (n - 1) * cell_m / 2) / cell_m
        column = (sign * (y - field[1]) + (m - 1) * cell_m / 2) / cell_m
        k, j = min(int(row), n - 2), min(int(column), m - 2)
        u, v = row - k, column - j
        near = (1 - v) * heights[k, j] + v * heights[k, j + 1]
        far = (1 - v) * heights[k + 1, j] + v * heights[k + 1, j + 1]
        return float((1 - u) * near + u * far)
    return math.nan


def height_m(ground: Ground, x: float, y: float) -> float | None:
    """Height of the ground at (x, y) [m], for one point; None: no ground."""
    rectangles: Any = ground.rectangles.tolist()  # Python reads lists faster than arrays
    height = ground_m(Ground(rectangles, ground.heights_m, ground.field), x, y)
    return None if math.isnan(height) else height
