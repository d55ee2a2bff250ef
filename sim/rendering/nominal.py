"""Nominal colours of a scene: own colours and textures in the light of PyBullet's TinyRenderer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.geometry import Floats, Geometry, View
from pixelgait.sim.world.appearance import AMBIENT, DIFFUSE, SHININESS, SKY_LEVEL, SPECULAR
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.scene import Box, HeightField, Plane
from pixelgait.sim.world.texture import CHEQUERS_M, TILE_PIXELS, chequers, tile


class NominalColours:
    """Colours and textures of a scene's shapes."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        count = len(geometry.shapes)
        self._colours = np.full((count, 3), 255.0)  # of 255
        self._tile, self._tile_m = np.full(count, -1), np.ones(count)
        tiles: dict[int, NDArray[np.uint8]] = {}
        for i, shape in enumerate(geometry.shapes):
            if isinstance(shape, Box | HeightField):
                self._colours[i] = np.floor(255.0 * np.array(shape.colour, np.float32))
            if isinstance(shape, Box) and shape.texture is not None:
                pixels, self._tile_m[i] = tile(shape.texture), shape.texture.tile_m
            elif isinstance(shape, Plane):
                pixels, self._tile_m[i] = chequers(), CHEQUERS_M
            else:
                continue
            tiles.setdefault(id(pixels), pixels)
            self._tile[i] = list(tiles).index(id(pixels))
        none = np.zeros((1, TILE_PIXELS, TILE_PIXELS, 3), np.uint8)
        self._tiles = np.stack(list(tiles.values())) if tiles else none

    def paint(
        self, view: View, depth: Floats, shapes: NDArray[np.int32], light: tuple[float, ...]
    ) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of depth (H, W) [m] and shapes (H, W), lit from a direction (3,)."""
        colours = np.empty((*view.size, 3), np.uint8)
        paint(
            self.geometry.boxes,
            self.geometry.fields,
            self.geometry.heights,
            self._colours,
            self._tile,
            self._tile_m,
            self._tiles,
            np.array(light) / np.linalg.norm(light),
            view.eye,
            view.axes,
            view.pixel_rad,
            depth,
            shapes,
            colours,
        )
        return colours


@compiled
def paint(
    boxes: Floats,
    fields: Array,
    heights: Floats,
    own: Array,
    tile_of: NDArray[np.int64],
    tile_m: Array,
    tiles: NDArray[np.uint8],
    light: Array,
    eye: Floats,
    axes: Floats,
    pixel_rad: float,
    depth: Floats,
    shapes: NDArray[np.int32],
    colours: NDArray[np.uint8],
) -> None:
    """Colours of an image.

    Args:
        boxes: (8, K) boxes around the shapes, see `Geometry`.
        fields: (K, 4) height fields, see `Geometry`.
        heights: (m,) their heights.
        own: (K, 3) colours [of 255].
        tile_of: (K,) index of a texture, -1: its own colour.
        tile_m: (K,) widths of the textures.
        tiles: (t, p, p, 3) textures: columns along a face, rows upwards.
        light: (3,) unit vector towards the light.
        eye: (3,) [m].
        axes: (3, 3) forward, right and up.
        pixel_rad: width of a pixel.
        depth: (H, W) [m].
        shapes: (H, W) shape in each pixel.
        colours: (H, W, 3) written.
    """
    height, width = depth.shape
    side = tiles.shape[1]
    local, point = np.empty(3), np.empty(3)
    normal = np.empty(3)
    lit, lit_side, bright = -1, -1, 0.0
    for row in range(height):
        v = (0.5 * height - 0.5 - row) * pixel_rad
        for column in range(width):
            k = shapes[row, column]
            if k < 0:
                colours[row, column, 0] = colours[row, column, 1] = SKY_LEVEL
                colours[row, column, 2] = SKY_LEVEL
                continue
            u = (column + 0.5 - 0.5 * width) * pixel_rad
            for i in range(3):
                ray = axes[0, i] + u * axes[1, i] + v * axes[2, i]
                point[i] = eye[i] + depth[row, column] * ray - boxes[i, k]
            cos, sin = boxes[6, k], boxes[7, k]
            local[0], local[1] = cos * point[0] + sin * point[1], cos * point[1] - sin * point[0]
            local[2] = point[2]
            face = 2
            if fields[k, 1] <= 0.0:
                nearest = boxes[5, k] - abs(local[2])
                for i in range(2):
                    room = boxes[3 + i, k] - abs(local[i])
                    if room < nearest:
                        nearest, face = room, i
            side_of = 2 * face + (local[face] < 0.0)
            if k != lit or side_of != lit_side or fields[k, 1] > 0.0:  # else as the last pixel
                lit, lit_side = k, side_of
                if fields[k, 1] > 0.0:
                    _field_normal(fields[k], heights, local[0], local[1], normal)
                else:
                    normal[:] = 0.0
                    normal[face] = math.copysign(1.0, local[face])
                x, y = cos * normal[0] - sin * normal[1], sin * normal[0] + cos * normal[1]
                cosine = x * light[0] + y * light[1] + normal[2] * light[2]
                shine = max(2.0 * cosine * normal[2] - light[2], 0.0) ** SHININESS
                bright = AMBIENT + DIFFUSE * max(cosine, 0.0) + SPECULAR * shine
            if tile_of[k] < 0:
                for i in range(3):
                    colours[row, column, i] = int(own[k, i] * bright)
                continue
            along = local[1] if face == 0 else local[0]
            up = local[1] if face == 2 else local[2]
            at = math.floor(along / tile_m[k] * side) & (side - 1)
            line = math.floor(up / tile_m[k] * side) & (side - 1)
            for i in range(3):
                colours[row, column, i] = int(tiles[tile_of[k], line, at, i] * bright)


@compiled
def _field_normal(field: Array, heights: Floats, x: float, y: float, normal: Array) -> None:
    """Unit normal (3,) of a height field at a point in its own frame."""
    first, rows, columns, cell_m = int(field[0]), int(field[1]), int(field[2]), field[3]
    row = min(max(int(x / cell_m + (rows - 1) / 2), 0), rows - 2)
    column = min(max(int(y / cell_m + (columns - 1) / 2), 0), columns - 2)
    at = first + row * columns + column
    a, b = heights[at], heights[at + 1]
    c, d = heights[at + columns], heights[at + columns + 1]
    normal[0], normal[1] = -(c + d - a - b) / (2.0 * cell_m), -(b + d - a - c) / (2.0 * cell_m)
    length = math.sqrt(normal[0] * normal[0] + normal[1] * normal[1] + 1.0)
    normal[0], normal[1], normal[2] = normal[0] / length, normal[1] / length, 1.0 / length
