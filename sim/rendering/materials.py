"""Materials of surfaces: patterns in three colours, with mip maps."""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.patterns import (
    PIXELS,
    TRAINING_PATTERNS,
    UNSEEN_PATTERNS,
    Pattern,
    chance,
)
from pixelgait.sim.world.appearance import AppearanceSet

PATTERNS: dict[AppearanceSet, tuple[Pattern, ...]] = {
    "train": TRAINING_PATTERNS,
    "test": UNSEEN_PATTERNS,
}
# Mip maps (Williams 1983): a pattern and its halves, quarters ... one after another. Real pixels
# average over an area; single texels of a far wall would be noise.
LEVELS = PIXELS.bit_length()
SIDES = PIXELS >> np.arange(LEVELS, dtype=np.int32)
OFFSETS = np.concatenate(([0], np.cumsum(SIDES**2))).astype(np.int32)
TEXELS = int(OFFSETS[-1])
TILE_M = (0.3, 3.0)  # a pattern's width
GRAIN = 0.02  # standard deviation of the noise over every pattern, of 1
ASLANT = 0.3  # share of the patterns turned by any angle; the others by 0 or 90 degrees


class Material(NamedTuple):
    """The material of a surface."""

    texels: NDArray[np.float32]  # (TEXELS, 3) colours 0 to 1, see OFFSETS
    turn: NDArray[np.float32]  # (2, 2) from metres on a surface to widths of the pattern


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of an episode's surfaces."""

    hue: float  # mean of all surfaces
    hues: float  # spread around it
    saturation: tuple[float, float]  # beta distribution: most surfaces are rather grey
    value: tuple[float, float]  # range

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Palette:
        """Draw a palette: half are muted, a quarter is bright, a quarter is in about one colour."""
        which, hue = rng.random(), float(rng.random())
        dark = float(rng.uniform(0.1, 0.4))
        value = (dark, float(rng.uniform(dark + 0.3, 0.95)))
        if which < 0.5:
            return cls(hue, 1.0, (1.2, 4.0), value)
        if which < 0.75:
            return cls(hue, 1.0, (2.0, 1.5), value)
        return cls(hue, 0.06, (1.2, 3.0), value)

    def colours(self, rng: np.random.Generator) -> Array:
        """Draw the three colours (3, 3) of a surface."""
        hue = self.hue + self.hues * rng.uniform(-0.5, 0.5)
        saturation, value = rng.beta(*self.saturation), rng.uniform(*self.value)
        step = rng.uniform(0.06, 0.45) * (1.0 if value < 0.45 else -1.0)
        second = (hue + rng.normal(0.0, 0.03), saturation * rng.uniform(0.5, 1.2), value + step)
        third = (hue + rng.normal(0.0, 0.15 * self.hues), rng.beta(*self.saturation), rng.random())
        drawn = ((hue, saturation, value), second, third)
        return np.array(
            [colorsys.hsv_to_rgb(h % 1.0, min(s, 1.0), min(max(v, 0.02), 1.0)) for h, s, v in drawn]
        )


def draw_material(
    rng: np.random.Generator, appearance: AppearanceSet, palette: Palette
) -> Material:
    """Draw a material of a set."""
    patterns = PATTERNS[appearance]
    colour = draw_pattern(rng, patterns[rng.integers(len(patterns))], palette.colours(rng))
    tile_m = math.exp(rng.uniform(*np.log(TILE_M)))
    angle = float(rng.integers(2)) * math.pi / 2.0
    if chance(rng, ASLANT):
        angle = float(rng.uniform(0.0, math.pi))
    cos, sin = math.cos(angle) / tile_m, math.sin(angle) / tile_m
    turn = np.array(((cos, -sin), (sin, cos)), np.float32)
    return Material(_levels(colour), turn)


def draw_pattern(rng: np.random.Generator, pattern: Pattern, colours: Array) -> Array:
    """A pattern in three colours (3, 3), with grain: (PIXELS, PIXELS, 3), rows upwards."""
    share = np.clip(pattern(rng), 0.0, 2.0)[..., None]
    first, second, third = colours
    colour = first + np.minimum(share, 1.0) * (second - first)
    colour += np.maximum(share - 1.0, 0.0) * (third - second)
    return np.asarray(np.clip(colour + rng.normal(0.0, GRAIN, (PIXELS, PIXELS, 1)), 0.0, 1.0))


def in_one_colour(colour: tuple[float, float, float]) -> Material:
    """A material of one colour."""
    return Material(np.full((TEXELS, 3), colour, np.float32), np.eye(2, dtype=np.float32))


def _levels(pattern: Array) -> NDArray[np.float32]:
    """Mip maps (TEXELS, 3) of a pattern (PIXELS, PIXELS, 3)."""
    made = [pattern.astype(np.float32)]
    while len(made[-1]) > 1:
        half = len(made[-1]) // 2
        made.append(made[-1].reshape(half, 2, half, 2, 3).mean(axis=(1, 3)))
    return np.concatenate([level.reshape(-1, 3) for level in made])
