"""Training loop: progress bar, Ctrl-C at inconvenient moments, figures of a run."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, Run, load_checkpoint
from pixelgait.policies.training import loop
from pixelgait.policies.training.loop import Budget, ProgressBar, TrainingLoop, progress_line
from pixelgait.policies.training.rollouts import Figures, Progress, summary
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Contacts, Episode


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C as in a terminal: parallel test processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupted:
    """A trainer that is interrupted while its figures are logged."""

    weights = np.ones(2)
    normaliser = Normaliser.empty()

    def state(self) -> dict[str, Array]:
        return {}

    def iterate(self, iteration: int, progress: Progress) -> Figures:
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
    budget = Budget(iterations=5, validate_every=1)
    with pytest.raises(KeyboardInterrupt):
        TrainingLoop(budget, run, Interrupted(), first).train()
    assert load_checkpoint(tmp_path / "last.npz").iteration == 1
    (events,) = tmp_path.glob("events.*")
    assert b"noted/to-the-end" in events.read_bytes()


class Watched(Interrupted):
    """A trainer that looks whether the curve was drawn before it goes on."""

    def __init__(self, picture: Path) -> None:
        self.picture = picture
        self.drawn: list[bool] = []

    def iterate(self, iteration: int, progress: Progress) -> Figures:
        self.drawn.append(self.picture.exists())
        self.picture.unlink(missing_ok=True)
        return super().iterate(iteration, progress)

    def histograms(self) -> dict[str, Array]:
        return {}


@pytest.mark.parametrize(
    ("every_s", "drawn"), [(60.0, [False] * 5), (0.0, [False, False, True, False, True])]
)
def test_a_curve_is_drawn_while_its_run_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float, drawn: list[bool]
) -> None:
    """After a validation, if a while has passed: a run that is killed later has a picture."""
    monkeypatch.setattr(loop, "DRAWN_EVERY_S", every_s)
    run, first = Run(tmp_path), Checkpoint.first(np.zeros(2), Normaliser.empty())
    trainer = Watched(tmp_path / loop.PICTURE)
    TrainingLoop(Budget(iterations=5, validate_every=2), run, trainer, first).train()
    assert trainer.drawn == drawn
    assert trainer.picture.read_bytes().startswith(b"\x89PNG")


class Improving(Watched):
    """A trainer that is better after every iteration."""

    def __init__(self, picture: Path) -> None:
        super().__init__(picture)
        self.weights = np.zeros(2)

    def iterate(self, iteration: int, progress: Progress) -> Figures:
        self.weights = self.weights + 1.0
        return super().iterate(iteration, progress)

    def validate(self) -> Figures:
        return {"validation/return": float(self.weights[0])}


@pytest.mark.parametrize("budget", [Budget(3), Budget(10**6, minutes=1e-9)])
def test_a_run_with_a_start_validates_it_and_its_last_iteration(
    tmp_path: Path, budget: Budget
) -> None:
    """Though it ends before the first validation is due: else nothing would have been learned."""
    run, first = Run(tmp_path), Checkpoint.first(np.zeros(2), Normaliser.empty())
    learning = TrainingLoop(budget, run, Improving(tmp_path / loop.PICTURE), first)
    learning.validate_start()
    learning.train()
    last, best = (load_checkpoint(tmp_path / f"{name}.npz") for name in ("last", "best"))
    assert best.iteration == last.iteration == (3 if budget.iterations == 3 else 1)
    assert [row["validation/return"] for row in last.curve if "validation/return" in row] == [
        0.0,
        float(last.iteration),
    ]
    (events,) = tmp_path.glob("events.*")
    assert events.read_bytes().count(b"validation/return") == 2


class Walking(Improving):
    """A trainer that goes a metre further after every iteration."""

    def validate(self) -> Figures:
        metres = float(self.weights[0])
        return {"validation/return": metres, "validation/shortest": metres, "validation/falls": 0.0}


def test_a_start_that_reaches_the_target_is_not_trained(tmp_path: Path) -> None:
    """By what it starts from, or by what it had learned when it was stopped."""
    run, first = Run(tmp_path), Checkpoint.first(np.zeros(2), Normaliser.empty())
    budget = Budget(iterations=20, target_m=4.0, validate_every=2)
    TrainingLoop(budget, run, Walking(tmp_path / loop.PICTURE), first).train()
    last = load_checkpoint(tmp_path / "last.npz")
    assert last.iteration == 4
    again = Walking(tmp_path / loop.PICTURE)
    TrainingLoop(budget, run, again, last).train()
    again.weights = last.weights
    learning = TrainingLoop(budget, run, again, first)
    learning.validate_start()
    learning.train()
    assert len(again.drawn) == 0


def episode(success: bool | None, contacts: int, metrics: dict[str, float]) -> Episode:
    return Episode(
        seed=9000,
        success=success,
        distance_m=1.0,
        return_m=1.0,
        fell=success is False,
        fault=None,
        images=1,
        steps=10,
        path=np.zeros((1, 2)),
        observations=np.zeros((1, 20)),
        decisions=np.zeros((1, 3)),
        metrics=metrics,
        contacts=Contacts(contacts),
    )


def test_a_fall_at_once_does_not_hide_the_metrics_of_other_episodes() -> None:
    """Nor do touches stay untold: a student that rubs along walls is none that succeeds."""
    ran = [
        episode(False, 0, {}),
        episode(True, 0, {"spl": 0.9}),
        episode(True, 2, {"spl": 0.7}),
        episode(True, 1, {"spl": 0.8}),
    ]
    ran.append(episode(None, 1, {}))  # of a scene without a goal
    figures = summary("validation", ran)
    assert figures["validation/spl"] == pytest.approx(0.8)
    assert figures["validation/collision_free"] == 0.25
    assert figures["validation/contact_free"] == 0.5
    line = progress_line({"train/return": 1.0}, figures)
    assert line.endswith("success 75%, collision free 25%, contact free 50%, SPL 0.80")


def test_the_bar_moves_within_an_iteration_and_its_eta_respects_the_time_limit() -> None:
    bar = ProgressBar(total=10, initial=2, ends_s=time.monotonic() + 60.0)
    bar.start_t -= 30.0
    bar.reach(2, 0.25)
    line = str(bar)
    bar.close()
    assert "| 2.2/10 [00:30<00:5" in line or "| 2.2/10 [00:30<01:00" in line
    unlimited = ProgressBar(total=10, initial=0, ends_s=np.inf)
    assert "| 0/10 [00:00<?]" in str(unlimited)
    unlimited.start_t -= 60.0
    unlimited.reach(5, 0.0)
    line = str(unlimited)
    unlimited.close()
    assert "| 5/10 [01:00<01:00]" in line


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_is_answered_at_once_and_soon_ends_the_run(tmp_path: Path) -> None:
    """The terminal sends SIGINT to the whole process group, workers included."""
    words = f"imitate --encoder iap --out {tmp_path / 'run'} --workers 2"
    pid, terminal = pty.fork()
    if not pid:
        line = [sys.executable, "-m", "pixelgait.policies.training.train", *words.split()]
        os.execv(sys.executable, line)
    size = struct.pack("HHHH", 30, 110, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)

    def read_until(text: bytes, limit_s: float) -> float:
        """Seconds until the terminal shows the text."""
        began, shown = time.monotonic(), b""
        while text not in shown:
            left_s = limit_s - (time.monotonic() - began)
            assert select.select([terminal], [], [], max(left_s, 0.0))[0], shown
            shown += os.read(terminal, 65536)
        return time.monotonic() - began

    read_until(b"/24 [", 120.0)  # demonstrations are being collected
    os.write(terminal, b"\x03")
    assert read_until(b"interrupted, ending the workers", 30.0) < 10.0
    read_until(b"--resume continues", 60.0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    os.close(terminal)
