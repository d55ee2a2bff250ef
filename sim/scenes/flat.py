"""Flat ground."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.world.scene import ORIGIN, Layout, Plane, Scene


class FlatGround(Scene):
    """An endless flat floor."""

    name = "flat"
    fixed = (Plane(),)

    def __init__(self, difficulty: float = 0.0) -> None:
        del difficulty  # flat is flat

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN)
