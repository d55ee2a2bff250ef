"""Bounded log lines: people and programs can send goals and orders as fast as they like."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

LINES, WINDOW_S = 5, 1.0  # so many lines in so long; assumption


class BoundedLines:
    """Passes on `LINES` lines in `WINDOW_S`; of further ones the newest, when the time is over."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._began_s, self._passed = -float("inf"), 0
        self._newest: str | None = None  # of those held back
        self._held = 0

    def take(self, waiting: deque[str]) -> list[str]:
        """Empty the lines that wait; returns those to log. Called periodically."""
        lines = []
        if self._now_s() - self._began_s >= WINDOW_S:
            lines = self.rest()
            self._began_s, self._passed = self._now_s(), len(lines)
        while waiting:
            line = waiting.popleft()
            if self._passed < LINES:
                self._passed += 1
                lines.append(line)
            else:
                self._newest, self._held = line, self._held + 1
        return lines

    def rest(self) -> list[str]:
        """The newest line that was held back, and how many others."""
        newest, others = self._newest, self._held - 1
        self._newest, self._held = None, 0
        if newest is None:
            return []
        return [newest if not others else f"{newest} ({others} lines before it were left out)"]
