"""Decoder of a topic's messages in a thread of its own: the control thread never waits for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.runtime.realtime import keep_below_control


class Decoder:
    """Converts messages in the background; of those that arrive meanwhile the newest is next.

    A JPEG of 1280 x 720 takes most of a control step. The thread is one priority below the
    control thread, ends with this object, and is handed messages by one other thread.
    """

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert
        self._pool = ThreadPoolExecutor(1, "decoder", initializer=keep_below_control)
        self.forget()

    def forget(self) -> None:
        """Drop what waits and what is being converted."""
        self._waiting: Any | None = None
        self._running: tuple[Any, Future[Any]] | None = None

    def exchange(self, message: Any | None) -> tuple[Any | None, str | None]:
        """Hand over a message, or None, and take what was converted since the last call.

        Returns:
            A converted message and None; one that cannot be converted, and why; or None twice.
        """
        if message is not None:
            self._waiting = message
        done = self._running if self._running and self._running[1].done() else None
        if done is not None:
            self._running = None
        if self._running is None and self._waiting is not None:
            self._running = self._waiting, self._pool.submit(self._convert, self._waiting)
            self._waiting = None
        if done is None:
            return None, None
        try:
            return done[1].result(), None
        except UserError as error:
            return done[0], str(error)
