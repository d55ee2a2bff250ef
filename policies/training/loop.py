"""Training loop: iterates a trainer within a budget, and keeps everything about it on disk."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from tqdm import tqdm

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.board import open_board
from pixelgait.policies.runs.curve_picture import PICTURE, draw_curve
from pixelgait.policies.runs.run import Checkpoint, Run
from pixelgait.policies.training.rollouts.validation import Figures
from pixelgait.robot.cli.processes import interrupt_later
from pixelgait.robot.spec import Array

DRAWN_EVERY_S = 60.0  # the curve, of a run that may be killed: a picture takes half a second


class Trainer(Protocol):
    """A way to train, made from the checkpoint where it begins or goes on."""

    @property
    def weights(self) -> Array:
        """(n,) of the policy as it is now."""

    @property
    def normaliser(self) -> Normaliser:
        """Of the low level's inputs; empty where none is trained."""

    def state(self) -> dict[str, Array]:
        """What else a checkpoint needs for another trainer to go on exactly here."""

    def iterate(self, iteration: int) -> Figures:
        """Learn for one iteration, counted from 1; `train/return` is among the figures."""

    def validate(self) -> Figures:
        """Figures on what training never sees; `validation/return` decides which is best."""

    def histograms(self) -> dict[str, Array]:
        """Distributions since the last validation, for TensorBoard."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run validates and when it ends."""

    iterations: int
    minutes: float = 0.0  # no limit
    target_m: float = 0.0  # none
    validate_every: int = 5


class TrainingLoop:
    """One trainer over one run, from where the checkpoint was taken."""

    def __init__(self, budget: Budget, run: Run, trainer: Trainer, checkpoint: Checkpoint) -> None:
        self.budget, self.run, self.trainer = budget, run, trainer
        self.checkpoint = checkpoint
        curve = reversed(checkpoint.curve)
        self.validated: Figures = next((row for row in curve if "validation/return" in row), {})
        self._ends_s = np.inf  # monotonic

    def validate_start(self) -> None:
        """Validate what a fresh run starts from: it is the best until something beats it."""
        self.validated = self.trainer.validate()
        self._save({"iteration": 0.0, **self.validated})

    def train(self) -> None:
        """Iterate until budget or target is reached; shows a progress bar with return and time.

        Not once, if what it begins with has reached the target.
        """
        self._ends_s = time.monotonic() + 60.0 * (self.budget.minutes or np.inf)
        drawn = time.monotonic()
        first = self.checkpoint.iteration + 1
        end = first if self.reached_target() else self.budget.iterations + 1
        bar = tqdm(total=self.budget.iterations, initial=first - 1, unit="it")
        warn = partial(bar.write, file=sys.stderr)
        try:
            with bar, open_board(self.run.folder, first, warn) as board:
                if first == 1 and self.validated:
                    board.log(0, self.validated, dict)
                for iteration in range(first, end):
                    row, last = self._iterate(iteration)
                    fresh = any(name.startswith("validation/") for name in row)
                    board.log(iteration, row, self.trainer.histograms if fresh else dict)
                    bar.update()
                    bar.set_postfix_str(progress_line(row, self.validated))
                    if fresh and time.monotonic() - drawn > DRAWN_EVERY_S:
                        self._draw()
                        drawn = time.monotonic()
                    if warning := going_blind(self.checkpoint.curve):
                        warn(warning)
                    if last or self.reached_target():
                        break
        except OSError:  # of a disk that has no room for a picture either
            raise
        except BaseException:  # Ctrl-C among them
            self._draw()
            raise
        self._draw()
        if not np.isfinite(self.checkpoint.best_score):  # stopped before the first validation
            self.run.save(self.checkpoint, "best")

    def reached_target(self) -> bool:
        """Whether every validation episode has gone as far as asked, on its feet."""
        target = self.budget.target_m
        return bool(
            target
            and self.validated.get("validation/shortest", 0.0) >= target
            and self.validated.get("validation/falls", 1.0) == 0.0
        )

    def _iterate(self, iteration: int) -> tuple[Figures, bool]:
        """One iteration, with everything about it on disk afterwards; and whether it is the last.

        That is asked once: an iteration that ends the run is one that was validated.
        """
        started = time.monotonic()
        row = {"iteration": float(iteration), **self.trainer.iterate(iteration)}
        every = self.budget.validate_every
        last = iteration == self.budget.iterations or time.monotonic() > self._ends_s
        comparable = iteration > every or np.isfinite(self.checkpoint.best_score)
        if iteration % every == 0 or (last and comparable):
            self.validated = self.trainer.validate()
            row |= self.validated
        row["perf/seconds"] = time.monotonic() - started
        self._save(row)
        return row, last

    def _save(self, row: Figures) -> None:
        """The checkpoint after a new row of the curve, and the best by validation return."""
        score, best = row.get("validation/return", -np.inf), self.checkpoint.best_score
        self.checkpoint = Checkpoint(
            weights=self.trainer.weights,
            normaliser=self.trainer.normaliser,
            iteration=int(row["iteration"]),
            curve=[*self.checkpoint.curve, row],
            best_score=max(best, score),
            state=self.trainer.state(),
        )
        if score > best:
            self.run.save(self.checkpoint, "best")
        self.run.save(self.checkpoint)

    def _draw(self) -> None:
        with interrupt_later():
            draw_curve(self.run.folder / PICTURE, self.checkpoint.curve)


def progress_line(row: Figures, validated: Figures) -> str:
    """What stands behind the progress bar."""
    parts = [f"return {row['train/return']:.2f}"]
    follows = "validation/speed_error" in validated  # then there is no way to go, nor a goal
    if "train/distance" in row and "train/speed_error" not in row:
        parts.append(f"distance {row['train/distance']:.2f} m")
    if validated:
        parts.append(f"| validation: return {validated['validation/return']:.2f}")
    if "validation/falls" in validated:
        parts.append(f"falls {validated['validation/falls']:.0%}")
    if follows:
        parts.append(f"errors {validated['validation/speed_error']:.2f} m/s")
        parts.append(f"{validated['validation/yaw_rate_error']:.2f} rad/s")
    elif "validation/success" in validated:
        for name in ("success", "collision_free", "contact_free"):
            parts.append(f"{name.replace('_', ' ')} {validated[f'validation/{name}']:.0%}")
        if "validation/spl" in validated:
            parts.append(f"SPL {validated['validation/spl']:.2f}")
    return ", ".join(parts).replace(", |", " |")


# A mean duration this long: the robot walks half a metre or more on one image. Ours.
BLIND_STEPS = 100.0


def going_blind(curve: list[Figures]) -> str | None:
    """A warning when the newest validation asks for far fewer images than one before it did.

    With long durations a policy learns to do without its camera, and does not find back.
    """
    name = "validation/duration_steps"
    if not curve or name not in curve[-1]:
        return None
    durations = [row[name] for row in curve if name in row]
    if durations[-1] < BLIND_STEPS or durations[-1] < 2.0 * min(durations):
        return None
    return (
        f"warning: iteration {curve[-1]['iteration']:.0f}: the policy goes blind, a decision "
        f"lasts {durations[-1]:.0f} steps on average, once {min(durations):.0f}"
    )
