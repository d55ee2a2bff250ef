"""The objective of imitation: to decide from images what a map-aware teacher decided there.

No physics is involved once the teacher has walked, so thousands of candidates a minute are tried.
It gives the high level a start; what its camera supports it learns on courses.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.policies import rollouts
from pixelgait.policies.high_level import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.policies.low_level import Statistics
from pixelgait.policies.pool import RolloutPool
from pixelgait.policies.rollouts import Plan, set_weights
from pixelgait.policies.runs import Run
from pixelgait.policies.search import Figures
from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.files import write_atomic
from pixelgait.robot.low_level import LinearLowLevel
from pixelgait.robot.spec import A1, Array
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.episode import run_episode
from pixelgait.sim.teacher import HOLD_STEPS, Teacher

BATCH = 256  # images per iteration, the same for all its candidates
HELD_OUT = 10  # every tenth image course is for validation
STRAY = 0.3  # share of decisions at which the teacher is led astray, to show how it finds back
DURATION_WEIGHT = 0.1  # of the loss: durations need only stay short
FILE = "demonstrations.npz"


class TeacherLoss:
    """Judges high levels by their squared distance to the teacher's decisions; an `Objective`."""

    def __init__(self, pool: RolloutPool, plan: Plan, run: Run, courses: int, seed: int) -> None:
        self.pool, self.seed = pool, seed
        self.statistics = Statistics.empty()
        self.path = run.folder / FILE
        if not self.path.exists():
            rng = np.random.default_rng((seed, 2))
            seeds = [int(s) for s in rng.choice(9000, courses, replace=False)]
            shown = pool.map(show, [(s, plan.difficulty, plan.steps) for s in seeds])
            write_atomic(self.path, _archive(shown))
        course = load_demonstrations(self.path).course
        self.training = np.flatnonzero(course % HELD_OUT != 0)
        self.validation = np.flatnonzero(course % HELD_OUT == 0)

    def judge(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Minus the loss (n,) of each candidate on one batch."""
        rng = np.random.default_rng((self.seed, iteration, 3))
        batch = rng.choice(self.training, min(BATCH, len(self.training)), replace=False)
        losses = np.array(self.pool.map(loss, [(trial, self.path, batch) for trial in trials]))
        return -losses, {"train/return": -float(losses.mean())}

    def validate(self, weights: Array) -> Figures:
        """Minus the loss on courses held out, and how much of the teacher's turning it explains."""
        parts = np.array_split(self.validation, max(1, len(self.validation) // BATCH))
        jobs = [(weights, self.path, part) for part in parts]
        losses = self.pool.map(loss, jobs)
        return {"validation/return": -float(np.average(losses, weights=[len(p) for p in parts]))}

    def histograms(self) -> dict[str, Array]:
        return {}


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """What the teacher saw and decided."""

    images: NDArray[np.uint8]  # (n, H, W, C)
    latents: Array  # (n, 2)
    course: NDArray[np.int64]  # (n,) which of the courses


@cache
def load_demonstrations(path: Path) -> Demonstrations:
    """Read what a teacher has shown; every process reads it once."""
    with np.load(path) as data:
        return Demonstrations(data["images"], data["latents"], data["course"])


def show(job: tuple[int, float, int]) -> tuple[NDArray[np.uint8], Array]:
    """Images (n, H, W, C) and latents (n, 2) of one course: seed, difficulty, steps."""
    seed, difficulty, steps = job
    worker = rollouts.this_worker()
    assert worker.plan.low_level is not None
    body = worker.body(difficulty)
    teacher = Teacher(body)
    rng = np.random.default_rng((seed, 3))
    images, latents = [], []

    def decide(image: NDArray[np.uint8]) -> Decision:
        latent = teacher.decide(image).latent
        images.append(image)
        latents.append(latent)
        if rng.random() < STRAY:
            latent = np.array((latent[0], rng.uniform(-1.0, 1.0)))
        return Decision(latent, HOLD_STEPS)

    low_level = LinearLowLevel(A1, *worker.plan.low_level)
    worker.task.steps = steps
    run_episode(Controller(decide, low_level, Supervisor(A1)), body, worker.task, seed)
    return np.array(images), np.array(latents)


@torch.no_grad()
def loss(job: tuple[Array, Path, NDArray[np.int64]]) -> float:
    """Mean squared error of weights on some of the demonstrations."""
    weights, path, chosen = job
    high_level = rollouts.this_worker().high_level
    assert high_level is not None
    set_weights(high_level, weights)
    shown = load_demonstrations(path)
    latent, duration, _ = high_level(torch.from_numpy(shown.images[chosen]))
    error = (latent.numpy() - shown.latents[chosen]) ** 2
    span = (LONGEST_STEPS - SHORTEST_STEPS) / 2.0
    too_long = (duration.numpy() - HOLD_STEPS) / span
    return float(error.mean() + DURATION_WEIGHT * (too_long**2).mean())


def _archive(shown: list[tuple[NDArray[np.uint8], Array]]) -> bytes:
    """All demonstrations as a numpy archive."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        images=np.concatenate([images for images, _ in shown]),
        latents=np.concatenate([latents for _, latents in shown]),
        course=np.repeat(np.arange(len(shown)), [len(images) for images, _ in shown]),
    )
    return buffer.getvalue()
