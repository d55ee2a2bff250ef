"""Whether anybody obeys: joints that all rest, though they are told to move."""

from __future__ import annotations

import numpy as np

from pixelgait.robot.interface import Reading
from pixelgait.robot.spec import Array

# All ours. Standing up, walking and lying down, shipped low levels (four robots, both simulators,
# randomised, rough ground, pushes) kept all joints at rest for 0.01 s at most once a target moved.
REST_RAD = 0.02  # what no joint leaves is rest; encoders are noisy by a tenth of that
TOLD_RAD = 0.2  # how far a target has moved since
STILL_S = 0.25  # so long they may rest then, by the readings' own time: silence is no rest
MOST_NEWS_S = 0.025  # of which a single reading tells no more: who is silent may have moved between


class MotionCheck:
    """Notices that no joint turns whatever is sent: there is no power, or nobody listens.

    One joint may be held by an obstacle; a robot that obeys never keeps all of them still. It must
    be noticed while nothing moves: when the power returns, all torque there is would come at once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._at: Array | None = None  # where the joints (12,) came to rest [rad]
        self._rest_s = self._stamp_s = 0.0  # since they have been told to leave it; the last stamp

    def judge(self, reading: Reading, sent: Array) -> str | None:
        """What is wrong, as the newest reading says; `sent` are the targets (12,) it has [rad]."""
        angles, news_s = reading.joint_angles, reading.time_s - self._stamp_s
        self._stamp_s = reading.time_s
        if self._at is None or np.abs(angles - self._at).max() > REST_RAD:
            self._at, self._low, self._high, self._rest_s = angles, sent, sent, 0.0
            return None
        self._low, self._high = np.minimum(self._low, sent), np.maximum(self._high, sent)
        told_rad = (self._high - self._low).max()
        if told_rad > TOLD_RAD:
            self._rest_s += min(max(news_s, 0.0), MOST_NEWS_S)
        if self._rest_s <= STILL_S:
            return None
        return f"no joint turns, though targets move by {told_rad:.2f} rad: have motors power?"
