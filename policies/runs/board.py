"""TensorBoard's events of a run. On a full disk they end, and training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pixelgait.robot.cli.processes import interrupt_later
from pixelgait.robot.spec import Array


class Board:
    """Writes scalars and histograms, by iteration; `warn` gets one line if that ends early."""

    def __init__(self, writer: Any, warn: Callable[[str], object]) -> None:
        self._writer, self._warn = writer, warn

    def log(
        self,
        iteration: int,
        row: Mapping[str, float],
        histograms: Callable[[], Mapping[str, Array]],
    ) -> None:
        """Add all of it; Ctrl-C waits."""
        if self._writer is None:
            return
        try:
            with interrupt_later():  # within it, its threads could wait for ever
                for name, value in row.items():
                    self._writer.add_scalar(name, value, iteration)
                for name, values in histograms().items():
                    self._writer.add_histogram(name, values, iteration)
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                self._end(error)

    def _end(self, error: OSError) -> None:
        self._warn(f"warning: TensorBoard's events end here: {error.strerror or error}")
        self._writer = None


@contextmanager
def open_board(folder: Path, first: int, warn: Callable[[str], object]) -> Iterator[Board]:
    """The board of a run that begins, or goes on, with an iteration.

    Raises:
        OSError: nothing can be written there from the start.
    """
    with interrupt_later():
        from torch.utils.tensorboard import SummaryWriter
    with _errors_of_its_threads_are_told_once():
        board = Board(SummaryWriter(str(folder), purge_step=first), warn)
        try:
            yield board
        finally:
            board.close()


@contextmanager
def _errors_of_its_threads_are_told_once() -> Iterator[None]:
    """Who writes next gets the error of a thread that could not; its traceback says no more."""
    before = threading.excepthook

    def told(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, OSError):
            before(failed)

    threading.excepthook = told
    try:
        yield
    finally:
        threading.excepthook = before
