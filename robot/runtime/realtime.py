"""Real-time settings on Linux: priority, memory, cores, Python's lock; non-blocking stderr."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

PRIORITY = 30
PR_SET_TIMERSLACK = 29  # linux/prctl.h
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4  # asm-generic/mman.h
# Python's switch interval: how long a thread may hold the interpreter lock while others wait. With
# the default of 5 ms a thread that works in bursts delays a control step by their length: bursts of
# 3 ms made a sleep late by 2.9 ms (p90), and by 0.18 ms with this value.
SWITCH_INTERVAL_S = 1e-4
STDERR = 2
CHUNK = 65536  # bytes from standard error, a pipe's default size (man 7 pipe)
DRAIN_S = 0.5  # assumption: time to print what is left at the end


def request_priority() -> str | None:
    """Request SCHED_FIFO for this thread and those it starts; returns the refusal, or None."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # wake within 1 ns, not 50 us
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except (PermissionError, AttributeError) as error:
        return f"no real-time priority ({error}); raise rtprio in limits.conf for steadier timing"
    return None


def raise_priority() -> None:
    """Raise this thread's priority by one, if `request_priority` was granted and the limit allows.

    Then no thread of the middleware or of this process precedes it.
    """
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        with suppress(PermissionError):
            os.sched_setparam(0, os.sched_param(PRIORITY + 1))


def keep_below_control() -> None:
    """Set a real-time thread to one below the control thread, which it may have got it from.

    With normal priority it would stop the control thread: it asks for the interpreter's lock, and
    may hold it without a core.
    """
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setparam(0, os.sched_param(PRIORITY))


def give_up_priority() -> None:
    """Return this thread to normal scheduling, as before `request_priority`."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def lock_memory() -> str | None:
    """Lock this process's pages in memory; returns why that failed, or None.

    Only without a limit: allocations beyond a limit would fail later.
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
    """Bind this thread and those it starts to these cores; returns why that failed, or None."""
    try:
        os.sched_setaffinity(0, cores)
    except (OSError, ValueError) as error:
        allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        return f"not bound to cores {list(cores)} ({error}); there are {allowed}"
    return None


def shorten_switch_interval() -> None:
    """Make every thread release the interpreter lock soon after another asks for it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def freeze_collector() -> None:
    """Exempt all present objects from garbage collection, so that collections are short."""
    gc.collect()
    gc.freeze()


class Terminal:
    """Replaces standard error by a non-blocking pipe, which a thread empties to the real one.

    ROS logs while it holds the interpreter lock (rclpy, `rclpy_logging_log`). With a paused
    terminal (Ctrl-S) or a full pager a log line would block, and with it every thread: no command
    would reach the robot. Writing to this pipe never blocks; what does not fit is lost.
    """

    def __init__(self) -> None:
        if os.isatty(STDERR):  # for a pipe rcutils would omit colours
            os.environ.setdefault("RCUTILS_COLORIZED_OUTPUT", "1")
        self._outside = os.dup(STDERR)
        self._emptied, filled = os.pipe()
        os.set_blocking(filled, False)
        os.dup2(filled, STDERR)
        os.close(filled)
        self._thread = threading.Thread(target=self._forward, name="terminal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Restore standard error, and wait up to `DRAIN_S` for buffered lines."""
        os.dup2(self._outside, STDERR)  # closes the pipe, so the thread ends
        self._thread.join(DRAIN_S)

    def _forward(self) -> None:
        while data := os.read(self._emptied, CHUNK):
            with suppress(OSError):  # the reader is gone
                while data:
                    data = data[os.write(self._outside, data) :]
