"""Triangles of meshes as arrays, read from OBJ, glTF, COLLADA, STL and PLY files by trimesh.

Several materials are baked into one picture: textures side by side, and a square for each colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array

FORMATS = (".obj", ".glb", ".gltf", ".dae", ".stl", ".ply")
UpAxis = Literal["x", "y", "z"]
# Rotations that turn an axis upwards.
TO_Z_UP = {
    "x": np.array(((0.0, 0.0, -1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))),
    "y": np.array(((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0))),
    "z": np.eye(3),
}
WHITE = 255
LARGEST_CELL, LARGEST_PICTURE = 512, 4096  # [px]
SHADES = 8  # steps of 255 between the colours of a palette: at most 32768
MOST_REPEATS = 32  # of a texture across a triangle; more are squeezed

Picture = NDArray[np.uint8]  # (H, W, 3) RGB, row 0 at the top


@dataclass(frozen=True, slots=True, eq=False)
class Triangles:
    """N triangles with one picture."""

    corners: Array  # (n, 3, 3) [m]
    uv: Array  # (n, 3, 2) from the picture's lower left corner, each triangle within 0 to 1
    picture: Picture


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles (n, 3, 3) of one material: with a texture and its coordinates, or colours."""

    corners: Array
    uv: Array | None  # (n, 3, 2)
    picture: Picture | None
    colours: NDArray[np.uint8]  # (n, 3)


def read_triangles(path: Path, scale: float | None = None, up: UpAxis | None = None) -> Triangles:
    """Triangles of a file, turned z up, in metres.

    `scale` (metres in one of the file's units) and `up` are by default what the file says, see
    `declared_frame`.

    Raises:
        UserError: if the file cannot be read, or has no triangles.
    """
    declared_scale, declared_up = declared_frame(path)
    turn = TO_Z_UP[up or declared_up].T * (scale or declared_scale)
    parts = [replace(part, corners=part.corners @ turn) for part in _parts(path)]
    return _baked(parts)


def declared_frame(path: Path) -> tuple[float, UpAxis]:
    """Metres in a unit of a file, and its upward axis.

    glTF is in metres and y up (its specification, 3.3), COLLADA says both, the others say nothing:
    metres and z up.
    """
    if path.suffix.lower() in (".glb", ".gltf"):
        return 1.0, "y"
    if path.suffix.lower() != ".dae":
        return 1.0, "z"
    head = path.read_text(errors="replace")[:10_000]
    unit = re.search(r"<unit[^>]*\bmeter=[\"']([0-9.eE+-]+)", head)
    axis = re.search(r"<up_axis>\s*([XYZ])_UP", head)
    up: Any = axis.group(1).lower() if axis else "y"  # COLLADA's default
    return float(unit.group(1)) if unit else 1.0, up


def _parts(path: Path) -> list[Part]:
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"{path} is no mesh that can be read, expected one of {known}")
    try:
        geometries = _loaded(path)
    except (OSError, UserError, ModuleNotFoundError):
        raise
    except (
        Exception
    ) as error:  # of trimesh and its parsers, whatever a broken file makes them raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{path}: no mesh that can be read ({reason[:200]})") from None
    parts = [part for part in geometries if len(part.corners)]
    if not parts:
        raise UserError(f"{path} has no triangles")
    return parts


def _loaded(path: Path) -> list[Part]:
    """The parts of a file, in its own frame."""
    import trimesh  # takes seconds

    scene = trimesh.load_scene(path, process=False)
    placed = [(scene.geometry[name], pose) for pose, name in map(scene.graph.get, _nodes(scene))]
    meshes = [(mesh, pose) for mesh, pose in placed if isinstance(mesh, trimesh.Trimesh)]
    return [_part(mesh, np.asarray(pose)) for mesh, pose in meshes if len(mesh.faces)]


def _nodes(scene: Any) -> list[Any]:
    """Nodes of a scene that have a geometry."""
    return list(scene.graph.nodes_geometry)


def _part(mesh: Any, pose: Array) -> Part:
    """The part of a mesh at a pose (4, 4), without triangles that have no area."""
    vertices = np.asarray(mesh.vertices, float) @ pose[:3, :3].T + pose[:3, 3]
    corners = vertices[mesh.faces]
    keep = np.isfinite(corners).all((1, 2)) & (_areas(corners) > 0.0)
    uv = getattr(mesh.visual, "uv", None)
    coordinates = None if uv is None else np.asarray(uv, float)[mesh.faces][keep, :, :2]
    if coordinates is not None and not np.isfinite(coordinates).all():
        coordinates = None
    picture, colours = _look(mesh)
    return Part(corners[keep], coordinates, picture, colours[keep])


