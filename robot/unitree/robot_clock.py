"""A robot's own clock, seen from here."""

from __future__ import annotations

import time

DRIFT = 2e-4  # how far two clocks may drift apart, each by what cheap quartz does
RESTART_S = 1.0  # a tick that goes back so far is of a robot that has been started again


def raw_s() -> float:
    """Time on a clock that is never set, nor slewed [s]: no daemon of network time touches it."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class TickClock:
    """Times of measurement from a tick [ms]: the least delay seen is taken for none.

    What a message was held up by beyond that is its age. Delays are measured on the clock of
    `raw_s`: chrony slews others by up to 0.08 s/s, and sets them, which would look like delays.
    `restarts` counts how often a robot seems to have been started again since the first message.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The next message is the first."""
        self._tick: int | None = None
        self.restarts = 0
        self._stamp_s = self._offset_s = self._heard_s = 0.0

    def stamp_s(self, tick: int, raw_s: float, now_s: float) -> float:
        """On the clock of `now_s` [s], of a message with this tick that arrives now; never later.

        `now_s` and `raw_s` are the same moment, on two clocks.
        """
        if tick != self._tick:  # else the same instant, whenever it arrives
            self._stamp_s = now_s - self._age_s(tick, raw_s)
        return self._stamp_s

    def _age_s(self, tick: int, raw_s: float) -> float:
        delay_s = raw_s - tick / 1e3
        went_back = self._tick is not None and (tick - self._tick) / 1e3 < -RESTART_S
        grown_s = self._offset_s + DRIFT * (raw_s - self._heard_s)
        first = self._tick is None or went_back
        self.restarts += went_back
        self._offset_s = delay_s if first else min(delay_s, grown_s)
        self._tick, self._heard_s = tick, raw_s
        return delay_s - self._offset_s
