"""Child processes that do not outlive their parent, however that one dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal to get when the parent dies


def die_with_parent(parent: int) -> None:
    """Be killed when the process `parent` dies, which has started this one (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above: no signal will come
        os._exit(1)
