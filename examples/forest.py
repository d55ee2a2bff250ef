"""Scene of posts as thin as young trees, which no shipped policy was trained on."""

import numpy as np

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene

ROWS, POSTS = 6, 6  # along x, posts of a row
FIRST_M, APART_M = 1.5, 1.2  # along x
GAP_M = (1.7, 1.1)  # from post to post of a row, at difficulty 0 and 1
OFFSET_M = 0.12  # largest, off a regular grid, along x and y
HALF_M = (0.05, 0.05, 0.6)


class Forest(Scene):
    """Rows of posts; in each row one stands about ahead of the robot."""

    name = "forest"
    goal_m = FIRST_M + ROWS * APART_M  # along x
    fixed = (Plane(),)

    def __init__(self, difficulty: float) -> None:
        self.gap_m = float(np.interp(difficulty, (0.0, 1.0), GAP_M))
        self.movable = [Box(Pose(0, 0, 0), HALF_M, (0.35, 0.22, 0.12))] * (ROWS * POSTS)

    def layout(self, rng: np.random.Generator) -> Layout:
        posts = []
        for row in range(ROWS):
            first = -self.gap_m * (POSTS / 2 + rng.uniform(-0.5, 0.5))
            for post in range(POSTS):
                x = FIRST_M + row * APART_M + rng.uniform(-OFFSET_M, OFFSET_M)
                y = first + post * self.gap_m + rng.uniform(-OFFSET_M, OFFSET_M)
                posts.append(Pose(x, y, HALF_M[2]))
        return Layout(Pose(0, 0, 0), posts)
