"""Flat ground without an end."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.world.scene import FRICTION, ORIGIN, Layout, Plane, Scene


class FlatGround(Scene):
    """An endless level plane."""

    name = "flat"

    def __init__(self, difficulty: float = 0.0, friction: float = FRICTION) -> None:
        del difficulty  # there is only one
        self.fixed = (Plane(friction=friction),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN)
