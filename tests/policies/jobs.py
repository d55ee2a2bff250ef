"""Jobs for workers elsewhere, that import next to nothing."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable
from pixelgait.sim.scenes.registry import Move


@dataclass(frozen=True)
class Nothing:
    """To initialise workers with."""

    def moved(self, move: Move) -> Nothing:
        return self


def start(_: Nothing) -> None:
    """Needs no preparation."""


def square(number: int) -> int:
    return number * number


def content(file: Readable) -> bytes:
    return file.read_bytes()


def refuse(number: int) -> int:
    raise UserError(f"{number} is refused")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number
