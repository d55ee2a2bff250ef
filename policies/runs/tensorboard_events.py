"""TensorBoard events of a run; on a full disk they end, and training continues."""

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
        """Add the figures of an iteration; Ctrl-C is deferred."""
        if self._writer is None:
            return
        try:
            with interrupt_later():  # an interrupt here could block its threads for ever
                for name, value in row.items():
                    self._writer.add_scalar(name, value, iteration)
                for name, values in histograms().items():
                    self._writer.add_histogram(name, values, iteration)
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        """Write the remaining events."""
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
    """The board of a run that begins, or is resumed, at the iteration `first`.

    Raises:
        OSError: if nothing can be written at first.
    """
    with interrupt_later():
        from torch.utils.tensorboard import SummaryWriter
    with _no_thread_tracebacks():
        board = Board(SummaryWriter(str(folder), purge_step=first), warn)
        try:
            yield board
        finally:
            board.close()


@contextmanager
def _no_thread_tracebacks() -> Iterator[None]:
    """Suppress tracebacks of OSError in the writer's threads: the next write raises it again."""
    before = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, OSError):
            before(failed)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
