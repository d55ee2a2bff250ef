"""Appearance of an episode: visual randomisation of surfaces, light and backdrop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LIGHT = (-0.4, 0.0, 1.0)  # towards the light: from behind, so that left and right are lit alike
AMBIENT, DIFFUSE, SPECULAR, SHININESS = 0.6, 0.35, 0.05, 2  # of PyBullet's getCameraImage
SKY_LEVEL = 255

AppearanceSet = Literal["train", "test"]  # without a kind of pattern or backdrop in common
# moving: the same draws, but backdrop and camera move within an episode.
AppearanceOption = Literal["nominal", "train", "test", "train-moving", "test-moving"]


@dataclass(frozen=True, slots=True)
class AppearanceSeed:
    """Source of one episode's appearance: a set, and a seed of it."""

    kind: AppearanceSet
    number: int
    moving: bool = False  # whether the backdrop turns and the camera shakes
