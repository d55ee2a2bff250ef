"""Ring buffer of a map's cells, along the axes of the odometry's frame.

Walking clears the rows that come into reach, turning costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.mapping.depth_view import Floats

BITS = 7
SIDE = 1 << BITS  # cells each way
MASK = SIDE - 1

Corner = tuple[int, int]  # cell of the first row and column that are in reach


def corner_at(x: float, y: float, cell_m: float) -> Corner:
    """Corner of the cells around a robot at x, y [m]."""
    return math.floor(x / cell_m) - SIDE // 2, math.floor(y / cell_m) - SIDE // 2


def clear(layers: NDArray[Any], before: Corner, corner: Corner, nothing: float) -> None:
    """Set the cells (..., SIDE, SIDE) that have come into reach since the corner `before`."""
    for axis, (old, new) in enumerate(zip(before, corner, strict=True)):
        if old != new:
            first, count = (old, new - old) if new > old else (new, old - new)
            gone = np.arange(first, first + min(count, SIDE)) & MASK
            layers[(..., gone, slice(None)) if axis == 0 else (..., gone)] = nothing


def around(places: Floats, x: float, y: float, heading_rad: float) -> tuple[Floats, Floats]:
    """Places (2, ...), ahead and left of a robot at x, y [m], along the odometry's axes [m]."""
    cos, sin = np.float32(math.cos(heading_rad)), np.float32(math.sin(heading_rad))
    ahead, left = places
    return ahead * cos - left * sin + np.float32(x), ahead * sin + left * cos + np.float32(y)


def cells_at(x: Floats, y: Floats, cell_m: float) -> NDArray[np.int32]:
    """Numbers of the cells at places [m], rows first."""
    i = np.floor(x * np.float32(1.0 / cell_m)).astype(np.int32)
    j = np.floor(y * np.float32(1.0 / cell_m)).astype(np.int32)
    return np.asarray((i & MASK) << BITS | (j & MASK))
