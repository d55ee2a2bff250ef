"""What a robot has decided, and from what, in as much memory as that may take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.interface import Image

# More than an hour of short decisions by 32 x 32 pixels; ours.
MOST_BYTES = 256 << 20


class Decisions:
    """Images and decisions: the newest, and those before as long as all are at most `keep_bytes`.

    One thread adds; others may read.
    """

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes, self._kept_bytes = keep_bytes, 0
        self._kept: deque[tuple[Image, Decision]] = deque()

    def add(self, image: Image, decision: Decision) -> None:
        """The newest; the oldest are forgotten."""
        self._kept.append((image, decision))
        self._kept_bytes += _size_bytes(image, decision)
        while self._kept_bytes > self._keep_bytes and len(self._kept) > 1:
            self._kept_bytes -= _size_bytes(*self._kept.popleft())

    @property
    def newest(self) -> tuple[Image, Decision] | None:
        """None before the first."""
        return self._kept[-1] if self._kept else None

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[Image, Decision]]:
        return iter(list(self._kept))


def _size_bytes(image: Image, decision: Decision) -> int:
    attention = decision.attention
    return image.pixels.nbytes + (0 if attention is None else attention.nbytes)
