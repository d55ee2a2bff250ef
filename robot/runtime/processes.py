"""Processes: children that do not outlive their parent, and Ctrl-C where it comes untimely."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal to get when the parent dies


def die_with_parent(parent: int) -> None:
    """Be killed when the process `parent` dies, which has started this one (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above: no signal will come
        os._exit(1)


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Ctrl-C waits for the end: for what must not be cut off in the middle.

    Libraries that take an interrupt for an error of their own, or hold a lock that others wait for.

    Raises:
        KeyboardInterrupt: at the end, if one came.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are the main one's
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    for number in came[:1]:
        signal.raise_signal(number)
