"""Passers-by: boxes as large as people that go to and fro across the path."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.sim.world.scene import ORIGIN, Box, Layout, Motion, Plane, Pose, Scene

PEOPLE = 4
FIRST_M, APART_M = 2.0, 2.0  # along x
REACH_M = 2.0  # across, to either side of their middles
ASIDE_M = 1.0  # of their middles, at most
SPEED_M_PER_S = (0.2, 1.0)  # maximum, at difficulty 0 and 1; people stroll at 1
SLOWER = (1.0, 1.5)  # factor on the shortest period
HALF_M = (0.15, 0.25, 0.85)
COLOUR = (0.2, 0.3, 0.6)


class PassersBy(Scene):
    """A passer-by every two metres."""

    name = "passers-by"
    goal_m = FIRST_M + PEOPLE * APART_M  # along x
    fixed = (Plane(),)
    movable = (Box(ORIGIN, HALF_M, COLOUR),) * PEOPLE

    def __init__(self, difficulty: float = 0.5) -> None:
        speed = float(np.interp(difficulty, (0.0, 1.0), SPEED_M_PER_S))
        self.period_s = 2.0 * math.pi * REACH_M / speed

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw the middle, period and first direction of every passer-by."""
        people, motions = [], []
        for i in range(PEOPLE):
            aside = float(rng.uniform(-ASIDE_M, ASIDE_M))
            people.append(Pose(FIRST_M + i * APART_M, aside, HALF_M[2]))
            period_s = self.period_s * float(rng.uniform(*SLOWER))
            side = float(rng.choice((-1.0, 1.0)))
            motions.append(Motion(i, (0.0, REACH_M * side, 0.0), period_s))
        return Layout(ORIGIN, people, motions)
