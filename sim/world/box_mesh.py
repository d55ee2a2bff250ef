"""Triangle meshes of boxes, for what has to carry a texture."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.spec import Array

AROUND = np.array(((-1, -1), (1, -1), (1, 1), (-1, 1)))  # a face's corners, one after another
TWO_TRIANGLES = np.array(((0, 1, 2), (0, 2, 3)))
TRIANGLES = (4 * np.arange(6)[:, None, None] + TWO_TRIANGLES).reshape(12, 3)


def box_corners(half_m: tuple[float, float, float]) -> tuple[Array, Array]:
    """Corners and normals (6, 4, 3) of the faces, anticlockwise as seen from outside."""
    corners, normals = np.zeros((6, 4, 3)), np.zeros((6, 4, 3))
    for face in range(6):
        axis, side = face // 2, 1 - 2 * (face % 2)
        first, second = (other for other in range(3) if other != axis)
        normals[face, :, axis] = corners[face, :, axis] = side
        # (first, second, axis) is right-handed for x and z, left-handed for y.
        order = side if axis != 1 else -side
        corners[face][:, [first, second]] = AROUND[::order]
    return corners * half_m, normals


def box_uv(local: Array, normals: Array) -> Array:
    """Where points of a box's surface are on its faces, (n, 2) [m]: along, and up or across.

    `local` and `normals` are (n, 3), both in the box's frame.
    """
    along = np.array(((1, 2), (0, 2), (0, 1)))[np.abs(normals).argmax(axis=1)]
    return np.take_along_axis(local, along, axis=1)
