"""A scene as it is, in another look every episode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.scene import Around, Layout, Scene

NUMBERS = 2**31  # of looks in a set


class WithAppearance(Around):
    """A scene whose layouts have a look each. All else is the scene's own."""

    def __init__(self, scene: Scene, appearance: AppearanceSet) -> None:
        self.scene, self.appearance = scene, appearance
        self.name, self.goal_m = scene.name, scene.goal_m
        self.fixed, self.movable = scene.fixed, scene.movable
        self.has_goal_position = scene.has_goal_position

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own, and only then a look."""
        layout = self._laid_out(rng)
        return replace(
            layout, appearance=AppearanceSeed(self.appearance, int(rng.integers(NUMBERS)))
        )
