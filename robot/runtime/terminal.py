"""Non-blocking stderr: a paused terminal must not stall the control loop."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

STDERR = 2
CHUNK = 65536  # bytes, a pipe's default size (man 7 pipe)
DRAIN_S = 0.5  # assumption: time to print what is left at the end


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
