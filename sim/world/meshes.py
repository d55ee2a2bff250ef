"""Meshes: faces of textured boxes, and files of triangles as simulators load them."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise
from multiprocessing.util import Finalize
from pathlib import Path

import cv2
import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import Mesh
from pixelgait.sim.world.triangles import obj_bytes, read_triangles

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


def obj_corners(path: Path) -> Array:
    """Corners (n, 3, 3) of an OBJ file's triangles; larger faces are cut into triangles.

    Raises:
        ValueError: if a face has a vertex that does not exist, at which PyBullet crashes, or there
            is no face, or a vertex without three coordinates.
    """
    vertices: list[str] = []
    faces: list[tuple[int, int, int]] = []
    highest = 0
    with path.open(errors="replace") as lines:
        for line in lines:
            if line.startswith("v "):
                vertices.append(line[2:])
            elif line.startswith("f "):
                corners = _corners(path, line)
                highest = max([highest, *corners])
                missing = [n for n in corners if n == 0 or n < -len(vertices)]  # -1 is the last
                if missing:
                    raise ValueError(f"{path}: a face with vertex {missing[0]}")
                indices = [n - 1 if n > 0 else len(vertices) + n for n in corners]
                faces += [(indices[0], one, two) for one, two in pairwise(indices[1:])]
    if not faces:
        raise ValueError(f"{path} has no faces, expected an OBJ mesh")
    if highest > len(vertices):
        raise ValueError(f"{path}: a face with vertex {highest} of {len(vertices)}")
    try:
        numbers = np.fromstring(" ".join(vertices), sep=" ")  # with colours, six a vertex
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) % len(vertices) or len(numbers) < 3 * len(vertices):
        raise ValueError(f"{path}: a vertex without three numbers")
    points = numbers.reshape(len(vertices), -1)[:, :3]
    return np.asarray(points[np.array(faces)])


def as_loaded(mesh: Mesh) -> Mesh:
    """A mesh as simulators load it: OBJ files with one material each, and a picture.

    Files of another format, and OBJ files of several materials without a given texture, are
    rewritten to temporary ones, once a process.

    Raises:
        UserError: if a file cannot be read.
    """
    if is_rewritten(mesh.visual, mesh.texture):
        visual, texture = rewritten(mesh.visual)
        mesh = replace(mesh, visual=visual, texture=texture)
    if mesh.collision.suffix.lower() != ".obj":
        mesh = replace(mesh, collision=rewritten(mesh.collision)[0])
    return mesh


def is_rewritten(visual: Path, texture: Path | None) -> bool:
    """Whether a mesh's file is rewritten for the simulators."""
    if visual.suffix.lower() != ".obj":
        return True
    return texture is None and len(set(re.findall(rb"(?m)^usemtl .*$", visual.read_bytes()))) > 1


def rewritten(path: Path) -> tuple[Path, Path]:
    """A mesh's file as a temporary OBJ file of one material, and its picture.

    Raises:
        UserError: if the file cannot be read.
    """
    return _rewritten(path.resolve(), path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _rewritten(path: Path, _changed: int) -> tuple[Path, Path]:
    triangles = read_triangles(path)
    folder = Path(tempfile.mkdtemp(dir=_temporary_folder()))
    mesh, picture = folder / "mesh.obj", folder / "texture.png"
    mesh.write_bytes(obj_bytes(triangles, "mesh.mtl"))
    cv2.imwrite(str(picture), triangles.picture[:, :, ::-1])
    return mesh, picture


@cache
def _temporary_folder() -> str:
    """A folder that is removed when the process ends, also a worker: those run no `atexit`."""
    folder = tempfile.mkdtemp(prefix="pixelgait-meshes-")
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder


def is_picture(path: Path) -> bool:
    """Whether OpenCV can read a file as a picture."""
    return bool(cv2.haveImageReader(str(path)))


def _corners(path: Path, line: str) -> list[int]:
    """Vertices of a face, counted from 1, or negative from the last one back."""
    try:
        return [int(corner.partition("/")[0]) for corner in line.split()[1:]]
    except ValueError:
        raise ValueError(f"{path}: '{line.strip()}' is not a face") from None
