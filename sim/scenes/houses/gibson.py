"""Scanned houses: the user's own copies of Gibson, iGibson or Matterport3D scenes.

A folder has the layout of iGibson's data set (its `docs/dataset.md`): `mesh_z_up.obj`, its .mtl and
texture, optionally `mesh_z_up_downsampled.obj` for contacts, `floors.txt` with one height a line,
and a map `floor_trav_N.png` for each floor. Instead of OBJ the mesh may have another format. The
data sets' licences forbid redistribution; `pixelgait.sim.scenes.houses.write_house` writes
generated houses in the same layout, and `pixelgait-house` any mesh.

The walls of all floors are in a scene at once: floors must be further apart than a robot is high.
"""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.world.mesh_maps import Fit, fit
from pixelgait.sim.world.meshes import is_picture, is_rewritten, obj_corners, rewritten
from pixelgait.sim.world.scene import STORE, Box, Layout, Mesh, Pose
from pixelgait.sim.world.traversability import PIXEL_M, TraversabilityMap
from pixelgait.sim.world.triangles import FORMATS, TO_Z_UP

FINEST_CELL_PIXELS = 2  # as fine as `TraversabilityMap`; or coarser by powers of two
MAX_BOXES = 1000  # of a floor; that many nearly double the time of a physics step
HEIGHT_M = 1.0  # higher than a robot, lower than the next storey
UNSEEN = (1.0, 1.0, 1.0)
GOOD, CLEARLY_BETTER = 0.4, 0.7  # of `Fit`; assumption: maps drawn of meshes have 0.97 and more

