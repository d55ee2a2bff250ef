"""Writer of generated houses in Gibson's layout: a textured mesh, floor heights and a map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray

from pixelgait.robot.cli.options import Range, Seed, parse
from pixelgait.robot.errors import run_command
from pixelgait.robot.files import write_atomic
from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.houses.gibson import FLOORS, MAP, MESH
from pixelgait.sim.scenes.houses.rooms import HEIGHT_M, furniture, slab, standing, wall
from pixelgait.sim.world.floor_plan import FloorPlan, draw_plan
from pixelgait.sim.world.meshes import box_corners, box_uv
from pixelgait.sim.world.scene import Box, Pose, require_difficulty
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED
from pixelgait.sim.world.texture import TILE_PIXELS, Texture, tile

MATERIAL, TEXTURE = "mesh_z_up.mtl", "texture.png"


@dataclass(frozen=True)
class WriteConfig:
    """Write a house of the scene `rooms` as a folder in the layout of Gibson's houses.

    Walk in it with `--scene gibson:FOLDER`.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Folder to write; it is created if missing."""
    seed: Seed = FIRST_EVALUATION_SEED
    """Seed of the floor plan; those below 9000 are training seeds of `rooms`."""
    difficulty: Annotated[float, Range(0.0, 1.0)] = 0.5
    """Number of rooms, width of doors and furniture, 0 to 1."""


def main() -> None:
    """Console entry point."""
    run_command(
        lambda: write(parse(WriteConfig, "python -m pixelgait.sim.scenes.houses.write_house"))
    )


def write(config: WriteConfig) -> None:
    """Write the house and print a command that uses it.

    Raises:
        UserError: if an option is out of range.
    """
    write_rooms(config.folder, config.seed, config.difficulty)
    print(f"walk in it: pixelgait-eval navigator --scene gibson:{config.folder}")


def write_rooms(folder: Path, seed: int, difficulty: float) -> None:
    """Draw a floor plan from the seed and write it.

    Raises:
        UserError: if the difficulty is not in [0, 1].
        OSError: if the folder cannot be written.
    """
    require_difficulty(difficulty)
    pieces = furniture(difficulty)
    footprints = [piece.half_m[:2] for piece in pieces]
    plan = draw_plan(np.random.default_rng(seed), difficulty, footprints)
    boxes = _boxes(plan, pieces)
    textures = list(dict.fromkeys(box.texture for box in boxes if box.texture is not None))
    write_atomic(folder / TEXTURE, _png(np.hstack([tile(t) for t in textures])[::-1, :, ::-1]))
    write_atomic(folder / MATERIAL, f"newmtl house\nKd 1 1 1\nmap_Kd {TEXTURE}\n".encode())
    write_atomic(folder / MAP.format(0), _png(plan.traversable(footprints)))
    write_atomic(folder / FLOORS, b"0.0\n")
    write_atomic(folder / MESH, _obj(boxes, textures).encode())


def _boxes(plan: FloorPlan, pieces: list[Box]) -> list[Box]:
    """Floor, walls and furniture at their poses."""
    boxes = [slab(plan.size_m / 2)]
    for x0, y0, x1, y1 in plan.walls:
        middle = Pose((x0 + x1) / 2, (y0 + y1) / 2, HEIGHT_M / 2, 0.0 if y0 == y1 else np.pi / 2)
        boxes.append(replace(wall(x1 - x0 + y1 - y0), pose=middle))
    poses = zip(pieces, standing(plan, pieces), plan.furniture, strict=True)
    return boxes + [replace(piece, pose=pose) for piece, pose, placed in poses if placed]


def _obj(boxes: list[Box], textures: list[Texture]) -> str:
    """OBJ mesh with faces cut into squares of one tile, each showing one cell of the texture."""
    lines = [f"mtllib {MATERIAL}", "usemtl house"]
    count = 0
    for box in boxes:
        if box.texture is None:
            continue
        cell = textures.index(box.texture)
        for corners, uv in _patches(box, box.texture.tile_m):
            # Half a pixel away from the neighbouring cells.
            u, v = (0.5 + uv * (TILE_PIXELS - 1)).T / TILE_PIXELS
            lines += [f"v {x:.4f} {y:.4f} {z:.4f}" for x, y, z in corners]
            across = (cell + u) / len(textures)
            lines += [f"vt {a:.5f} {b:.5f}" for a, b in zip(across, v, strict=True)]
            for triangle in ((1, 2, 3), (1, 3, 4)):
                lines.append("f " + " ".join(f"{count + i}/{count + i}" for i in triangle))
            count += 4
    return "\n".join(lines) + "\n"


def _patches(box: Box, tile_m: float) -> list[tuple[Array, Array]]:
    """Corners (4, 3) in the world and coordinates on a tile (4, 2), 0 to 1, of all patches."""
    patches = []
    for face, normals in zip(*box_corners(box.half_m), strict=True):
        origin, along, up = face[0], face[1] - face[0], face[3] - face[0]
        for a, b in pairwise(_cuts(along, tile_m)):
            for c, d in pairwise(_cuts(up, tile_m)):
                local = np.array(
                    [origin + i * along + j * up for i, j in ((a, c), (b, c), (b, d), (a, d))]
                )
                uv = box_uv(local, normals) / tile_m
                world = np.column_stack((box.pose.points(local[:, :2]), local[:, 2] + box.pose.z))
                patches.append((world, uv - uv.min(axis=0)))
    return patches


def _cuts(side: Array, tile_m: float) -> list[float]:
    """Cuts of a side (3,) into pieces of one tile and a remainder, 0 to 1."""
    length_m = float(np.linalg.norm(side))
    return [*(np.arange(0.0, length_m - 1e-6, tile_m) / length_m).tolist(), 1.0]


def _png(image: NDArray[np.uint8]) -> bytes:
    return bytes(cv2.imencode(".png", image)[1])


if __name__ == "__main__":
    main()
