"""Nobody who reads what a process says, or does not, may hold the robot up."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

STDERR = 2
CHUNK = 65536  # bytes, a pipe's default size (man 7 pipe)
FAREWELL_S = 0.5  # for what is still to be said; ours


class Terminal:
    """Between this process and its standard error: a pipe, and a thread that empties it.

    ROS logs while it holds the interpreter's lock (rclpy, `rclpy_logging_log`). Where a terminal is
    paused (Ctrl-S), or a pager full, a line would wait for it and with it every thread: nothing
    would be sent to the robot. Writing to this pipe never waits; what does not fit is lost.
    """

    def __init__(self) -> None:
        if os.isatty(STDERR):  # rcutils asks a pipe, and would leave colours out
            os.environ.setdefault("RCUTILS_COLORIZED_OUTPUT", "1")
        self._outside = os.dup(STDERR)
        self._emptied, filled = os.pipe()
        os.set_blocking(filled, False)
        os.dup2(filled, STDERR)
        os.close(filled)
        self._thread = threading.Thread(target=self._pass_on, name="terminal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Standard error is the old one again; what is still to be said has a moment."""
        os.dup2(self._outside, STDERR)  # the pipe's end with it: the thread reads up to there
        self._thread.join(FAREWELL_S)

    def _pass_on(self) -> None:
        while said := os.read(self._emptied, CHUNK):
            with suppress(OSError):  # nobody is there any more
                while said:
                    said = said[os.write(self._outside, said) :]
