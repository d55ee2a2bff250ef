"""The search loop: ask for candidates, let an objective evaluate them, keep everything on disk."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Checkpoint, Run
from pixelgait.policies.training.strategies import Strategy
from pixelgait.robot.spec import Array

Figures = dict[str, float]


class Objective(Protocol):
    """What a search climbs."""

    normaliser: Normaliser  # of the low level's inputs, where one is being trained

    def evaluate(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Returns (n,) of candidates (n, weights), and figures for the curve."""

    def validate(self, weights: Array) -> Figures:
        """Figures on what training never sees; `validation/return` decides which is best."""

    def histograms(self) -> dict[str, Array]:
        """Distributions since the last validation, for TensorBoard."""


@dataclass(frozen=True)
class Budget:
    """When a search validates and when it ends."""

    iterations: int
    minutes: float = 0.0  # no limit
    target_m: float = 0.0  # none
    validate_every: int = 5


class Search:
    """One search over one run."""

    def __init__(
        self, budget: Budget, run: Run, state: Checkpoint, strategy: Strategy, objective: Objective
    ) -> None:
        self.budget, self.run, self.state = budget, run, state
        self.strategy, self.objective = strategy, objective
        objective.normaliser = state.normaliser
        self.validated: Figures = {}
        for returns in state.history:  # where an interrupted run was
            strategy.ask()
            strategy.tell(returns)

    def weigh_start(self) -> None:
        """Validate what a fresh run starts from: it is the best until something beats it."""
        self.validated = self.objective.validate(self.state.weights)
        row = {"iteration": 0.0, **self.validated}
        score = row["validation/return"]
        self.state = replace(self.state, curve=[row], best_score=score)
        self.run.save(self.state, "best")
        self.run.save(self.state)

    def go(self) -> None:
        """Iterate until budget or target is reached; shows a progress bar with return and time."""
        from torch.utils.tensorboard import SummaryWriter

        started = time.monotonic()
        bar = tqdm(total=self.budget.iterations, initial=self.state.iteration, unit="it")
        with SummaryWriter(str(self.run.folder), purge_step=self.state.iteration + 1) as board, bar:
            while self.state.iteration < self.budget.iterations:
                row = self.iterate()
                self._log(board, row)
                bar.update()
                bar.set_postfix_str(progress_line(row, self.validated))
                if warning := going_blind(self.state.curve):
                    bar.write(warning)
                minutes = (time.monotonic() - started) / 60.0
                if self.reached_target() or 0.0 < self.budget.minutes < minutes:
                    break
        if not np.isfinite(self.state.best_score):  # stopped before the first validation
            self.run.save(self.state, "best")

    def iterate(self) -> Figures:
        """One step of the search, with everything about it on disk afterwards."""
        started = time.monotonic()
        iteration = self.state.iteration + 1
        returns, figures = self.objective.evaluate(self.strategy.ask(), iteration)
        self.strategy.tell(returns)
        row = {"iteration": float(iteration), **figures}
        row["train/best_return"] = float(returns.max())
        if iteration % self.budget.validate_every == 0:
            self.validated = self.objective.validate(self.strategy.weights)
            row |= self.validated
        row["perf/seconds"] = time.monotonic() - started
        self._save(iteration, returns, row)
        return row

    def reached_target(self) -> bool:
        """Whether every validation episode has gone as far as asked, on its feet."""
        target = self.budget.target_m
        return bool(
            target
            and self.validated.get("validation/shortest", 0.0) >= target
            and self.validated.get("validation/falls", 1.0) == 0.0
        )

    def _save(self, iteration: int, returns: Array, row: Figures) -> None:
        """The checkpoint, and the best one so far by validation return."""
        self.state = replace(
            self.state,
            weights=self.strategy.weights,
            normaliser=self.objective.normaliser,
            iteration=iteration,
            history=[*self.state.history, returns],
            curve=[*self.state.curve, row],
        )
        score = row.get("validation/return", -np.inf)
        if score > self.state.best_score:
            self.state = replace(self.state, best_score=score)
            self.run.save(self.state, "best")
        self.run.save(self.state)

    def _log(self, board: Any, row: Figures) -> None:
        for name, value in row.items():
            board.add_scalar(name, value, self.state.iteration)
        if any(name.startswith("validation/") for name in row):
            for name, values in self.objective.histograms().items():
                board.add_histogram(name, values, self.state.iteration)


def progress_line(row: Figures, validated: Figures) -> str:
    """What stands behind the progress bar."""
    parts = [f"return {row['train/return']:.2f}"]
    if "train/distance" in row:
        parts.append(f"distance {row['train/distance']:.2f} m")
    if validated:
        parts.append(f"| validation: return {validated['validation/return']:.2f}")
    if "validation/falls" in validated:
        parts.append(f"falls {validated['validation/falls']:.0%}")
        parts.append(f"success {validated['validation/success']:.0%}")
    return ", ".join(parts).replace(", |", " |")


BLIND_STEPS = 100.0  # a mean hold this long: the robot walks half a metre or more on one image


def going_blind(curve: list[Figures]) -> str | None:
    """A warning when the newest validation asks for far fewer images than one before it did.

    With long holds a policy learns to do without its camera, and does not find back.
    """
    if not curve or "validation/hold_steps" not in curve[-1]:
        return None
    held = [row["validation/hold_steps"] for row in curve if "validation/hold_steps" in row]
    if held[-1] < BLIND_STEPS or held[-1] < 2.0 * min(held):
        return None
    return (
        f"warning: iteration {curve[-1]['iteration']:.0f}: the policy goes blind, it holds a "
        f"decision for {held[-1]:.0f} steps on average, once {min(held):.0f}"
    )
