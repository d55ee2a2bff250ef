"""The training loop, with a trainer that is interrupted where it hurts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Checkpoint, Run, load_checkpoint
from pixelgait.policies.training.loop import Budget, TrainingLoop
from pixelgait.policies.training.validation import Figures
from pixelgait.robot.spec import Array


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal: processes that run tests side by side ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupted:
    """A trainer that is interrupted while its figures are logged."""

    weights = np.ones(2)
    normaliser = Normaliser.empty()

    def state(self) -> dict[str, Array]:
        return {}

    def iterate(self, iteration: int) -> Figures:
        return {"train/return": float(iteration)}

    def validate(self) -> Figures:
        return {"validation/return": 1.0}

    def histograms(self) -> dict[str, Array]:
        os.kill(os.getpid(), signal.SIGINT)
        return {"noted/to-the-end": self.weights}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_no_figures_half_logged(tmp_path: Path) -> None:
    """TensorBoard's queue, cut off while it holds its lock, would wait for ever when closed."""
    run, first = Run(tmp_path), Checkpoint.first(np.zeros(2), Normaliser.empty())
    loop = TrainingLoop(Budget(iterations=5, validate_every=1), run, Interrupted(), first)
    with pytest.raises(KeyboardInterrupt):
        loop.go()
    assert load_checkpoint(tmp_path / "last.npz").iteration == 1
    (events,) = tmp_path.glob("events.*")
    assert b"noted/to-the-end" in events.read_bytes()
