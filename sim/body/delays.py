"""Actuation and sensing delays: commands on their way to the motors, late measurements."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Generic, TypeVar

from pixelgait.robot.spec import Array

T = TypeVar("T")


class DelayLine(Generic[T]):
    """Hands things on, in order, `delay_s` after they were put in; `first` is there at once."""

    def __init__(self, first: T, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self._arrived = first
        self._pending: deque[tuple[float, T]] = deque()  # due time [s], what is on its way

    def put(self, time_s: float, item: T) -> None:
        self._pending.append((time_s + self.delay_s, item))

    def at(self, time_s: float) -> T:
        """The newest thing that has arrived by now."""
        while self._pending and self._pending[0][0] <= time_s:
            _, self._arrived = self._pending.popleft()
        return self._arrived


class History:
    """A measured vector over time, for so long [s] at least; linear between samples."""

    def __init__(self, kept_s: float = 1.0) -> None:
        self.kept_s = kept_s
        self._times_s: list[float] = []
        self._values: list[Array] = []

    @property
    def empty(self) -> bool:
        """Whether nothing was measured so far."""
        return not self._times_s

    def add(self, time_s: float, value: Array) -> None:
        """The newest sample; one of the same time as the last replaces it."""
        times_s = self._times_s
        if times_s and times_s[-1] == time_s:
            self._values[-1] = value
            return
        times_s.append(time_s)
        self._values.append(value)
        if times_s[0] < time_s - 2.0 * self.kept_s:  # seldom: to drop the oldest takes a while
            old = bisect_right(times_s, time_s - self.kept_s) - 1
            del times_s[:old], self._values[:old]

    def at(self, time_s: float) -> Array:
        """The vector at a time [s]; before the oldest sample that one, after the newest that."""
        later = bisect_right(self._times_s, time_s)
        if later in (0, len(self._times_s)):
            return self._values[max(later - 1, 0)]
        earlier_s, later_s = self._times_s[later - 1 : later + 1]
        share = (time_s - earlier_s) / (later_s - earlier_s)
        before, after = self._values[later - 1 : later + 1]
        return before + share * (after - before)
