"""Imitation by DAgger: a high level learns from images what a map-aware teacher decides.

DAgger (Ross et al. 2011, arXiv 1011.0686): students glide, the teacher says at every image what it
would have done, and they are fitted to all it has ever said. It gives a high level its start; what
lasts under physics it learns on courses.

A selection of patches has no gradient: students with random selections compete, and every round
the worse half leaves (successive halving, Jamieson and Talwalkar 2016, arXiv 1502.07943). Most
look at the sky.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.policies.high_level import (
    Architecture,
    flat_weights,
    make_high_level,
    set_weights,
)
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Checkpoint, figures_of, reading_arrays, write_arrays
from pixelgait.policies.training import rollouts
from pixelgait.policies.training.fitting import Lessons, encode_all, fit, has_gradient
from pixelgait.policies.training.plan import TRIAL_COURSES, DAggerConfig, Plan
from pixelgait.policies.training.rollouts import Job
from pixelgait.policies.training.validation import Figures, Validation, summary
from pixelgait.robot.controller import Decision, State
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.foresight import ForesightedTeacher
from pixelgait.sim.tasks.glide import glide_episode
from pixelgait.sim.tasks.navigate import way_through
from pixelgait.sim.workers.pool import Pool
from pixelgait.sim.world.seeds import TRAINING, Stream

# A student that is stuck sees the same image again and again; but to turn round takes 3 s, which
# where there is a destination may be the way. With 15 s a navigator learned more slowly (its card).
PATIENCE_STEPS = 200, 600  # where there is none, and where there is one
COLLECTING, COMPETING = 3, 4  # streams of a run: which courses serve for what
SHOWN = "the demonstrations of a round"
TEACHER_NOISE = 0.3  # share of the teacher's decisions led astray, to demonstrate how to come back


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Decisions of one or many episodes: what was seen, and what the teacher decided there."""

    starts: NDArray[np.bool_]  # (n,) where an episode begins
    images: NDArray[np.uint8]  # (n, H, W, C)
    goals: Array  # (n, 2)
    latents: Array  # (n, 2)

    def save(self, path: Path, figures: Figures) -> None:
        """Write them, with the figures of the episodes."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        write_arrays(path, **columns, figures=json.dumps(figures))

    @classmethod
    def load(cls, file: Readable) -> Demonstrations:
        """Raises UserError if the file holds none."""
        with reading_arrays(file, SHOWN) as data:
            shown = cls(**{each.name: data[each.name] for each in fields(cls)})
            shown.check()
        return shown

    def check(self) -> None:
        """Raises ValueError if its arrays cannot be those of decisions."""
        n, pixels = len(self.starts), self.images.shape[-3:]
        shapes = [getattr(self, each.name).shape for each in fields(self)]
        if shapes != [(n,), (n, *pixels), (n, 2), (n, 2)]:
            raise ValueError(f"arrays of shapes {shapes} are not of as many decisions")
        if [self.starts.dtype, self.images.dtype] != [bool, np.uint8]:
            raise ValueError("its images are not of bytes, or its starts not true or false")
        if not np.isfinite(self.latents).all():
            raise ValueError("its latents are not finite numbers")

    @classmethod
    def joined(cls, parts: Sequence[Demonstrations]) -> Demonstrations:
        """All of them, one after another."""
        columns = ([getattr(part, each.name) for part in parts] for each in fields(cls))
        return cls(*(np.concatenate(column) for column in columns))


class DAgger:
    """The trainer of imitate; see `loop.Trainer`. An iteration is a round: collect, fit, halve.

    In the first round the teacher leads, unless the students come `trained`.
    Demonstrations lie in the run's folder, one file per round; the students are in the checkpoint.
    Within a round each student lies there as soon as it is fitted: what a round that was killed has
    done is not done again.
    """

    def __init__(
        self,
        pool: Pool,
        plan: Plan,
        config: DAggerConfig,
        seed: int,
        folder: Path,
        validation: Validation,
        checkpoint: Checkpoint,
        trained: bool = False,
    ) -> None:
        """Raises UserError if the checkpoint is none of an imitation."""
        check_students(checkpoint)
        self.trained = trained
        self.pool, self.plan, self.config, self.seed = pool, plan, config, seed
        self.folder, self.validation = folder / "demonstrations", validation
        self.normaliser = checkpoint.normaliser
        self.students = checkpoint.state["students"]  # (students, n), best first
        self.round = checkpoint.iteration

    @property
    def weights(self) -> Array:
        """(n,) of the best student."""
        return np.asarray(self.students[0])

    def state(self) -> dict[str, Array]:
        """`students` (students, n), best first."""
        return {"students": self.students}

    def iterate(self, iteration: int) -> Figures:
        """One round of DAgger."""
        self.round = iteration
        for file in self.folder.glob("fitted-*.npz"):
            if not file.name.startswith(f"fitted-{iteration:03}-"):
                file.unlink()
        figures = self._collect()
        self.students = self._best_half()
        return figures

    def validate(self) -> Figures:
        """Figures of the best student, gliding on the validation seeds."""
        return self.validation.figures(self.weights, self.normaliser)

    def histograms(self) -> dict[str, Array]:
        """How the teacher turned in the last round."""
        return {"demonstrations/turn": Demonstrations.load(self._file(self.round)).latents[:, 1]}

    def _collect(self) -> Figures:
        """Ask the teacher on new courses; the students lead there, who know nothing at first."""
        if (figures := _figures(self._file(self.round))) is not None:
            return figures
        difficulty = self.plan.difficulty_in(self.round)
        led = self.trained or self.round > 1
        jobs = [
            (self.students[i % len(self.students)] if led else None, seed, difficulty)
            for i, seed in enumerate(self._courses(self.config.courses, COLLECTING))
        ]
        collected = self.pool.map(collect, jobs, f"round {self.round}: demonstrations")
        shown, episodes = zip(*collected, strict=True)
        figures = {**summary("train", episodes), "train/difficulty": difficulty}
        Demonstrations.joined(shown).save(self._file(self.round), figures)
        return figures

    def _best_half(self) -> Array:
        """The students (k, n) fitted to all demonstrations, without the worse half; best first."""
        files = [self.pool.shared(self._file(i + 1)) for i in range(self.round)]
        rivals = len(self.students) - 1
        each = min(self.config.courses, TRIAL_COURSES // len(self.students)) if rivals else 0
        courses = self._courses(each, COMPETING)
        paths = [self._fitted(i) for i in range(len(self.students))]
        fitted = [_load_fitted(path, self.weights.size) for path in paths]
        left = [i for i, each in enumerate(fitted) if each is None]
        difficulty = self.plan.difficulty_in(self.round)
        # A single one takes as long as the round does: it is its steps that are counted.
        label = "" if rivals else f"round {self.round}: steps"
        jobs = [(self.students[i], files, self.config, courses, difficulty, label) for i in left]
        each_one = f"round {self.round}: students" if rivals else ""
        results = self.pool.imap(fit_student, jobs, each_one)
        for i, (score, weights) in zip(left, results, strict=True):
            write_arrays(paths[i], score=score, weights=weights)
            fitted[i] = score, weights
        ranked = sorted((each for each in fitted if each is not None), key=lambda each: -each[0])
        return np.array([weights for _, weights in ranked[: (len(ranked) + 1) // 2]])

    def _courses(self, count: int, stream: int) -> list[int]:
        rng = np.random.default_rng((self.seed, self.round, stream))
        return [int(seed) for seed in rng.choice(len(TRAINING), count, replace=False)]

    def _file(self, of_round: int) -> Path:
        return self.folder / f"round-{of_round:03}.npz"

    def _fitted(self, student: int) -> Path:
        return self.folder / f"fitted-{self.round:03}-{student:03}.npz"


def check_students(checkpoint: Checkpoint) -> None:
    """Raises UserError unless students of that many weights can be restored from it."""
    students = checkpoint.state.get("students", np.zeros(0))
    if students.ndim != 2 or not len(students) or students.shape[1:] != checkpoint.weights.shape:
        raise UserError(
            f"last.npz: weights {checkpoint.weights.shape}, but students {students.shape}, "
            "expected one or more of as many weights"
        )


def first_students(architecture: Architecture, config: DAggerConfig, seed: int) -> Array:
    """Fresh high levels (students, n); one will do where gradients reach the encoder."""
    count = 1 if has_gradient(make_high_level(architecture, seed)) else config.students
    fresh = [make_high_level(architecture, 1000 * seed + i) for i in range(count)]
    return np.array([flat_weights(student) for student in fresh])


def collect(job: tuple[Array | None, int, float]) -> tuple[Demonstrations, Episode]:
    """Demonstrations on one course, and the episode.

    The job is the weights of the student that leads, or None for the teacher, seed and difficulty.
    """
    student, seed, difficulty = job
    worker = rollouts.this_worker()
    high_level = worker.high_level
    assert high_level is not None
    body = worker.glider(difficulty)
    teacher = ForesightedTeacher(body)
    rng = Stream.TEACHER_NOISE.rng(seed)
    images, goals, latents = [], [], []
    if student is not None:
        set_weights(high_level, student)

    def decide(image: NDArray[np.uint8], goal: Array, state: State) -> Decision:
        taught = teacher.decide()
        images.append(image)
        goals.append(goal)
        latents.append(taught.latent)
        if student is not None:
            return high_level.decide(image, goal, state)
        if rng.random() < TEACHER_NOISE:
            latent = np.array((taught.latent[0], rng.uniform(-1.0, 1.0)))
            return replace(taught, latent=latent)
        return taught

    task = way_through(body.scene, worker.plan.steps)
    task.patience_steps = PATIENCE_STEPS[body.scene.tells_destination]
    episode = glide_episode(decide, body, task, seed)
    # Shaped, as who begins where it shall go has nothing to decide.
    seen = np.array(images, np.uint8).reshape(-1, *high_level.image_shape)
    told, taught = (np.array(each, float).reshape(-1, 2) for each in (goals, latents))
    return Demonstrations(np.arange(len(seen)) == 0, seen, told, taught), episode


def fit_student(
    job: tuple[Array, list[Readable], DAggerConfig, list[int], float, str],
) -> tuple[float, Array]:
    """Fit weights to files as the config says; returns the advance [m] on courses of a difficulty,
    if there are any, and the weights. With a label steps are counted on a terminal."""
    weights, files, config, courses, difficulty, label = job
    worker = rollouts.this_worker()
    high_level = worker.high_level
    assert high_level is not None
    set_weights(high_level, weights)
    shown = Demonstrations.joined([_load(file) for file in files])
    seen = torch.from_numpy(shown.images)
    if not has_gradient(high_level):
        seen = encode_all(high_level, seen)
    goals, latents = torch.from_numpy(shown.goals).float(), torch.from_numpy(shown.latents).float()
    lessons = Lessons(seen, goals, latents, torch.from_numpy(shown.starts))
    plan = worker.plan
    fit(high_level, lessons, config, len(files), plan.device, label)
    fitted = flat_weights(high_level)
    episodes = worker.run(Job(fitted, Normaliser.empty(), courses, plan.steps, difficulty))
    advance = [episode.distance_m for episode in episodes]
    return float(np.mean(advance)) if advance else 0.0, fitted


def _figures(file: Path) -> Figures | None:
    """Those of a round whose demonstrations are there already."""
    figures = None
    if file.exists():
        with reading_arrays(file, SHOWN) as data:
            figures = figures_of(json.loads(str(data["figures"])))
    return figures


def _load_fitted(file: Path, size: int) -> tuple[float, Array] | None:
    """Score and weights (size,) of a student that is fitted already."""
    if not file.exists():
        return None
    with reading_arrays(file, "a fitted student") as data:
        score, weights = float(data["score"]), data["weights"]
        if weights.shape != (size,) or not np.isfinite([score, *weights]).all():
            raise ValueError(f"weights {weights.shape}, expected {size} finite numbers")
    return score, weights


@cache
def _load(file: Readable) -> Demonstrations:
    return Demonstrations.load(file)
