"""Imitation: learning from images what a map-aware teacher decides, on gliding robots.

DAgger (Ross et al. 2011, arXiv 1011.0686): the student walks, the teacher says at every image what
it would have done, and the student is fitted to all the teacher has ever said. It gives a high
level its start; what holds under physics it learns on courses.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.policies import rollouts
from pixelgait.policies.episode_returns import VALIDATION_SEED, summary
from pixelgait.policies.fitting import encode_all, fit, has_gradient
from pixelgait.policies.low_level import Statistics
from pixelgait.policies.pool import RolloutPool
from pixelgait.policies.rollouts import (
    Job,
    Plan,
    flat_weights,
    make_high_level,
    run_job,
    set_weights,
)
from pixelgait.policies.runs import Run
from pixelgait.policies.search import Figures
from pixelgait.robot.controller import Decision
from pixelgait.robot.files import write_atomic
from pixelgait.robot.spec import Array
from pixelgait.sim.episode import Episode
from pixelgait.sim.kinematic import glide_episode
from pixelgait.sim.teacher import Teacher

STRAY = 0.3  # share of decisions at which the teacher is led astray, to show how it finds back


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one round of imitation takes."""

    courses: int = 24
    """On which the teacher is asked."""
    steps: int = 400
    """Of gradient descent, 256 images each; half as many in the first round."""
    selections: int = 32
    """Random ones to try in the first round, of a selection that has no gradient."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What was seen in one round, and what the teacher decided there."""

    images: NDArray[np.uint8]  # (n, H, W, C)
    latents: Array  # (n, 2)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, images=self.images, latents=self.latents)
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Shown:
        with np.load(path, allow_pickle=False) as data:
            return cls(data["images"], data["latents"])


class Imitation:
    """A `Strategy` of one candidate and its own `Objective`: judging shows, telling fits."""

    def __init__(
        self,
        pool: RolloutPool,
        plan: Plan,
        run: Run,
        start: Array,
        seed: int,
        lesson: Lesson,
        validation: tuple[int, int],
    ) -> None:
        self.pool, self.plan, self.folder, self.seed = pool, plan, run.folder / "shown", seed
        self.lesson = lesson
        self.validation_episodes, self.validation_steps = validation
        self.statistics = Statistics.empty()
        self.weights = start.copy()
        self.round = 0
        self.high_level = make_high_level(plan.encoder, seed, plan.mirror)
        self.whole = has_gradient(self.high_level)
        self._seen: list[torch.Tensor] = []  # images, or features where the encoder is settled
        self._latents: list[torch.Tensor] = []

    def ask(self) -> Array:
        self.round += 1
        return self.weights[None]

    def judge(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Return (1,) of the student, or in the first round of the teacher, on new courses."""
        rng = np.random.default_rng((self.seed, iteration, 3))
        seeds = [int(s) for s in rng.choice(VALIDATION_SEED, self.lesson.courses, replace=False)]
        student = trials[0] if iteration > 1 else None
        shown = self.pool.map(show, [(student, self.plan.difficulty, seed) for seed in seeds])
        images, latents, episodes = zip(*shown, strict=True)
        Shown(np.concatenate(images), np.concatenate(latents)).save(self._file())
        figures = summary("train", episodes)
        return np.array([figures["train/return"]]), figures

    def tell(self, returns: Array) -> None:
        """Fit to all that was shown. What an interrupted run has fitted is taken from its files."""
        fitted = self.folder / f"fitted-{self.round:03}.npy"
        if fitted.exists():
            self._become(np.load(fitted))
        elif self.round == 1:
            tries = 1 if self.whole else self.lesson.selections
            steps = self.lesson.steps // 2
            jobs = [(self._file(), steps, 1000 * self.seed + i) for i in range(tries)]
            tried = self.pool.map(try_selection, jobs)
            self._become(min(tried, key=lambda each: each[0])[1])
        self._remember(Shown.load(self._file()))
        if not fitted.exists():
            if self.round > 1:
                seen, latents = torch.cat(self._seen), torch.cat(self._latents)
                fit(self.high_level, seen, latents, self.lesson.steps, self.seed)
                self.weights = flat_weights(self.high_level)
            _save(fitted, self.weights)

    def validate(self, weights: Array) -> Figures:
        """Figures of gliding on the validation seeds."""
        seeds = range(VALIDATION_SEED, VALIDATION_SEED + self.validation_episodes)
        difficulty, steps = self.plan.difficulty, self.validation_steps
        jobs = [Job(weights, self.statistics, [seed], steps, difficulty) for seed in seeds]
        return summary("validation", [e for each in self.pool.map(run_job, jobs) for e in each])

    def histograms(self) -> dict[str, Array]:
        """How the teacher has turned so far."""
        return {"shown/turn": torch.cat(self._latents)[:, 1].numpy()}

    def _file(self) -> Path:
        return self.folder / f"round-{self.round:03}.npz"

    def _become(self, weights: Array) -> None:
        self.weights = weights
        set_weights(self.high_level, weights)

    def _remember(self, shown: Shown) -> None:
        images = torch.from_numpy(shown.images)
        self._seen.append(images if self.whole else encode_all(self.high_level, images))
        self._latents.append(torch.tensor(shown.latents, dtype=torch.float32))


def show(job: tuple[Array | None, float, int]) -> tuple[NDArray[np.uint8], Array, Episode]:
    """One course: images (n, H, W, C), the teacher's latents (n, 2) there, and the episode.

    The job is the student's weights, or None for the teacher to walk; difficulty; seed.
    """
    student, difficulty, seed = job
    worker = rollouts.this_worker()
    high_level = worker.high_level
    assert high_level is not None
    body = worker.glider(difficulty)
    teacher = Teacher(body)
    rng = np.random.default_rng((seed, 3))
    images, latents = [], []
    if student is not None:
        set_weights(high_level, student)

    def decide(image: NDArray[np.uint8]) -> Decision:
        taught = teacher.decide(image)
        images.append(image)
        latents.append(taught.latent)
        if student is not None:
            return high_level.decide(image)
        if rng.random() < STRAY:
            latent = np.array((taught.latent[0], rng.uniform(-1.0, 1.0)))
            return replace(taught, latent=latent)
        return taught

    worker.task.steps = worker.plan.steps
    episode = glide_episode(decide, body, worker.task, seed)
    return np.array(images), np.array(latents), episode


def try_selection(job: tuple[Path, int, int]) -> tuple[float, Array]:
    """Loss and weights of a fresh high level, fitted to what was shown: file, steps, seed."""
    path, steps, seed = job
    plan = rollouts.this_worker().plan
    high_level = make_high_level(plan.encoder, seed, plan.mirror)
    shown = Shown.load(path)
    seen = torch.from_numpy(shown.images)
    if not has_gradient(high_level):
        seen = encode_all(high_level, seen)
    latents = torch.tensor(shown.latents, dtype=torch.float32)
    loss = fit(high_level, seen, latents, steps, seed)
    return loss, flat_weights(high_level)


def _save(path: Path, weights: Array) -> None:
    buffer = io.BytesIO()
    np.save(buffer, weights)
    write_atomic(path, buffer.getvalue())
