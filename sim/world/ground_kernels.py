"""Heights of a `Ground` in machine code."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.world import ground
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.ground import Ground

ground_m = compiled(ground.ground_m)


@compiled
def grounds_m(ground: Ground, points: Array) -> Array:
    """Heights (n,) at points (n, 2) [m]; NaN: no ground."""
    heights = np.empty(len(points))
    for i in range(len(points)):
        heights[i] = ground_m(ground, points[i, 0], points[i, 1])
    return heights
