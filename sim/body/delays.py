"""Actuation and sensing delays: a delay line, and a history to interpolate in."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Generic, TypeVar

from pixelgait.robot.spec import Array

T = TypeVar("T")


class DelayLine(Generic[T]):
    """Outputs items in order, `delay_s` after their input; `first` is available at once."""

    def __init__(self, first: T, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self._arrived = first
        self._pending: deque[tuple[float, T]] = deque()  # due times [s] and items

    def put(self, time_s: float, item: T) -> None:
        self._pending.append((time_s + self.delay_s, item))

    def at(self, time_s: float) -> T:
        """The newest item that has arrived by a time [s]."""
        while self._pending and self._pending[0][0] <= time_s:
            _, self._arrived = self._pending.popleft()
        return self._arrived


class History:
    """A measured vector over the last `kept_s` at least, linear between samples."""

    def __init__(self, kept_s: float = 1.0) -> None:
        self.kept_s = kept_s
        self._times_s: list[float] = []
        self._values: list[Array] = []

    @property
    def empty(self) -> bool:
        """Whether there is no sample yet."""
        return not self._times_s

    def add(self, time_s: float, value: Array) -> None:
        """Add the newest sample; one with the time of the last replaces it."""
        times_s = self._times_s
        if times_s and times_s[-1] == time_s:
            self._values[-1] = value
            return
        times_s.append(time_s)
        self._values.append(value)
        if times_s[0] < time_s - 2.0 * self.kept_s:  # seldom, since dropping the oldest takes time
            old = bisect_right(times_s, time_s - self.kept_s) - 1
            del times_s[:old], self._values[:old]

    def at(self, time_s: float) -> Array:
        """The vector at a time [s]; outside the samples' range the nearest one."""
        later = bisect_right(self._times_s, time_s)
        if later in (0, len(self._times_s)):
            return self._values[max(later - 1, 0)]
        earlier_s, later_s = self._times_s[later - 1 : later + 1]
        share = (time_s - earlier_s) / (later_s - earlier_s)
        before, after = self._values[later - 1 : later + 1]
        return before + share * (after - before)
