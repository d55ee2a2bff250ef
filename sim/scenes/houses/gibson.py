"""Scanned houses: the user's own copies of Gibson, iGibson or Matterport3D scenes.

A folder has the layout of iGibson's data set (its `docs/dataset.md`): `mesh_z_up.obj`, its .mtl and
texture, optionally `mesh_z_up_downsampled.obj` for contacts, `floors.txt` with one height a line,
and a map `floor_trav_N.png` for each floor. The data sets' licences forbid redistribution;
`pixelgait.sim.scenes.houses.write_house` writes generated houses in the same layout.

The walls of all floors are in a scene at once: floors must be further apart than a robot is high.
"""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.sim.scenes.houses.collision_boxes import collision_boxes
from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.world.meshes import check_faces, is_picture
from pixelgait.sim.world.scene import STORE, Box, Layout, Mesh, Pose
from pixelgait.sim.world.traversability import TraversabilityMap

MESH, DOWNSAMPLED, FLOORS = "mesh_z_up.obj", "mesh_z_up_downsampled.obj", "floors.txt"
MAP = "floor_trav_{}.png"  # of a floor, counted from 0
# Height of an invisible level floor above the bumpy one of the scan, as in iGibson.
LEVEL_M = 0.02
SLAB_HALF_M = 0.05


class Gibson(Indoor):
    """A scanned house; every episode draws a floor, a start and a goal."""

    name = "gibson"

    def __init__(self, folder: Path) -> None:
        """Read the folder.

        Raises:
            UserError: if a file is missing or cannot be read.
        """
        mesh, downsampled = folder / MESH, folder / DOWNSAMPLED
        for path in (folder, mesh, folder / FLOORS):
            if not path.exists():
                raise UserError(f"scene gibson: {path} is missing")
        collision = downsampled if downsampled.exists() else mesh
        for path in {mesh, collision}:
            _check_faces(path)
        self.floors: list[tuple[float, TraversabilityMap]] = []  # heights [m], maps
        boxes: list[Box] = []
        for i, height in enumerate(_heights(folder / FLOORS)):
            path = folder / MAP.format(i)
            image = _image(path)
            self.floors.append((height, _walk_map(path, image)))
            boxes += collision_boxes(image, height + LEVEL_M)
        self.fixed = (Mesh(mesh, collision, _texture(mesh), boxes),)
        half_m = max(walk_map.size_m[0] for _, walk_map in self.floors) / 2.0
        floor = Box(STORE, (half_m, half_m, SLAB_HALF_M), (1.0, 1.0, 1.0), visible=False)
        self.movable = (self.mark, floor)

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a floor, a start and a goal on it."""
        height, traversability_map = self.floors[rng.integers(len(self.floors))]
        level = height + LEVEL_M
        start, mark = self.point_goal(rng, traversability_map, level)
        return Layout(start, (mark, Pose(0.0, 0.0, level - SLAB_HALF_M)))


def _check_faces(path: Path) -> None:
    try:
        check_faces(path)
    except ValueError as error:
        raise UserError(f"scene gibson: {error}") from None


def _texture(mesh: Path) -> Path | None:
    """The picture of a mesh's first textured material."""
    library = _named(mesh, "mtllib")
    if library is None:
        return None
    if not library.exists():
        raise UserError(f"scene gibson: {library}, named in {mesh.name}, is missing")
    texture = _named(library, "map_Kd")
    if texture is not None and not texture.exists():
        raise UserError(f"scene gibson: {texture}, named in {library.name}, is missing")
    if texture is not None and not is_picture(texture):
        raise UserError(f"scene gibson: {texture}, named in {library.name}, is not a picture")
    return texture


def _named(path: Path, keyword: str) -> Path | None:
    """The file that the first line with a keyword names, in the same folder."""
    with path.open(errors="replace") as lines:
        for line in lines:
            if line.startswith(f"{keyword} "):
                return path.parent / line.removeprefix(keyword).strip()
    return None


def _heights(path: Path) -> list[float]:
    """Floor heights [m], ascending."""
    try:
        heights = sorted(float(line) for line in path.read_text().splitlines() if line.strip())
    except ValueError as error:
        raise UserError(f"scene gibson: {path}: {error}, expected one height a line") from None
    if not heights or not all(map(math.isfinite, heights)):
        raise UserError(f"scene gibson: {path} has no height, or one that is not finite")
    return heights


def _image(path: Path) -> NDArray[np.uint8]:
    """A map (n, n)."""
    if not path.exists():
        raise UserError(f"scene gibson: {path} is missing, floors.txt names a height for it")
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise UserError(f"scene gibson: {path} is not a picture")
    if image.shape[0] != image.shape[1]:
        raise UserError(f"scene gibson: {path} is {image.shape[1]} x {image.shape[0]}, not square")
    return image.astype(np.uint8)


def _walk_map(path: Path, image: NDArray[np.uint8]) -> TraversabilityMap:
    try:
        return TraversabilityMap(image)
    except ValueError as error:
        raise UserError(f"scene gibson: {path}: {error}") from None
