"""Swing/extension leg pose to joint angles (pose convention of Google's PMTG code).

A leg pose is (abduction, swing, extension), all [rad], added to the robot's default pose:

    abduction joint = q0 + a
    hip joint       = q0 + k_s s - k_e e / 2
    knee joint      = q0 + k_e e

With links of equal length the half-knee term keeps the hip-to-foot line at angle s from its
default, so swing turns the leg and extension only changes its length.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from pixelgait.robot.spec import LEGS, Array, RobotSpec


@cache
def joint_map(spec: RobotSpec) -> Array:
    """The linear map above for all legs, (12, 12): joint offsets = M @ leg poses."""
    one = np.array(
        [
            [1.0, 0.0, 0.0],
            [0.0, spec.swing_sign, -0.5 * spec.extension_sign],
            [0.0, 0.0, spec.extension_sign],
        ]
    )
    return np.kron(np.eye(len(LEGS)), one)
