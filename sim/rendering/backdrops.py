"""Backdrops: procedural panoramas behind a scene, of training and of test kinds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.noise import chance, smooth
from pixelgait.sim.world.appearance import AppearanceSet

ROWS, COLUMNS = 64, 256
LOWEST, HIGHEST = -0.3, 1.0  # sine of the elevation of the first and the last row
ELEVATION = np.arcsin(np.linspace(LOWEST, HIGHEST, ROWS))[:, None]  # [rad]
AROUND = (np.arange(COLUMNS) + 0.5) / COLUMNS
SIZE = (ROWS, COLUMNS)

Backdrop = Callable[[np.random.Generator], Array]


def backdrop_colours(
    picture: NDArray[np.float32], rays: NDArray[np.float32], yaw_rad: float
) -> NDArray[np.float32]:
    """Colours (n, 3) along unit rays (3, n) of a backdrop that is turned by this yaw."""
    share = (rays[2] - LOWEST) / (HIGHEST - LOWEST)
    row = np.minimum(np.maximum(share * ROWS, 0.0), ROWS - 1.0).astype(np.int32)
    around = (np.arctan2(rays[1], rays[0]) - yaw_rad) * (COLUMNS / 2.0 / math.pi)
    column = np.floor(around).astype(np.int32) % COLUMNS
    return np.asarray(picture.reshape(-1, 3).take(row * COLUMNS + column, axis=0))


def _sky(rng: np.random.Generator, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """A gradient from about one colour at the horizon to about another above."""
    ends = np.clip(np.array((low, high)) + rng.normal(0.0, 0.06, (2, 3)), 0.0, 1.0)
    share = np.clip(ELEVATION / rng.uniform(0.4, 1.2), 0.0, 1.0)[..., None]
    return np.asarray(ends[0] + share * (ends[1] - ends[0]) + np.zeros((*SIZE, 1)))


def _over(picture: Array, mask: Array, colour: Array) -> Array:
    """Blend a colour (3,) or (ROWS, COLUMNS, 3) over the picture by a mask from 0 to 1."""
    return np.asarray(picture + mask[..., None] * (colour - picture))


def _skyline(rng: np.random.Generator, exponent: float, low: float, high: float) -> Array:
    """A height [rad] for every column."""
    line = smooth(rng, exponent, shape=(2, COLUMNS))[0]
    return np.asarray(low + (high - low) * (line - line.min()) / max(float(np.ptp(line)), 1e-9))


def clear(rng: np.random.Generator) -> Array:
    """A sky without clouds."""
    sky = _sky(rng, (0.85, 0.9, 0.95), (0.35, 0.55, 0.9))
    ground = np.clip(rng.normal(0.4, 0.1, 3), 0.0, 1.0)
    return _over(sky, (ELEVATION < 0.0) + np.zeros(SIZE), ground)


def clouds(rng: np.random.Generator) -> Array:
    """White clouds."""
    sky, cover = clear(rng), smooth(rng, 1.8, 2.0, SIZE)
    return _over(sky, np.clip(cover, 0.0, 1.0) * (ELEVATION > 0.0), np.full(3, rng.uniform(0.6, 1)))


def hills(rng: np.random.Generator) -> Array:
    """Three ranges of hills, one behind the other."""
    picture = clouds(rng) if chance(rng, 0.5) else clear(rng)
    for layer in range(3):
        line = _skyline(rng, 1.8, 0.0, 0.35 - 0.1 * layer)
        tint = np.clip(np.array((0.5, 0.6, 0.55)) - 0.12 * layer + rng.normal(0, 0.06, 3), 0, 1)
        picture = _over(picture, (line > ELEVATION).astype(float), tint)
    return picture


def town(rng: np.random.Generator) -> Array:
    """Houses with windows."""
    picture = clouds(rng)
    at = 0
    while at < COLUMNS:
        width, height = int(rng.integers(8, 30)), rng.uniform(0.1, 0.6)
        wall = np.clip(rng.normal(0.5, 0.18) + rng.normal(0.0, 0.06, 3), 0.05, 1.0)
        house = np.s_[:, at : at + width]
        rows, columns = np.indices(SIZE)
        glass = (rows % 5 < 2) & (columns % 4 < 2) & (ELEVATION > 0.03)
        mask = np.zeros(SIZE)
        mask[house] = height > ELEVATION
        picture = _over(_over(picture, mask, wall), mask * glass, wall * rng.uniform(0.3, 1.5))
        at += width + int(rng.integers(0, 10))
    return np.clip(picture, 0.0, 1.0)


def trees(rng: np.random.Generator) -> Array:
    """A wood."""
    line = _skyline(rng, 0.7, 0.1, rng.uniform(0.2, 0.5))
    leaves = np.array((0.18, 0.3, 0.12)) * (1.0 + 0.3 * smooth(rng, 0.7, 1.0, SIZE)[..., None])
    return np.clip(_over(clouds(rng), (line > ELEVATION).astype(float), leaves), 0.0, 1.0)


def hall(rng: np.random.Generator) -> Array:
    """The walls of a room around the scene, with windows and a ceiling."""
    wall = np.clip(rng.uniform(0.3, 0.9) + rng.normal(0.0, 0.08, 3), 0.0, 1.0)
    picture = np.ones((*SIZE, 1)) * wall
    n = int(rng.integers(4, 16))
    window = ((n * AROUND) % 1 < rng.uniform(0.3, 0.7)) & (np.abs(ELEVATION - 0.3) < 0.18)
    picture = _over(picture, window.astype(float), np.full(3, rng.uniform(0.7, 1.0)))
    ceiling = (rng.uniform(0.5, 0.8) < ELEVATION) + np.zeros(SIZE)
    return _over(picture, ceiling, np.full(3, rng.uniform(0.6, 1.0)))


def mountains(rng: np.random.Generator) -> Array:
    """Jagged mountains with snow."""
    picture = _sky(rng, (0.9, 0.9, 0.9), (0.45, 0.6, 0.8))
    line = _skyline(rng, 1.1, 0.1, rng.uniform(0.4, 0.8))
    rock = np.clip(rng.normal(0.35, 0.06, 3) + 0.08 * smooth(rng, 1.0, 1.0, SIZE)[..., None], 0, 1)
    picture = _over(picture, (line > ELEVATION).astype(float), rock)
    snow = (line > ELEVATION) & (rng.uniform(0.6, 0.8) * line.max() < ELEVATION)
    return _over(picture, snow.astype(float), np.full(3, 0.95))


def sunset(rng: np.random.Generator) -> Array:
    """Bands of cloud in front of a sky that glows on one side."""
    picture = _sky(rng, (0.95, 0.55, 0.25), (0.25, 0.2, 0.4))
    bands = np.clip(smooth(rng, 1.5, 5.0, SIZE), 0.0, 1.0)
    picture = _over(picture, bands, np.array((0.4, 0.2, 0.3)))
    side = (0.5 + 0.5 * np.cos(2.0 * np.pi * (AROUND - rng.random())))[None, :, None]
    picture = picture * (0.5 + 0.7 * side)
    return np.clip(_over(picture, (ELEVATION < 0.0) + np.zeros(SIZE), np.full(3, 0.15)), 0.0, 1.0)


def racks(rng: np.random.Generator) -> Array:
    """A warehouse: uprights, shelves and boxes."""
    n, m = int(rng.integers(40, 100)), rng.uniform(8.0, 14.0)
    boxes = 0.2 + rng.uniform(0.1, 0.7, (16, n, 1)) * (0.9, 0.75, 0.55)
    boxes += rng.normal(0.0, 0.05, boxes.shape)
    row = np.clip((ELEVATION - ELEVATION[0]) * m, 0, 15).astype(int) + np.zeros(SIZE, int)
    column = (n * AROUND).astype(int) + np.zeros(SIZE, int)
    picture = boxes[row, column]
    steel = ((ELEVATION * m) % 1 < 0.15) | ((n / 2 * AROUND) % 1 < 0.08)
    picture = _over(picture, steel.astype(float), np.clip(rng.normal(0.4, 0.15, 3), 0.0, 1.0))
    return _over(picture, (ELEVATION > 0.9) + np.zeros(SIZE), np.full(3, rng.uniform(0.2, 0.5)))


def curtains(rng: np.random.Generator) -> Array:
    """Folds of cloth all around."""
    folds = np.sin(2.0 * np.pi * int(rng.integers(20, 60)) * AROUND + _skyline(rng, 1.5, 0.0, 9.0))
    cloth = np.clip(rng.uniform(0.2, 0.7) + rng.normal(0.0, 0.15, 3), 0.05, 1.0)
    return np.clip(cloth * (0.8 + 0.3 * folds[:, None]) + np.zeros((*SIZE, 1)), 0.0, 1.0)


BACKDROPS: dict[AppearanceSet, tuple[Backdrop, ...]] = {
    "train": (clear, clouds, hills, town, trees, hall),
    "test": (mountains, sunset, racks, curtains),
}
