"""Robot clock: times of measurement on this computer's clock, from a Go2's tick."""

from __future__ import annotations

import time

DRIFT = 2e-4  # relative drift of two cheap quartz clocks
RESTART_S = 1.0  # a tick that goes back by more means that the robot was restarted


def raw_s() -> float:
    """Time on a clock that is neither set nor slewed by network time [s]."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class TickClock:
    """Stamps from a tick [ms]: the smallest delay seen counts as zero, more than that as age.

    Delays are measured on the clock of `raw_s`: chrony sets other clocks and slews them by up to
    0.08 s/s, which would look like delays. `restarts` counts the robot's restarts since the first
    message.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew with the next message."""
        self._tick: int | None = None
        self.restarts = 0
        self._stamp_s = self._offset_s = self._received_s = 0.0

    def stamp_s(self, tick: int, raw_s: float, now_s: float) -> float:
        """Stamp [s] of a message with this tick that arrives now, at most `now_s`.

        `now_s` (clock of the stamp) and `raw_s` are the same moment on two clocks.
        """
        if tick != self._tick:  # a repeated message keeps its stamp
            self._stamp_s = now_s - self._age_s(tick, raw_s)
        return self._stamp_s

    def _age_s(self, tick: int, raw_s: float) -> float:
        delay_s = raw_s - tick / 1e3
        went_back = self._tick is not None and (tick - self._tick) / 1e3 < -RESTART_S
        grown_s = self._offset_s + DRIFT * (raw_s - self._received_s)
        first = self._tick is None or went_back
        self.restarts += went_back
        self._offset_s = delay_s if first else min(delay_s, grown_s)
        self._tick, self._received_s = tick, raw_s
        return delay_s - self._offset_s
