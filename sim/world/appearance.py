"""Appearance of an episode, where not as usual: its look, or what distracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pixelgait.sim.world.texture import Texture

LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike

Looks = Literal["train", "test"]  # sets of looks that have no kind of pattern in common
LooksOption = Literal["plain", "train", "test"]


@dataclass(frozen=True, slots=True)
class Look:
    """What surfaces, light and sky look like: one of a set, by its number."""

    looks: Looks
    number: int


@dataclass(frozen=True, slots=True)
class Appearance:
    """Light, a camera knocked out of its place, and other textures on a scene's boxes."""

    light: tuple[float, float, float]  # towards it
    camera_shift_m: tuple[float, float, float]  # in the base frame
    camera_pitch_rad: float  # further down
    textures: Sequence[Texture]  # of the boxes that have one, fixed ones first
