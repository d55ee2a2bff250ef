"""Whether anybody obeys: joints that all rest, though they are told to move."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.spec import Array

# All ours. Standing up, walking and lying down, shipped low levels (four robots, both simulators,
# randomised, rough ground, pushes) kept all joints at rest for 0.01 s at most once a target moved.
REST_RAD = 0.02  # what no joint leaves is rest; encoders are noisy by a tenth of that
TOLD_RAD = 0.2  # how far a target has moved since
PATIENCE_S = 0.25  # so long they may rest then


class ObedienceWatch:
    """Notices that no joint turns whatever is sent: there is no power, or nobody listens.

    One joint may be held by an obstacle; a robot that obeys never keeps all of them still. It must
    be noticed while nothing moves: when the power returns, all torque there is would come at once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._at: Array | None = None  # where the joints (12,) came to rest [rad]
        self._steps = 0  # since they have been told to leave it

    def judge(self, angles: Array, sent: Array) -> str | None:
        """What is wrong, a control step later; `sent` are the targets (12,) they have [rad]."""
        if self._at is None or np.abs(angles - self._at).max() > REST_RAD:
            self._at, self._low, self._high, self._steps = angles, sent, sent, 0
            return None
        self._low, self._high = np.minimum(self._low, sent), np.maximum(self._high, sent)
        told_rad = (self._high - self._low).max()
        self._steps += told_rad > TOLD_RAD
        if self._steps * CONTROL_DT_S <= PATIENCE_S:
            return None
        return f"no joint turns, though targets move by {told_rad:.2f} rad: have motors power?"
