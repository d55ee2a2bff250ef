"""Things as large as people that go to and fro across the way: what no shipped policy has seen."""

import numpy as np

from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene, Swing

PEOPLE = 4
FIRST_M, APART_M = 2.0, 2.0  # along x
REACH_M = 2.0  # across, either way
SPEED_M_PER_S = (0.2, 1.0)  # at most, at difficulty 0 and 1; people stroll at 1
HALF_M = (0.15, 0.25, 0.85)


class PassersBy(Scene):
    """Every two metres one of them, each at another place of its way."""

    name = "passers-by"
    goal_m = FIRST_M + PEOPLE * APART_M  # along x
    fixed = (Plane(),)

    def __init__(self, difficulty: float) -> None:
        speed = float(np.interp(difficulty, (0.0, 1.0), SPEED_M_PER_S))
        self.period_s = 2.0 * np.pi * REACH_M / speed
        self.movable = [Box(Pose(0, 0, 0), HALF_M, (0.2, 0.3, 0.6))] * PEOPLE

    def layout(self, rng: np.random.Generator) -> Layout:
        people, swings = [], []
        for i in range(PEOPLE):
            side = rng.uniform(-1.0, 1.0)
            people.append(Pose(FIRST_M + i * APART_M, side, HALF_M[2]))
            period_s = self.period_s * rng.uniform(1.0, 1.5)
            swings.append(Swing(i, (0.0, REACH_M * rng.choice((-1.0, 1.0)), 0.0), period_s))
        return Layout(Pose(0, 0, 0), people, swings)