CellRectangle = tuple[int, int, int, int]  # first row, first column, rows and columns' ends
MESH, DOWNSAMPLED, FLOORS = "mesh_z_up.obj", "mesh_z_up_downsampled.obj", "floors.txt"
# Other frames that are tried on a mesh that does not fit its map: [m] in a unit, upward axis.
UNITS = {"metres": 1.0, "centimetres": 0.01, "millimetres": 0.001, "inches": 0.0254, "feet": 0.3048}
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
        if folder.is_file():
            raise UserError(f"scene gibson: {folder} is a file; {remedy(folder)}")
        mesh = _mesh_file(folder)
        for path in (folder, mesh, folder / FLOORS):
            if not path.exists():
                raise UserError(f"scene gibson: {path} is missing")
        downsampled = folder / DOWNSAMPLED
        collision = downsampled if downsampled.exists() else mesh
        corners = _corners(mesh)
        if collision != mesh:
            _corners(collision)
        self.floors: list[tuple[float, TraversabilityMap]] = []  # heights [m], maps
        boxes: list[Box] = []
        for i, height in enumerate(_heights(folder / FLOORS)):
            path = folder / MAP.format(i)
            image = _image(path)
            _check_fit(mesh, corners, path, image, height)
            self.floors.append((height, _walk_map(path, image)))
            boxes += collision_boxes(image, height + LEVEL_M)
        texture = None if is_rewritten(mesh, None) else _texture(mesh)
        self.fixed = (Mesh(mesh, collision, texture, boxes),)
        half_m = max(walk_map.size_m[0] for _, walk_map in self.floors) / 2.0
        floor = Box(STORE, (half_m, half_m, SLAB_HALF_M), (1.0, 1.0, 1.0), visible=False)
        self.movable = (self.mark, floor)

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a floor, a start and a goal on it."""
        height, traversability_map = self.floors[rng.integers(len(self.floors))]
        level = height + LEVEL_M
        start, mark = self.point_goal(rng, traversability_map, level)
        return Layout(start, (mark, Pose(0.0, 0.0, level - SLAB_HALF_M)))


def remedy(mesh: Path, *options: str) -> str:
    """Command line that makes a house of a mesh."""
    return " ".join(("pixelgait-house", str(mesh), *options, "--out HOUSE makes a house of it"))


def _mesh_file(folder: Path) -> Path:
    """The mesh in a folder: `MESH`, or of another format."""
    mesh = folder / MESH
    others = (mesh.with_suffix(suffix) for suffix in FORMATS)
    return next((path for path in others if path.exists()), mesh)


def _corners(path: Path) -> Array:
    """Corners (n, 3, 3) of a mesh's triangles [m].

    Raises:
        UserError: if it cannot be read.
    """
    try:
        return obj_corners(path if path.suffix == ".obj" else rewritten(path)[0])
    except (ValueError, UserError) as error:
        raise UserError(f"scene gibson: {error}") from None


def _check_fit(
    mesh: Path, corners: Array, path: Path, image: NDArray[np.uint8], floor_m: float
) -> None:
    """Check that a mesh fits a map by its floor, or that no other units or axis fit better.

    Walls may be elsewhere than on the map, which may have been painted.

    Raises:
        UserError: otherwise, with the remedy.
    """
    found = fit(corners, image, floor_m)
    if found.least > GOOD:
        return
    better = _better_frame(mesh, corners, image, floor_m)
    if found.floor > GOOD and better is None:
        return
    raise UserError(
        f"scene gibson: {mesh.name} does not fit {path.name}: {found.floor:.0%} of its white area "
        f"is a free floor at {floor_m:g} m, {found.edge:.0%} of its border has a wall; "
        f"{better or 'another house, or its origin is not in the middle of the map?'}"
    )


def _better_frame(
    mesh: Path, corners: Array, image: NDArray[np.uint8], floor_m: float
) -> str | None:
    """The frame in which a mesh would fit a map, and what to do."""
    fits: dict[tuple[str, str], Fit] = {
        (unit, up): fit(corners @ turn.T * metres, image, floor_m)
        for up, turn in TO_Z_UP.items()
        for unit, metres in UNITS.items()
    }
    (unit, up), best = max(fits.items(), key=lambda each: each[1].least)
    if best.least < CLEARLY_BETTER:
        return None
    return f"it would in {unit}, {up} up: {remedy(mesh, *_options(UNITS[unit], up))}"


def _options(metres: float, up: str) -> list[str]:
    scale = [] if metres == 1.0 else ["--scale", f"{metres:g}"]
    return scale if up == "z" else [*scale, "--up", up]


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


def collision_boxes(traversable: NDArray[np.uint8], floor_m: float) -> list[Box]:
    """Invisible boxes on a floor at a height [m], where its map (n, n) is not white.

    For MuJoCo, which would replace the house's triangles by their convex hull, and for gliding
    robots. A cell that is not all white is filled, so boxes exceed the blocked area by less than a
    cell.
    """
    pixels = FINEST_CELL_PIXELS
    while len(rectangles := covering_rectangles(_blocked(traversable, pixels))) > MAX_BOXES:
        pixels *= 2
    corners_m = np.array(rectangles).reshape(-1, 2, 2) * (PIXEL_M * pixels)
    corners_m -= PIXEL_M * len(traversable) / 2.0
    return [_box(low, high, floor_m) for low, high in corners_m]


def _blocked(traversable: NDArray[np.uint8], pixels: int) -> NDArray[np.bool_]:
    """Which cells of `pixels` x `pixels` are not all white."""
    beyond = -len(traversable) % pixels
    whole = np.pad(traversable != 255, (0, beyond))
    cells = len(whole) // pixels
    return np.asarray(whole.reshape(cells, pixels, cells, pixels).any(axis=(1, 3)))


def _box(low: Array, high: Array, floor_m: float) -> Box:
    """A box over a rectangle between two corners (y, x) [m]."""
    (y, x), (half_y, half_x) = (low + high) / 2.0, (high - low) / 2.0
    half_m = (float(half_x), float(half_y), HEIGHT_M / 2.0)
    pose = Pose(float(x), float(y), floor_m + HEIGHT_M / 2.0)
    return Box(pose, half_m, UNSEEN, visible=False)


def covering_rectangles(cells: NDArray[np.bool_]) -> list[CellRectangle]:
    """Rectangles whose union are the cells (n, m).

    Each is grown from the deepest cell that is left, and may overlap others. So diagonal walls
    become squares of their thickness without gaps, not strips as thin as a cell.
    """
    padded = np.pad(cells.astype(np.uint8), 1)
    depth = cv2.distanceTransform(padded, cv2.DIST_C, 3)[1:-1, 1:-1].astype(int)
    left, right = _runs(cells)
    above, below = (ends.T for ends in _runs(cells.T))
    left_over, found = cells.copy(), []
    rows, columns = cells.nonzero()
    for i in np.argsort(-depth[rows, columns], kind="stable"):
        row, column = rows[i], columns[i]
        if not left_over[row, column]:
            continue
        reach = depth[row, column] - 1
        beside = slice(row - reach, row + reach + 1), column
        first, end = left[beside].max(), right[beside].min()
        across = row, slice(first, end)
        top, bottom = above[across].max(), below[across].min()
        left_over[top:bottom, first:end] = False
        found.append((int(top), int(first), int(bottom), int(end)))
    return found


def _runs(cells: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of the run of cells in its row around every cell, (n, m) each."""
    columns = np.arange(cells.shape[1])
    start = np.maximum.accumulate(np.where(cells, 0, columns + 1), axis=1)
    end = np.minimum.accumulate(np.where(cells, len(columns), columns)[:, ::-1], axis=1)[:, ::-1]
    return start, end
