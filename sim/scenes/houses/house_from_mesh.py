"""pixelgait-house: a house in Gibson's layout from a mesh, with its floors and maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray

from pixelgait.robot.cli.options import Range, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import write_atomic
from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.houses.gibson import FLOORS, MAP, MESH
from pixelgait.sim.scenes.houses.write_house import MATERIAL, TEXTURE
from pixelgait.sim.world.mesh_maps import floor_heights, level_area, traversable
from pixelgait.sim.world.traversability import CELL_M, PIXEL_M, TraversabilityMap
from pixelgait.sim.world.triangles import (
    TO_Z_UP,
    Triangles,
    UpAxis,
    declared_frame,
    obj_bytes,
    read_triangles,
)

# Sizes of buildings [m] between which units are believed, and steps of the units that are guessed.
LEAST_M, MOST_M, HIGHEST_M = 2.0, 150.0, 30.0
GUESSES = {0.001: "millimetres", 0.01: "centimetres", 0.0254: "inches", 100.0: "hectometres"}
UPRIGHT = 1.5  # so many times the level area of another axis speak for that axis
MARGIN_M = 0.2  # of the map around the mesh


@dataclass(frozen=True)
class HouseConfig:
    """Make a house of a mesh: OBJ, glTF, COLLADA, STL or PLY, with its textures and colours.

    The folder gets the mesh, its middle at the origin, the heights of its floors, and a map of each
    floor: 1 cm a pixel, rows along y, white where a robot can walk. Paint the maps as you like.
    Walk there with `--scene gibson:FOLDER`.
    """

    mesh: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A mesh of a building."""
    out: Path
    """Folder to write; it is created if missing."""
    scale: Annotated[float | None, Range(1e-6, 1e6)] = None
    """Metres in one of its units, 0.01 for centimetres; by default what the file says, or 1."""
    up: UpAxis | None = None
    """Its upward axis; by default what the file says (glTF: y), or z."""
    floors: Annotated[tuple[float, ...], Range(-1e4, 1e4)] = ()
    """Heights of the floors [m]; by default they are found."""
    around: Annotated[tuple[float, float] | None, Range(-1e4, 1e4)] = None
    """Keep only the area of the maps around this x y [m], in the mesh's own position; by default
    areas of 1 m2 and more stay white, and a robot uses the largest one."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: write(parse(HouseConfig, "pixelgait-house")))


def write(config: HouseConfig) -> None:
    """Read the mesh, find floors and maps, and write the house.

    Raises:
        UserError: if it cannot be read, its units or axes are not those of a building, or it has no
            floor to walk on.
    """
    if config.out.is_file():
        raise UserError(f"--out {config.out} is a file, expected a folder")
    triangles = _turned(config)
    low, high = (extreme(triangles.corners, axis=(0, 1)) for extreme in (np.min, np.max))
    middle = np.array(((low[0] + high[0]) / 2.0, (low[1] + high[1]) / 2.0, 0.0))
    triangles = replace(triangles, corners=triangles.corners - middle)
    corners = triangles.corners
    heights = sorted(config.floors) or floor_heights(corners)
    if not heights:
        raise UserError(f"{config.mesh}: no level floor was found; name its height with --floors")
    half_m = float(np.ceil((np.abs(corners[:, :, :2]).max() + MARGIN_M) / CELL_M)) * CELL_M
    images = [traversable(corners, height, half_m) for height in heights]
    if config.around is not None:
        images = [_around(image, np.array(config.around) - middle[:2]) for image in images]
    maps = [_map(config.mesh, *each) for each in zip(images, heights, strict=True)]
    _write(config.out, triangles, heights, images)
    x, y, z = (high - low).tolist()
    print(f"{config.mesh}: {len(corners)} triangles, {x:.1f} x {y:.1f} m, {z:.1f} m high")
    print(f"moved by {-middle[0]:.2f}, {-middle[1]:.2f} m: the origin is in its middle")
    for i, (height, walk_map) in enumerate(zip(heights, maps, strict=True)):
        free_m2 = walk_map.free.sum() * CELL_M**2
        print(f"{config.out / MAP.format(i)}: floor at {height:g} m, {free_m2:.0f} m2 to walk on")
    print(f"walk in it: pixelgait-eval navigator --scene gibson:{config.out}")


def _turned(config: HouseConfig) -> Triangles:
    """The triangles in metres, z up.

    Raises:
        UserError: if units or axis are not those of a building, and were not given.
    """
    triangles = read_triangles(config.mesh, 1.0, "z")
    declared_scale, declared_up = declared_frame(config.mesh)
    up, scale = config.up or declared_up, config.scale or declared_scale
    if config.up is None:
        _check_up(config.mesh, triangles.corners, up)
    corners = triangles.corners @ TO_Z_UP[up].T * scale
    _check_size(config, np.ptp(corners, axis=(0, 1)), scale)
    return replace(triangles, corners=corners)


def _check_up(mesh: Path, corners: Array, up: UpAxis) -> None:
    areas = {axis: level_area(corners @ turn.T) for axis, turn in TO_Z_UP.items()}
    best = max(areas, key=areas.__getitem__)
    if areas[best] > UPRIGHT * areas[up]:
        times = f"{areas[best] / max(areas[up], 1e-9):.1f} times" if areas[up] else "unlike it"
        raise UserError(
            f"{mesh}: {up} up by its format, but its largest level area is {times} larger with "
            f"{best} up: --up {best}, or --up {up} if that is right"
        )


def _check_size(config: HouseConfig, size_m: Array, scale: float) -> None:
    x, y, z = size_m.tolist()
    if LEAST_M <= max(x, y) <= MOST_M and z <= HIGHEST_M:
        return
    size = f"{config.mesh}: {x:.4g} x {y:.4g} m, {z:.4g} m high is no building"
    if config.scale is not None:
        raise UserError(f"{size}, with --scale {config.scale:g}")
    guesses = {s: name for s, name in GUESSES.items() if _is_building(size_m / scale * s)}
    for guess, name in guesses.items():
        raise UserError(f"{size}: in {name}? --scale {guess:g}")
    raise UserError(f"{size}: what are its units? --scale METRES")


def _is_building(size_m: Array) -> bool:
    x, y, z = size_m.tolist()
    return bool(LEAST_M <= max(x, y) <= MOST_M and 1.5 <= z <= HIGHEST_M)


def _around(image: NDArray[np.uint8], place_m: Array) -> NDArray[np.uint8]:
    """The white area nearest to a place x, y [m] on a map (N, N); the rest is black."""
    _, labels = cv2.connectedComponents(image, connectivity=4)
    column, row = place_m / PIXEL_M + len(image) / 2.0
    rows, columns = labels.nonzero()
    if not len(rows):
        return image
    nearest = np.hypot(rows - row, columns - column).argmin()
    kept = labels == labels[rows[nearest], columns[nearest]]
    return np.where(kept, 255, 0).astype(np.uint8)


def _map(mesh: Path, image: NDArray[np.uint8], height: float) -> TraversabilityMap:
    try:
        return TraversabilityMap(image)
    except ValueError as error:
        where = f"{mesh}: floor at {height:g} m"
        raise UserError(f"{where}: {error}; other heights with --floors") from None


def _write(
    folder: Path, triangles: Triangles, heights: list[float], images: list[NDArray[np.uint8]]
) -> None:
    write_atomic(folder / TEXTURE, _png(triangles.picture[:, :, ::-1]))
    write_atomic(folder / MATERIAL, f"newmtl house\nKd 1 1 1\nmap_Kd {TEXTURE}\n".encode())
    for i, image in enumerate(images):
        write_atomic(folder / MAP.format(i), _png(image))
    write_atomic(folder / FLOORS, "".join(f"{height:g}\n" for height in heights).encode())
    write_atomic(folder / MESH, obj_bytes(triangles, MATERIAL))


def _png(image: NDArray[np.uint8]) -> bytes:
    return bytes(cv2.imencode(".png", image)[1])


if __name__ == "__main__":
    main()
