"""Scene with a wall across the path, open at one side: `ppo_steer.py` is trained there."""

import math

import numpy as np

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene

CLEARANCE_M = 0.35  # from the wall's end to the middle of a robot that passes it


class OneWall(Scene):
    """A wall 2 m ahead, from the left or the right to beyond the middle."""

    name = "one-wall"
    goal_m = 4.0  # along x
    fixed = (Plane(),)

    def __init__(self, difficulty: float) -> None:
        self.beyond_m = 0.1 + 0.3 * difficulty  # of the middle
        self.movable = [Box(Pose(0, 0, 0), half_m=(0.08, 1.0, 0.4), colour=(0.75, 0.3, 0.2))]
        self.wall = Pose(2.0, 0.0, 0.4)

    def layout(self, rng: np.random.Generator) -> Layout:
        side = 1.0 if rng.random() < 0.5 else -1.0
        self.wall = Pose(2.0 + rng.uniform(-0.2, 0.2), side * (1.0 - self.beyond_m), 0.4)
        return Layout(start=Pose(0, 0, 0), movable=[self.wall])

    def progress_m(self, x: float, y: float) -> float:
        """Progress along the path around the wall's end: stepping aside before it counts too."""
        if x >= self.wall.x:
            return x
        aside = max(0.0, math.copysign(y, y * self.wall.y) + self.beyond_m + CLEARANCE_M)
        return self.wall.x - math.hypot(self.wall.x - x, aside)
