"""Actuation and sensing delays: commands on their way to the motors, late measurements."""

from __future__ import annotations

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
    """The last second of a measured vector; linear between samples."""

    MOST_SAMPLES = 100  # a second of control steps

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Array]] = deque(maxlen=self.MOST_SAMPLES)

    @property
    def empty(self) -> bool:
        """Whether nothing was measured so far."""
        return not self._samples

    def add(self, time_s: float, value: Array) -> None:
        """The newest sample; one of the same time as the last replaces it."""
        if self._samples and self._samples[-1][0] == time_s:
            self._samples.pop()
        self._samples.append((time_s, value))

    def at(self, time_s: float) -> Array:
        """The vector at a time [s]; before the oldest sample that one, after the newest that."""
        later_s, later = self._samples[-1]
        for earlier_s, earlier in reversed(self._samples):
            if earlier_s <= time_s:
                if later_s == earlier_s:
                    return earlier
                share = (time_s - earlier_s) / (later_s - earlier_s)
                return earlier + share * (later - earlier)
            later_s, later = earlier_s, earlier
        return later
