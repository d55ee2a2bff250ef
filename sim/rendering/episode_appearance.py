"""Appearance of an episode: materials of surfaces, light, haze, exposure, backdrop and motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.geometry import Floats, Geometry
from pixelgait.sim.rendering.materials import Material, Palette, draw_material, in_one_colour
from pixelgait.sim.rendering.patterns import chance, smooth
from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.scene import Box, Shape

ROWS, COLUMNS = 64, 256
LOWEST, HIGHEST = -0.3, 1.0  # sine of the elevation of the first and the last row
ELEVATION = np.arcsin(np.linspace(LOWEST, HIGHEST, ROWS))[:, None]  # [rad]
AROUND = (np.arange(COLUMNS) + 0.5) / COLUMNS
SIZE = (ROWS, COLUMNS)

Backdrop = Callable[[np.random.Generator], Array]
# All assumptions, wider than the range between dusk, light through a window and noon.
SUN_ELEVATION_RAD = (0.35, math.pi / 2.0)
AMBIENT, DIFFUSE = (0.3, 0.7), (0.2, 0.8)  # ambient light, and that of the sun
WARM, COOL = np.array((1.0, 0.8, 0.6)), np.array((0.8, 0.9, 1.0))  # extremes of white balance
MEAN = 0.38  # brightness at the right exposure; and factors by which exposure is off
EXPOSURE = (0.5, 1.6)
HIGHEST_EXPOSURE = 4.0
SHADOWS, HAZE, SCATTERED = 0.6, 0.3, 0.3  # shares of the episodes
OWN_MATERIALS = 7  # of movable shapes in scattered episodes
VISIBILITY_M = (8.0, 40.0)  # in haze
MARK_M = 0.01  # lower boxes are marks on the floor, and keep their colour
SETS: dict[AppearanceSet, int] = {"train": 0, "test": 1}
# Motion within an episode, after the Distracting Control Suite (Stone et al. 2021, arXiv
# 2101.02722): there a video plays behind the scene, and the camera walks at random, rolling by at
# most pi/500 a step of 25 ms (0.25 rad/s) at the lowest difficulty. No angle here changes faster.
TURN_RAD_PER_S = (0.05, 0.3)  # assumption: the backdrop, to either side
SHAKE = np.array((0.02, 0.02, 0.02, 0.06, 0.06, 0.06))  # assumption: most x, y, z [m]; angles [rad]
SHAKE_PERIOD_S = (1.5, 5.0)  # assumption


@dataclass(frozen=True, slots=True)
class Light:
    """Sun and ambient light."""

    towards: Floats  # (3,) unit vector to the sun
    sun: Floats  # (3,) RGB
    ambient: Floats  # (3,) RGB
    shadows: bool
    exposure: float


@dataclass(frozen=True, slots=True)
class Motion:
    """Motion of backdrop and camera within an episode."""

    turn_rad_per_s: float  # of the backdrop, to the left
    amplitudes: Array  # (6,) of the camera: x, y, z [m] in the base frame; pitch, yaw, roll [rad]
    periods_s: Array  # (6,)
    phases_rad: Array  # (6,)

    @classmethod
    def of(cls, appearance: AppearanceSeed) -> Motion:
        """The motion of an appearance, from a stream of its own."""
        rng = np.random.default_rng((SETS[appearance.kind], appearance.number, 1))
        turn = float(rng.choice((-1.0, 1.0)) * rng.uniform(*TURN_RAD_PER_S))
        return cls(
            turn,
            SHAKE * rng.uniform(0.2, 1.0, 6),
            rng.uniform(*SHAKE_PERIOD_S, 6),
            rng.uniform(0.0, 2.0 * math.pi, 6),
        )

    def camera_offset(self, time_s: float) -> Array:
        """Displacement (6,) of the camera from its mount at a time after the reset [s]."""
        angles = 2.0 * math.pi * time_s / self.periods_s + self.phases_rad
        return np.asarray(self.amplitudes * np.sin(angles))


@dataclass(frozen=True, slots=True)
class EpisodeAppearance:
    """Drawn appearance of a scene with K shapes in m materials."""

    texels: Floats  # (m TEXELS, 3), one material after another
    turns: Floats  # (4, m) from metres on a surface to widths of the pattern, row by row
    widths_per_m: Floats  # (m,)
    which: NDArray[np.int32]  # (K,) material of each shape
    light: Light
    backdrop: Floats  # (ROWS, COLUMNS, 3)
    haze: Floats  # (3,) RGB
    visibility_m: float  # inf without haze

    @classmethod
    def of(cls, appearance: AppearanceSeed, geometry: Geometry) -> EpisodeAppearance:
        """The appearance that a seed stands for in a scene."""
        rng = np.random.default_rng((SETS[appearance.kind], appearance.number))
        palette = Palette.draw(rng)
        made: dict[object, int] = {}
        materials: list[Material] = []
        which = []
        # Shapes of a kind share a material, but in scattered episodes the movable ones differ.
        scattered = chance(rng, SCATTERED)
        for i, shape in enumerate(geometry.shapes):
            if geometry.away[i]:
                which.append(0)  # never seen
                continue
            own = i % OWN_MATERIALS if scattered and i >= geometry.first_movable else None
            kind = _kind(shape, own)
            if kind not in made:
                made[kind] = len(materials)
                materials.append(_material(rng, appearance.kind, palette, shape))
            which.append(made[kind])
        backdrops = BACKDROPS[appearance.kind]
        backdrop = backdrops[rng.integers(len(backdrops))](rng).astype(np.float32)
        turns = np.array([material.turn.ravel() for material in materials], np.float32).T.copy()
        hazy = chance(rng, HAZE)
        return cls(
            np.concatenate([material.texels for material in materials]),
            turns,
            np.hypot(turns[0], turns[1]),
            np.array(which, np.int32),
            _light(rng, np.mean([material.texels[-1] for material in materials], axis=0)),
            backdrop,
            np.asarray(backdrop[12:20].mean(axis=(0, 1))),  # at the horizon
            float(rng.uniform(*VISIBILITY_M)) if hazy else math.inf,
        )


def _kind(shape: Shape, number: int | None) -> object:
    if isinstance(shape, Box):
        return shape.colour, shape.texture, _is_mark(shape), number
    return type(shape).__name__, number


def _is_mark(shape: Shape) -> bool:
    return isinstance(shape, Box) and shape.half_m[2] <= MARK_M


def _material(
    rng: np.random.Generator, appearance: AppearanceSet, palette: Palette, shape: Shape
) -> Material:
    if isinstance(shape, Box) and _is_mark(shape):
        return in_one_colour(shape.colour)
    return draw_material(rng, appearance, palette)


def _light(rng: np.random.Generator, mean: Floats) -> Light:
    """Draw light, and the exposure for surfaces of this mean colour (3,)."""
    azimuth, up = rng.uniform(0.0, 2.0 * math.pi), rng.uniform(*SUN_ELEVATION_RAD)
    towards = (math.cos(up) * math.cos(azimuth), math.cos(up) * math.sin(azimuth), math.sin(up))
    colour = WARM + rng.random() * (COOL - WARM)
    ambient = rng.uniform(*AMBIENT) * (1.0 + 0.5 * (colour[::-1] - colour))  # shade is bluer
    sun = rng.uniform(*DIFFUSE) * colour
    right = MEAN / float((mean * (ambient + sun / 2.0)).mean())
    exposure = min(right, HIGHEST_EXPOSURE) * math.exp(rng.uniform(*np.log(EXPOSURE)))
    return Light(
        np.array(towards, np.float32),
        sun.astype(np.float32),
        ambient.astype(np.float32),
        chance(rng, SHADOWS),
        exposure,
    )


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
