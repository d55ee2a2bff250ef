"""Boxes as triangles, for what has to carry a texture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

AROUND = np.array(((-1, -1), (1, -1), (1, 1), (-1, 1)))  # a face's corners, one after another
TWO_TRIANGLES = np.array(((0, 1, 2), (0, 2, 3)))


def box_mesh(half_m: tuple[float, float, float]) -> tuple[Array, Array, NDArray[np.int64]]:
    """Corners and normals (24, 3), four of each face, and triangles (12, 3), outside in front."""
    corners, normals = np.zeros((6, 4, 3)), np.zeros((6, 4, 3))
    triangles = np.zeros((6, 2, 3), dtype=np.int64)
    for face in range(6):
        axis, side = face // 2, 1 - 2 * (face % 2)
        first, second = (other for other in range(3) if other != axis)
        normals[face, :, axis] = corners[face, :, axis] = side
        corners[face, :, [first, second]] = AROUND.T
        # (first, second, axis) is right-handed for x and z, left-handed for y.
        outside = side if axis != 1 else -side
        triangles[face] = 4 * face + TWO_TRIANGLES[:, ::outside]
    return corners.reshape(24, 3) * half_m, normals.reshape(24, 3), triangles.reshape(12, 3)
