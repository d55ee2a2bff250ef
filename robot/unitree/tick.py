"""A robot's own clock, seen from here."""

from __future__ import annotations

DRIFT = 1e-4  # how far two clocks may drift apart; twice what cheap quartz does
RESTART_S = 1.0  # a tick that goes back so far is of a robot that has been started again


class TickClock:
    """Times of measurement from a tick [ms]: the least delay seen is taken for none.

    What a message was held up by beyond that is its age.
    """

    def __init__(self) -> None:
        self._tick: int | None = None
        self._stamp_s = self._offset_s = self._heard_s = 0.0

    def stamp_s(self, tick: int, now_s: float) -> float:
        """On our clock [s], of a message with this tick that arrives now; never later than now."""
        if tick == self._tick:  # the same instant, whenever it arrives
            return self._stamp_s
        delay_s = now_s - tick / 1e3
        went_back = self._tick is not None and (tick - self._tick) / 1e3 < -RESTART_S
        grown_s = self._offset_s + DRIFT * (now_s - self._heard_s)
        first = self._tick is None or went_back
        self._offset_s = delay_s if first else min(delay_s, grown_s)
        self._tick, self._heard_s = tick, now_s
        self._stamp_s = tick / 1e3 + self._offset_s
        return self._stamp_s
