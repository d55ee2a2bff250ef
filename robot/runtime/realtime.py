"""Absolute-deadline loops on Linux, with real-time priority where the system grants it."""

from __future__ import annotations

import ctypes
import os
import time

PRIORITY = 30
PR_SET_TIMERSLACK = 29  # linux/prctl.h


class RateKeeper:
    """Sleeps until the next multiple of the period. Deadlines are absolute: no drift."""

    def __init__(self, period_s: float) -> None:
        self.period_ns = round(period_s * 1e9)
        self.restart()

    def restart(self) -> None:
        self._deadline_ns = time.monotonic_ns()

    def wait(self) -> int:
        """Sleep until the next deadline; how many had passed already (those are skipped)."""
        self._deadline_ns += self.period_ns
        ahead = self._deadline_ns - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
            return 0
        skipped = -ahead // self.period_ns
        self._deadline_ns += skipped * self.period_ns
        return skipped + 1


def request_priority() -> str | None:
    """Ask for SCHED_FIFO for this thread and those it starts; returns why not, or None."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # wake within 1 ns, not 50 us
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except (PermissionError, AttributeError) as error:
        return f"no real-time priority ({error}); raise rtprio in limits.conf for steadier timing"
    return None
