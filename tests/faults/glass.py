"""A pane of glass across the way, which no camera sees, too wide to go around: a user scene."""

import numpy as np

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene

GLASS_X_M = 1.5


class Glass(Scene):
    """The robot looks straight at it."""

    name = "glass"
    fixed = (
        Plane(),
        Box(Pose(GLASS_X_M, 0.0, 0.5), (0.03, 6.0, 0.5), (0.5, 0.5, 0.5), visible=False),
    )

    def __init__(self, difficulty: float = 0.0) -> None:
        """There is one kind."""

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(start=Pose(0.0, 0.0, 0.0))
