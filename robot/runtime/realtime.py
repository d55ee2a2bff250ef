"""Absolute-deadline loops on Linux: what the system grants them, and what holds them up."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

PRIORITY = 30
PR_SET_TIMERSLACK = 29  # linux/prctl.h
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4  # asm-generic/mman.h
# For which a thread of Python may keep others waiting. By default that is 5 ms, for which all that
# says something once a second holds up a control step, or one that repeats commands, by its own
# length: with bursts of 3 ms a sleep was late by 2.9 ms (p90), and by 0.18 ms with this.
TURN_S = 1e-4
CAUSES = ("garbage collection", "scheduler", "publishing", "own code", "waiting")


def elapsed_s() -> float:
    """Seconds since the computer began, those in which it was suspended among them.

    `time.monotonic` leaves those out: a robot that lay down meanwhile would be as it was before.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RateKeeper:
    """Sleeps until the next deadline, a period after the last: absolute, without drift."""

    def __init__(self, period_s: float) -> None:
        self.period_ns = round(period_s * 1e9)
        self.restart()

    def restart(self) -> None:
        self._deadline_ns = time.monotonic_ns()

    def shift(self, later_ns: int) -> None:
        """Move the next deadline, and with it all others."""
        self._deadline_ns += later_ns

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


def raise_priority() -> None:
    """One more for this thread than `request_priority` was granted, if it was, and if so much is.

    Then neither the middleware's threads nor others of this process are ahead of it.
    """
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        with suppress(PermissionError):
            os.sched_setparam(0, os.sched_param(PRIORITY + 1))


def give_up_priority() -> None:
    """This thread is one among others again, as before `request_priority`."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def lock_memory() -> str | None:
    """Keep what this process touches in memory; returns why not, or None.

    Only without a limit: under one, whatever is allocated beyond it later would fail.
    """
    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    reason = "the limit is finite"
    if unlimited or os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0:
            return None
        reason = os.strerror(ctypes.get_errno())
    return f"memory is not locked ({reason}); memlock unlimited in limits.conf keeps it from disk"


def pin(cores: Sequence[int]) -> str | None:
    """Run this thread and those it starts on these cores alone; returns why not, or None."""
    try:
        os.sched_setaffinity(0, cores)
    except (OSError, ValueError) as error:
        allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        return f"not bound to cores {list(cores)} ({error}); there are {allowed}"
    return None


def take_turns() -> None:
    """No thread of this process keeps the interpreter's lock for long from one that waits."""
    sys.setswitchinterval(TURN_S)


def freeze_collector() -> None:
    """What is there now is no garbage, and never looked at again: collections become short."""
    gc.collect()
    gc.freeze()


class GarbageClock:
    """How long the interpreter has collected garbage, in whatever thread [ns]."""

    def __init__(self) -> None:
        self.total_ns = self._since_ns = 0
        gc.callbacks.append(self._tell)

    def _tell(self, phase: str, _: object) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            self._since_ns = now
        else:
            self.total_ns += now - self._since_ns


@cache
def garbage_clock() -> GarbageClock:
    """The process's own: from the first call on."""
    return GarbageClock()


class StallWatch:
    """What held a loop up that should begin a step every period, as far as can be told.

    Of the time since the last step the largest share counts: garbage was collected, the thread was
    ready but had no core (scheduler), it published, or it computed. All else is waiting: for the
    interpreter's lock, for a disk, or because the process was stopped. `begin` is called in the
    thread that is watched.
    """

    def __init__(self, period_ns: int) -> None:
        self.late_ns = period_ns // 2  # later than that is a stall
        self._period_ns = period_ns
        self.counts = dict.fromkeys(CAUSES, 0)
        self.longest_ns = dict.fromkeys(CAUSES, 0)
        self.publishing_ns = 0  # in this step, as who publishes has measured
        self._garbage = garbage_clock()
        self._thread: int | None = None
        self._before = (0, 0, 0, 0)

    def begin(self) -> None:
        """A step begins."""
        if self._thread != threading.get_ident():
            self._thread = threading.get_ident()
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._waits = open(path, "rb", buffering=0) if os.path.exists(path) else None  # noqa: SIM115
            self._before = self._clocks()
            return
        before, now = self._before, self._clocks()
        self._before = now
        took, collected, waited, computed = (b - a for a, b in zip(before, now, strict=True))
        published, self.publishing_ns = self.publishing_ns, 0
        late = took - self._period_ns
        if late <= self.late_ns:
            return
        own = max(0, computed - collected - published)
        rest = max(0, late - collected - waited - published - own)
        shares = dict(zip(CAUSES, (collected, waited, published, own, rest), strict=True))
        cause = max(shares, key=shares.__getitem__)
        self.counts[cause] += 1
        self.longest_ns[cause] = max(self.longest_ns[cause], late)

    def summary(self) -> dict[str, dict[str, float]]:
        """Count and longest [us] of each cause that there was."""
        return {
            cause: {"count": count, "max_us": self.longest_ns[cause] / 1e3}
            for cause, count in self.counts.items()
            if count
        }

    def _clocks(self) -> tuple[int, int, int, int]:
        """Time, garbage collected, waited for a core, computed [ns]."""
        waited = 0
        if self._waits is not None:
            self._waits.seek(0)
            waited = int(self._waits.read(100).split()[1])
        return time.monotonic_ns(), self._garbage.total_ns, waited, time.thread_time_ns()
