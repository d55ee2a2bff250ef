"""A scene as it is, in another look every episode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pixelgait.sim.world.appearance import Look, Looks
from pixelgait.sim.world.scene import Around, Layout, Scene

NUMBERS = 2**31  # of looks in a set


class Dressed(Around):
    """A scene whose layouts have a look each. All else is the scene's own."""

    def __init__(self, scene: Scene, looks: Looks) -> None:
        self.scene, self.looks = scene, looks
        self.name, self.goal_m = scene.name, scene.goal_m
        self.fixed, self.movable = scene.fixed, scene.movable
        self.has_goal_position = scene.has_goal_position

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own, and only then a look."""
        layout = self._laid_out(rng)
        return replace(layout, look=Look(self.looks, int(rng.integers(NUMBERS))))
