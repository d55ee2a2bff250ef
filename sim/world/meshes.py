"""Triangle meshes: faces of textured boxes, and checks of OBJ files and pictures."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from pixelgait.robot.spec import Array

CORNERS = np.array(((-1, -1), (1, -1), (1, 1), (-1, 1)))  # of a face, in order
TWO_TRIANGLES = np.array(((0, 1, 2), (0, 2, 3)))
TRIANGLES = (4 * np.arange(6)[:, None, None] + TWO_TRIANGLES).reshape(12, 3)


def box_corners(half_m: tuple[float, float, float]) -> tuple[Array, Array]:
    """Corners and normals (6, 4, 3) of a box's faces, anticlockwise as seen from outside."""
    corners, normals = np.zeros((6, 4, 3)), np.zeros((6, 4, 3))
    for face in range(6):
        axis, side = face // 2, 1 - 2 * (face % 2)
        first, second = (other for other in range(3) if other != axis)
        normals[face, :, axis] = corners[face, :, axis] = side
        # (first, second, axis) is right-handed for x and z, left-handed for y.
        order = side if axis != 1 else -side
        corners[face][:, [first, second]] = CORNERS[::order]
    return corners * half_m, normals


def box_uv(local: Array, normals: Array) -> Array:
    """Coordinates (n, 2) [m] of surface points on their faces of a box: along, and up or across.

    `local` and `normals` are (n, 3) in the box's frame.
    """
    along = np.array(((1, 2), (0, 2), (0, 1)))[np.abs(normals).argmax(axis=1)]
    return np.take_along_axis(local, along, axis=1)


def check_faces(path: Path) -> None:
    """Check the faces of an OBJ file: PyBullet crashes on a vertex that does not exist.

    Raises:
        ValueError: if a face has such a vertex, or there is no face.
    """
    vertices, highest = 0, 0
    has_faces = False
    with path.open(errors="replace") as lines:
        for line in lines:
            if line.startswith("v "):
                vertices += 1
            elif line.startswith("f "):
                has_faces = True
                corners = _corners(path, line)
                highest = max([highest, *corners])
                missing = [n for n in corners if n == 0 or n < -vertices]  # -1 is the last so far
                if missing:
                    raise ValueError(f"{path}: a face with vertex {missing[0]}")
    if not has_faces:
        raise ValueError(f"{path} has no faces, expected an OBJ mesh")
    if highest > vertices:
        raise ValueError(f"{path}: a face with vertex {highest} of {vertices}")


def is_picture(path: Path) -> bool:
    """Whether OpenCV can read a file as a picture."""
    return bool(cv2.haveImageReader(str(path)))


def _corners(path: Path, line: str) -> list[int]:
    """Vertices of a face, counted from 1, or negative from the last one back."""
    try:
        return [int(corner.partition("/")[0]) for corner in line.split()[1:]]
    except ValueError:
        raise ValueError(f"{path}: '{line.strip()}' is not a face") from None
