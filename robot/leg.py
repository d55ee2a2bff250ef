"""Swing/extension leg pose to joint angles (pose convention of Google's PMTG code).

A leg pose is (abduction, swing, extension), all [rad], added to the robot's default pose:

    abduction joint = q0 + k_a a
    hip joint       = q0 + k_s s - r k_e e
    knee joint      = q0 + k_e e

The signs k make positive abduction move the foot to the left, positive swing move it forward and
positive extension lengthen the leg, whatever a URDF's axes are. The share r = 1/2, for links of
equal length, keeps the hip-to-foot line at angle s from its default, so swing turns the leg and
extension only changes its length; for unequal links r makes that true near the default pose.
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
            [0.0, spec.swing_sign, -spec.hip_share * spec.extension_sign],
            [0.0, 0.0, spec.extension_sign],
        ]
    )
    signs = np.ones((len(LEGS), 3, 1))
    signs[:, 0, 0] = spec.abduction_signs
    return signs.reshape(-1, 1) * np.kron(np.eye(len(LEGS)), one)
