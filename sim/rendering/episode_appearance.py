"""Appearance of an episode: materials of surfaces, light, haze, exposure, backdrop and motion."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.backdrops import BACKDROPS
from pixelgait.sim.rendering.geometry import Floats, Geometry
from pixelgait.sim.rendering.materials import Material, Palette, draw_material, in_one_colour
from pixelgait.sim.rendering.noise import chance
from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.scene import Box, Shape

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