def _areas(corners: Array) -> Array:
    """Areas (n,) of triangles (n, 3, 3)."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.asarray(np.linalg.norm(across, axis=1) / 2.0)


def _look(mesh: Any) -> tuple[Picture | None, NDArray[np.uint8]]:
    """A texture, or None; and the colour of every face (n, 3)."""
    visual, count = mesh.visual, len(mesh.faces)
    white = np.full((count, 3), WHITE, np.uint8)
    if not visual.defined:
        return None, white
    if visual.kind in ("vertex", "face"):
        return None, np.asarray(visual.face_colors, np.uint8)[:, :3]
    material = getattr(visual, "material", None)
    image = getattr(material, "image", None) or getattr(material, "baseColorTexture", None)
    if image is not None:
        return np.asarray(image.convert("RGB"), np.uint8), white
    colour = getattr(material, "baseColorFactor", None)
    colour = getattr(material, "diffuse", None) if colour is None else colour
    return None, white if colour is None else np.tile(np.asarray(colour, np.uint8)[:3], (count, 1))


def _baked(parts: Sequence[Part]) -> Triangles:
    """Parts as triangles with one picture."""
    textured = [part for part in parts if part.picture is not None and part.uv is not None]
    plain = [part for part in parts if part.picture is None or part.uv is None]
    pictures = _distinct([part.picture for part in textured if part.picture is not None])
    if not plain and len(pictures) == 1:
        cut = [_in_one_tile(part) for part in textured]
        corners, uv = (np.concatenate(arrays) for arrays in zip(*cut, strict=True))
        return Triangles(corners, uv, next(iter(pictures.values())))
    colours = [part.colours // SHADES for part in plain]
    palette, which = np.unique(np.concatenate([*colours, np.zeros((0, 3), np.uint8)]), axis=0,
                               return_inverse=True)  # fmt: skip
    columns = math.ceil(math.sqrt(len(pictures) + bool(plain)))
    squares = math.ceil(math.sqrt(len(palette)))  # along a side of the palette's cell
    largest = max((max(picture.shape[:2]) for picture in pictures.values()), default=1)
    cell = max(min(largest, LARGEST_CELL, LARGEST_PICTURE // columns), 4 * squares, 4)
    atlas = np.full((columns * cell, columns * cell, 3), WHITE, np.uint8)
    corners_of, uv_of = [], []
    for part in textured:
        assert part.picture is not None
        place = list(pictures).index(part.picture.tobytes())
        corners, uv = _in_one_tile(part)
        row, column = divmod(place, columns)
        picture = cv2.resize(part.picture, (cell, cell), interpolation=cv2.INTER_AREA)
        atlas[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell] = picture
        inside = (0.5 + uv * (cell - 1)) / cell  # half a pixel from the neighbours
        corners_of.append(corners)
        uv_of.append((inside + np.array((column, columns - 1 - row))) / columns)
    if plain:
        row, column = divmod(len(pictures), columns)
        side = cell // squares
        for i, colour in enumerate(palette):
            y, x = row * cell + i // squares * side, column * cell + i % squares * side
            atlas[y : y + side, x : x + side] = _shade(colour)
        down, across = ((place + 0.5) * side for place in divmod(which.ravel(), squares))
        u = (column * cell + across) / (columns * cell)
        v = 1.0 - (row * cell + down) / (columns * cell)
        corners_of.append(np.concatenate([part.corners for part in plain]))
        uv_of.append(np.repeat(np.column_stack((u, v))[:, None], 3, axis=1))
    return Triangles(np.concatenate(corners_of), np.concatenate(uv_of), atlas)


def _distinct(pictures: Sequence[Picture]) -> dict[bytes, Picture]:
    return {picture.tobytes(): picture for picture in pictures}


def _shade(level: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour of a palette's entry: white stays white."""
    return np.round(level.astype(float) * 255.0 / (255 // SHADES)).astype(np.uint8)


def _in_one_tile(part: Part) -> tuple[Array, Array]:
    """Corners and uv of a textured part, cut where its texture repeats; uv within 0 to 1."""
    assert part.uv is not None
    uv = part.uv - np.floor(part.uv.min(axis=1, keepdims=True) + 1e-6)
    spans = np.maximum(uv.max(axis=1, keepdims=True) / MOST_REPEATS, 1.0)
    joined = np.concatenate((part.corners, uv / spans), axis=2)
    for axis in (3, 4):
        done = []
        while len(joined):
            inside, joined = split(joined, axis, 1.0)
            joined = joined.copy()
            joined[:, :, axis] -= 1.0
            done.append(inside)
        joined = np.concatenate(done)
    return joined[:, :, :3], joined[:, :, 3:].clip(0.0, 1.0)


def split(triangles: Array, axis: int, limit: float) -> tuple[Array, Array]:
    """Triangles (n, 3, k) cut at a limit of one of k coordinates: those below, and those above.

    Slivers thinner than 1e-6 are left on their side.
    """
    height = triangles[:, :, axis] - limit
    is_above = height > 1e-6
    count = is_above.sum(axis=1)
    below, above = [triangles[count == 0]], [triangles[count == 3]]
    for alone, (one, two) in ((True, (above, below)), (False, (below, above))):
        mixed = count == (1 if alone else 2)
        first = (is_above[mixed] == alone).argmax(axis=1)  # the corner that is alone on its side
        order = (first[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(triangles[mixed], order[:, :, None], 1).swapaxes(0, 1)
        da, db, dc = np.take_along_axis(height[mixed], order, 1).T[:, :, None]
        p = a + (b - a) * (da / (da - db))
        q = a + (c - a) * (da / (da - dc))
        one.append(np.stack((a, p, q), axis=1))
        two += [np.stack((p, b, c), axis=1), np.stack((p, c, q), axis=1)]
    return np.concatenate(below), np.concatenate(above)


def obj_bytes(triangles: Triangles, material: str) -> bytes:
    """An OBJ file of triangles, whose material library is `material`."""
    count = 3 * len(triangles.corners)
    corners, uv = triangles.corners.reshape(-1, 3), triangles.uv.reshape(-1, 2)
    lines = [f"mtllib {material}\nusemtl house\n"]
    lines.append("".join(f"v {x:.4f} {y:.4f} {z:.4f}\n" for x, y, z in corners.tolist()))
    lines.append("".join(f"vt {u:.5f} {v:.5f}\n" for u, v in uv.tolist()))
    lines += (f"f {i}/{i} {i + 1}/{i + 1} {i + 2}/{i + 2}\n" for i in range(1, count, 3))
    return "".join(lines).encode()
