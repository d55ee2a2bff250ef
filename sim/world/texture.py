"""Procedural textures from a seed: periodic patterns in two colours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

Colour = tuple[float, float, float]  # RGB, 0 to 1
Pattern = Literal["bricks", "checks", "dots", "planks", "plaster", "stripes"]

TILE_PIXELS = 64  # a side of a tile: 1.6 cm for a tile of 1 m, a pixel of a 32 x 32 camera at 0.5 m
CHEQUERS_M = 2.0  # a tile of PyBullet's plane
GRAIN = 0.04  # standard deviation of the noise over every pattern


@dataclass(frozen=True, slots=True)
class Texture:
    """A periodic square tile in two colours, `tile_m` wide."""

    pattern: Pattern
    colours: tuple[Colour, Colour]
    seed: int = 0
    tile_m: float = 1.0


@cache
def tile(texture: Texture) -> NDArray[np.uint8]:
    """RGB pixels (TILE_PIXELS, TILE_PIXELS, 3): columns along the surface, rows upwards."""
    rng = np.random.default_rng(texture.seed)
    share = PATTERNS[texture.pattern](rng)[:, :, None]
    one, other = np.array(texture.colours)
    colour = one + share * (other - one) + rng.normal(0.0, GRAIN, (TILE_PIXELS, TILE_PIXELS, 1))
    return np.asarray(255.0 * np.clip(colour, 0.0, 1.0), dtype=np.uint8)


@cache
def chequers() -> NDArray[np.uint8]:
    """Pixels of PyBullet's plane, as of `tile`: light blue and white squares of 1 m."""
    up, along = np.indices((TILE_PIXELS, TILE_PIXELS)) * 2 // TILE_PIXELS
    colours = np.array(((173, 199, 255), (255, 255, 255)), dtype=np.uint8)
    return np.asarray(colours[(up + along) % 2])


def _grid() -> tuple[Array, Array]:
    """Up and along, 0 to 1, (TILE_PIXELS, TILE_PIXELS) each."""
    v, u = (np.mgrid[:TILE_PIXELS, :TILE_PIXELS] + 0.5) / TILE_PIXELS
    return v, u


def _bricks(rng: np.random.Generator) -> Array:
    v, u = _grid()
    row = np.floor(8 * v)
    shifted = (4 * u + 0.5 * (row % 2)) % 4
    mortar = ((8 * v) % 1 < 0.15) | (shifted % 1 < 0.08)
    shade = rng.uniform(0.0, 0.4, (8, 4))[row.astype(int), shifted.astype(int)]
    return np.asarray(np.where(mortar, 1.0, shade))


def _checks(rng: np.random.Generator) -> Array:
    v, u = _grid()
    n = 2 * int(rng.integers(1, 4))
    return np.asarray((np.floor(n * v) + np.floor(n * u)) % 2)


def _dots(rng: np.random.Generator) -> Array:
    v, u = _grid()
    n = int(rng.integers(2, 5))
    return np.asarray(np.hypot(n * v % 1 - 0.5, n * u % 1 - 0.5) < 0.3, dtype=float)


def _planks(rng: np.random.Generator) -> Array:
    v, u = _grid()
    shade = rng.uniform(0.0, 0.7, 6)[(6 * v).astype(int)]
    return np.asarray(np.where((6 * v) % 1 < 0.08, 1.0, shade + 0.1 * np.sin(2 * np.pi * u)))


def _plaster(rng: np.random.Generator) -> Array:
    noise = np.tile(rng.standard_normal((TILE_PIXELS, TILE_PIXELS)), (3, 3))
    middle = slice(TILE_PIXELS, 2 * TILE_PIXELS)
    smooth = cv2.GaussianBlur(noise, (0, 0), TILE_PIXELS / 10)[middle, middle]
    return np.asarray(np.clip(0.5 + 0.3 * smooth / smooth.std(), 0.0, 1.0))


def _stripes(rng: np.random.Generator) -> Array:
    v, u = _grid()
    n = int(rng.integers(2, 7))
    across = u if rng.random() < 0.5 else v
    return np.asarray(np.floor(2 * n * across) % 2)


PATTERNS: dict[Pattern, Any] = {
    "bricks": _bricks,
    "checks": _checks,
    "dots": _dots,
    "planks": _planks,
    "plaster": _plaster,
    "stripes": _stripes,
}
