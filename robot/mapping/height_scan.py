"""Height scan: 187 points around the base, where walking policies of Isaac Lab observe the ground.

A grid of 1.6 x 1.0 m, 0.1 m apart, in the heading frame: 17 points along x, from behind, for each
of 11 along y, from the right (`GridPatternCfg` with its usual order, "xy").
"""

from __future__ import annotations

import numpy as np

from pixelgait.robot.spec import Array

AHEAD_M, ASIDE_M, STEP_M = 0.8, 0.5, 0.1
_X, _Y = np.meshgrid(
    np.linspace(-AHEAD_M, AHEAD_M, round(2 * AHEAD_M / STEP_M) + 1),
    np.linspace(-ASIDE_M, ASIDE_M, round(2 * ASIDE_M / STEP_M) + 1),
)
POINTS: Array = np.stack((_X.ravel(), _Y.ravel()), axis=-1)  # (187, 2) x, y [m]
