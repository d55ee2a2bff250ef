"""Flat ground."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.world.scene import FRICTION, ORIGIN, Layout, Plane, Scene


class FlatGround(Scene):
    """An endless flat floor."""

    name = "flat"

    def __init__(self, difficulty: float = 0.0, friction: float = FRICTION) -> None:
        del difficulty  # flat is flat
        self.fixed = (Plane(friction=friction),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN)
