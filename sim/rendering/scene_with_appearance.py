"""Appearance randomisation of a scene: the same layouts, each with a drawn appearance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.scene import Around, Layout, Scene

SEEDS = 2**31  # of a set's appearances


class WithAppearance(Around):
    """A scene whose layouts have an appearance each; all else is the scene's own."""

    def __init__(self, scene: Scene, appearance: AppearanceSet, moving: bool = False) -> None:
        self.scene, self.appearance, self.moving = scene, appearance, moving
        self.name, self.goal_m = scene.name, scene.goal_m
        self.fixed, self.movable = scene.fixed, scene.movable
        self.has_goal_position = scene.has_goal_position

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own layout; the appearance is drawn after it."""
        layout = self._laid_out(rng)
        seed = AppearanceSeed(self.appearance, int(rng.integers(SEEDS)), self.moving)
        return replace(layout, appearance=seed)
