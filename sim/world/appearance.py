"""Appearance of an episode: light, textures and the camera's misplacement, where not as usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pixelgait.sim.world.texture import Texture

LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike


@dataclass(frozen=True, slots=True)
class Appearance:
    """Light, a camera knocked out of its place, and other textures on a scene's boxes."""

    light: tuple[float, float, float]  # towards it
    camera_shift_m: tuple[float, float, float]  # in the base frame
    camera_pitch_rad: float  # further down
    textures: Sequence[Texture]  # of the boxes that have one, fixed ones first
