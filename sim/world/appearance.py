"""Appearance of an episode: visual randomisation of surfaces, light and backdrop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike

AppearanceSet = Literal["train", "test"]  # sets of looks that have no kind of pattern in common
AppearanceOption = Literal["nominal", "train", "test"]


@dataclass(frozen=True, slots=True)
class AppearanceSeed:
    """What surfaces, light and sky look like: one of a set, by its number."""

    kind: AppearanceSet
    number: int
