"""Whether odometry is continuous, as REP 105 wants the frame `odom` to be."""

from __future__ import annotations

import math

from pixelgait.robot.control.low_level import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S
from pixelgait.robot.rotation import wrap_angle
from pixelgait.robot.spec import Array

# All ours. Three times as fast as it walks a robot is carried, pushed or slips; noise of 0.05 m and
# rad lets two messages differ by 0.5 at seven times its standard deviation.
TIMES, FAR_M, FAR_RAD = 3.0, 0.5, 0.5
TOLD_S = 10.0  # so long a jump is worth a word, and no other one is logged; ours


class Jumps:
    """Compares every pose with the one before: how far can it have come since?"""

    def __init__(self) -> None:
        self._newest: tuple[str, float] | None = None  # in words, and when it came [s]
        self._said_s = -math.inf
        self.forget()

    def forget(self) -> None:
        """Compare the next pose with none, as where the frame is another one."""
        self._before: tuple[float, Array] | None = None

    def moved(self, stamp_s: float, pose: Array, now_s: float) -> str | None:
        """A pose x, y [m], heading [rad] of this stamp has come now [s], by a monotonic clock.

        Returns:
            What is to be said of it, if it is a jump; of a flood only the first every `TOLD_S`.
        """
        before, self._before = self._before, (stamp_s, pose)
        if before is None or (far := _too_far(pose - before[1], abs(stamp_s - before[0]))) is None:
            return None
        line = f"jumped by {far}: REP 105 wants it continuous, the robot goes on by where it is now"
        self._newest = line, now_s
        if now_s - self._said_s < TOLD_S:
            return None
        self._said_s = now_s
        return line

    def recent(self, now_s: float) -> str | None:
        """The newest jump in words, for `TOLD_S`; from any thread."""
        newest = self._newest
        return newest[0] if newest is not None and now_s - newest[1] < TOLD_S else None


def _too_far(moved: Array, seconds: float) -> str | None:
    """How far a robot seems to have moved, x, y [m], heading [rad], if none can in that time."""
    x, y, turned = moved.tolist()
    path_length_m, turned_rad = math.hypot(x, y), abs(wrap_angle(turned))
    if path_length_m > FAR_M + TIMES * MAX_SPEED_M_PER_S * seconds:
        return f"{path_length_m:.3g} m"
    if turned_rad > FAR_RAD + TIMES * MAX_YAW_RATE_RAD_PER_S * seconds:
        return f"{turned_rad:.3g} rad"
    return None
