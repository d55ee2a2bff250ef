"""A wall across the way, open at one side: where `ppo_steer.py` learns to look."""

import numpy as np

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene


class OneWall(Scene):
    """2 m ahead, from the left or from the right over more than half of what is ahead."""

    name = "one-wall"
    goal_m = 4.0  # along x
    fixed = (Plane(),)

    def __init__(self, difficulty: float) -> None:
        self.beyond_m = 0.1 + 0.3 * difficulty  # the middle
        self.movable = [Box(Pose(0, 0, 0), half_m=(0.08, 1.0, 0.4), colour=(0.75, 0.3, 0.2))]

    def layout(self, rng: np.random.Generator) -> Layout:
        side = 1.0 if rng.random() < 0.5 else -1.0
        wall = Pose(2.0 + rng.uniform(-0.2, 0.2), side * (1.0 - self.beyond_m), 0.4)
        return Layout(start=Pose(0, 0, 0), movable=[wall])
