"""Tilt of what a camera shows, found from the floor.

A bracket bent by 3 degrees and an IMU that is off by 3 lift the floor by 0.2 m at a distance of
2 m, which is an obstacle. The floor is level on average, so that a plane through what is near it
says how much mount, IMU and standing height are off together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.mapping.depth_view import Floats

# Places of the floor are within NEAR_M, and a share of their distance, of the plane found so far:
# FIRST_SHARE until SURE places are known, then SURE_SHARE. KEPT is the weight of the past at every
# image: 33 images count. Assumptions.
NEAR_M, FIRST_SHARE, SURE_SHARE, SURE, KEPT = 0.02, 0.08, 0.03, 5000.0, 0.97
# MOST limits the plane's slopes [rad] and height [m]; randomised mounts and IMUs are off by 0.05
# rad each. PRIOR is the ridge penalty: the plane is level unless many places differ. Assumptions.
MOST = np.array((0.12, 0.12, 0.04))
PRIOR = np.diag((50.0, 50.0, 2000.0))


class FloorFit:
    """The plane through the floor of the newest images, in the heading frame."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: the floor is level and where the legs say."""
        self.plane = np.zeros(3, np.float32)  # slope ahead and to the left, height [m]
        self._normal, self._moment = np.zeros((3, 3)), np.zeros(3)

    def heights(
        self, ahead: Floats, left: Floats, height: Floats, measured: NDArray[np.bool_]
    ) -> Floats:
        """Heights (n,) above the floor [m] of places in the heading frame, which are learned from.

        Args:
            ahead: of the base (n,) [m].
            left: of the base (n,) [m].
            height: (n,) as mount and IMU say [m].
            measured: (n,) whether the place may be learned from.
        """
        forms = np.stack((ahead, left, np.ones_like(ahead)))
        share = np.float32(SURE_SHARE if self._normal[2, 2] > SURE else FIRST_SHARE)
        near = np.float32(NEAR_M) + share * np.hypot(ahead, left)
        floor = (np.abs(height - self.plane @ forms) < near) & measured
        seen = forms[:, floor]
        self._normal = KEPT * self._normal + seen @ seen.T
        self._moment = KEPT * self._moment + seen @ height[floor]
        plane = np.linalg.solve(self._normal + PRIOR, self._moment)
        self.plane = np.clip(plane, -MOST, MOST).astype(np.float32)
        return np.asarray(height - self.plane @ forms, np.float32)
