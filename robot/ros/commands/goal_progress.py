"""Whether a robot gets any nearer to where it was told to go."""

from __future__ import annotations

import math

NEARER_M = 0.1  # so much nearer than ever before is progress; ours, more than a robot sways


class Progress:
    """How long a robot on its way has come no nearer; while it is not, no time counts."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Set out, to another place or anew."""
        self.nearest_m = math.inf
        self._waited_s = 0.0
        self.pause()

    def pause(self) -> None:
        """Do not count until the next place is known."""
        self._before_s: float | None = None

    def waited_s(self, distance_m: float, now_s: float) -> float:
        """For so long [s] it has come no nearer, being so far away at this time [s]."""
        if self._before_s is not None:
            self._waited_s += now_s - self._before_s
        self._before_s = now_s
        if distance_m < self.nearest_m - NEARER_M:
            self.nearest_m, self._waited_s = distance_m, 0.0
        return self._waited_s
