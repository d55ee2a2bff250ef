"""Shadows of upright boxes in parallel light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.rendering.geometry import Floats
from pixelgait.sim.world.compiled import compiled

LEAST = np.float32(1e-9)  # component of a direction: keeps inverses finite
ZERO, ONE = np.float32(0.0), np.float32(1.0)


@compiled
def shade(
    boxes: Floats,
    casters: NDArray[np.intp],
    points: Floats,
    towards: Floats,
    shaded: NDArray[np.uint8],
) -> None:
    """Mark points from which a ray towards the light meets a box.

    Args:
        boxes: (8, K), see `Geometry`.
        casters: (k,) indices of the boxes that cast shadows.
        points: (3, n) [m].
        towards: (3,) unit vector towards the light.
        shaded: (n,) set to 1 where a point is in a shadow.
    """
    xs, ys, zs = points[0], points[1], points[2]
    for k in casters:
        cos, sin = boxes[6, k], boxes[7, k]
        # The direction along the box's own axes, and the points relative to its middle.
        dx, dy = cos * towards[0] + sin * towards[1], cos * towards[1] - sin * towards[0]
        dz = towards[2]
        ix, iy, iz = _inverse(dx), _inverse(dy), _inverse(dz)
        rx, ry, rz = boxes[3, k] * abs(ix), boxes[4, k] * abs(iy), boxes[5, k] * abs(iz)
        x, y, z = boxes[0, k], boxes[1, k], boxes[2, k]
        for i in range(len(shaded)):  # without branches: vector instructions
            ax, ay, az = x - xs[i], y - ys[i], (z - zs[i]) * iz
            u, v = (cos * ax + sin * ay) * ix, (cos * ay - sin * ax) * iy
            enter, other, third = u - rx, v - ry, az - rz
            enter = enter if enter > other else other
            enter = enter if enter > third else third
            leave, other, third = u + rx, v + ry, az + rz
            leave = leave if leave < other else other
            leave = leave if leave < third else third
            shaded[i] |= (enter < leave) & (leave > ZERO)


@compiled
def _inverse(component: np.float32) -> np.float32:
    """Inverse of a component of a direction; that of a small one if it is 0."""
    inverse: np.float32 = ONE / (component if component != ZERO else LEAST)
    return inverse
