"""Imitation: learning from images what a map-aware teacher decides, on gliding robots.

DAgger (Ross et al. 2011, arXiv 1011.0686): students walk, the teacher says at every image what it
would have done, and they are fitted to all the teacher has ever said. It gives a high level its
start; what holds under physics it learns on courses.

A selection of patches has no gradient: students with random selections compete, and every round
the worse half leaves (successive halving, Jamieson and Talwalkar 2016, arXiv 1502.07943). Most
look at the sky.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.policies.high_level import flat_weights, make_high_level, set_weights
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Run
from pixelgait.policies.training import rollouts
from pixelgait.policies.training.fitting import encode_all, fit, has_gradient
from pixelgait.policies.training.objective import VALIDATION_SEED, summary, validation
from pixelgait.policies.training.rollouts import Job, Plan
from pixelgait.policies.training.search import Figures
from pixelgait.robot.controller import Decision
from pixelgait.robot.files import write_atomic
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.tasks.glide import glide_episode
from pixelgait.sim.tasks.pool import WorkerPool
from pixelgait.sim.tasks.teacher import Teacher

PATIENCE_STEPS = 200  # a student that is stuck shows the same image again and again
TRIAL_COURSES = 256  # courses on which students compete in a round, shared among them
TEACHER_NOISE = (
    0.3  # share of decisions at which the teacher is led astray, to show how it finds back
)


@dataclass(frozen=True, slots=True)
class DAggerConfig:
    """What one round of imitation takes."""

    courses: int = 24
    """On which the teacher is asked."""
    steps: int = 400
    """Of gradient descent; three times as many where only a head is fitted."""
    batch: int = 256
    """Images in a step."""
    students: int = 64
    """With different selections, where that has no gradient; half of them leave every round."""


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """What was seen in one round, and what the teacher decided there."""

    images: NDArray[np.uint8]  # (n, H, W, C)
    latents: Array  # (n, 2)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, images=self.images, latents=self.latents)
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Demonstrations:
        with np.load(path, allow_pickle=False) as data:
            return cls(data["images"], data["latents"])


class Imitation:
    """A `Strategy` and its own `Objective`: judging shows, telling fits.

    The strategy's weights are those of the best student.
    """

    def __init__(
        self,
        pool: WorkerPool,
        plan: Plan,
        run: Run,
        seed: int,
        dagger: DAggerConfig,
        validation_size: tuple[int, int],
    ) -> None:
        self.pool, self.plan, self.folder, self.seed = pool, plan, run.folder / "shown", seed
        self.dagger = dagger
        self.validation_size = validation_size
        self.normaliser = Normaliser.empty()
        count = 1 if has_gradient(make_high_level(plan.encoder, seed)) else dagger.students
        fresh = [make_high_level(plan.encoder, 1000 * seed + i) for i in range(count)]
        self.students = np.array([flat_weights(student) for student in fresh])  # best first
        self.weights: Array = self.students[0]
        self.round = 0

    def ask(self) -> Array:
        self.round += 1
        return self.weights[None]

    def evaluate(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Mean return (1,) of the students, in the first round of the teacher, on new courses."""
        jobs = [
            (self.students[i % len(self.students)] if iteration > 1 else None, seed)
            for i, seed in enumerate(self._courses(self.dagger.courses, 3))
        ]
        images, latents, episodes = zip(*self.pool.map(show, jobs), strict=True)
        Demonstrations(np.concatenate(images), np.concatenate(latents)).save(self._file(self.round))
        figures = summary("train", episodes)
        return np.array([figures["train/return"]]), figures

    def tell(self, returns: Array) -> None:
        """Fit to all that was shown. What an interrupted run has fitted is taken from its files."""
        fitted = self.folder / f"students-{self.round:03}.npy"
        if not fitted.exists():
            files = [self._file(i + 1) for i in range(self.round)]
            courses = self._courses(
                min(self.dagger.courses, TRIAL_COURSES // len(self.students)), 4
            )
            jobs = [(weights, files, self.dagger, courses) for weights in self.students]
            tried = self.pool.map(fit_student, jobs)
            ranked = sorted(tried, key=lambda each: -each[0])[: (len(tried) + 1) // 2]
            _save(fitted, np.array([weights for _, weights in ranked]))
        self.students = np.load(fitted)
        self.weights = self.students[0]

    def validate(self, weights: Array) -> Figures:
        """Figures of gliding on the validation seeds."""
        return validation(self.pool, self.plan, weights, self.normaliser, *self.validation_size)

    def histograms(self) -> dict[str, Array]:
        """How the teacher turned in the last round."""
        return {"shown/turn": Demonstrations.load(self._file(self.round)).latents[:, 1]}

    def _courses(self, count: int, stream: int) -> list[int]:
        rng = np.random.default_rng((self.seed, self.round, stream))
        return [int(seed) for seed in rng.choice(VALIDATION_SEED, count, replace=False)]

    def _file(self, of_round: int) -> Path:
        return self.folder / f"round-{of_round:03}.npz"


def show(job: tuple[Array | None, int]) -> tuple[NDArray[np.uint8], Array, Episode]:
    """One course: images (n, H, W, C), the teacher's latents (n, 2) there, and the episode.

    The job is the student's weights, or None for the teacher to walk, and the seed.
    """
    student, seed = job
    worker = rollouts.this_worker()
    high_level = worker.high_level
    assert high_level is not None
    body = worker.glider(worker.plan.difficulty)
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
        if rng.random() < TEACHER_NOISE:
            latent = np.array((taught.latent[0], rng.uniform(-1.0, 1.0)))
            return replace(taught, latent=latent)
        return taught

    episode = glide_episode(decide, body, Forward(worker.plan.steps, PATIENCE_STEPS), seed)
    return np.array(images), np.array(latents), episode


def fit_student(job: tuple[Array, list[Path], DAggerConfig, list[int]]) -> tuple[float, Array]:
    """Fit weights to files as the dagger says; returns the advance [m] on courses and weights."""
    weights, files, dagger, courses = job
    worker = rollouts.this_worker()
    high_level = worker.high_level
    assert high_level is not None
    set_weights(high_level, weights)
    shown = [_load(file) for file in files]
    seen = torch.from_numpy(np.concatenate([each.images for each in shown]))
    if not has_gradient(high_level):
        seen = encode_all(high_level, seen)
    latents = torch.tensor(np.concatenate([each.latents for each in shown]), dtype=torch.float32)
    fit(high_level, seen, latents, dagger.steps, dagger.batch, seed=len(files))
    fitted = flat_weights(high_level)
    plan = worker.plan
    episodes = worker.run(Job(fitted, Normaliser.empty(), courses, plan.steps, plan.difficulty))
    return float(np.mean([episode.distance_m for episode in episodes])), fitted


@cache
def _load(file: Path) -> Demonstrations:
    return Demonstrations.load(file)


def _save(path: Path, array: Array) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array)
    write_atomic(path, buffer.getvalue())
