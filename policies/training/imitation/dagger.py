"""Imitation by DAgger: a high level learns from images what a map-aware teacher decides.

DAgger (Ross et al. 2011, arXiv 1011.0686): students glide, the teacher says at every image what it
would have done, and they are fitted to all it has ever said. It gives a high level its start; what
lasts under physics it learns on courses.

A selection of patches has no gradient: students with random selections compete, and every round
the worse half leaves (successive halving, Jamieson and Talwalkar 2016, arXiv 1502.07943). Most
look at the sky.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pixelgait.policies.high_level import (
    Architecture,
    flat_weights,
    make_high_level,
)
from pixelgait.policies.runs.run import Checkpoint, reading_arrays, write_arrays
from pixelgait.policies.training.imitation.demonstrations import Demonstrations, figures_of_round
from pixelgait.policies.training.imitation.fitting import has_gradient
from pixelgait.policies.training.imitation.worker_jobs import Course, Fit, collect, fit_student
from pixelgait.policies.training.rollouts.plan import TRIAL_COURSES, DAggerConfig, Plan
from pixelgait.policies.training.rollouts.validation import Figures, Validation, summary
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import remove_leftovers
from pixelgait.robot.spec import Array
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.seeds import TRAINING

COLLECTING, COMPETING, FITTING = 3, 4, 5  # streams of a run: courses for what, and the fit's


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
        trained: bool,
    ) -> None:
        """Raises UserError if the checkpoint is none of an imitation."""
        check_students(checkpoint)
        self.trained = trained
        self.pool, self.plan, self.config, self.seed = pool, plan, config, seed
        self.folder, self.validation = folder / "demonstrations", validation
        remove_leftovers(self.folder, "*")
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
        """Ask the teacher on new courses. The students lead there, but for those who know nothing
        yet.
        """
        if (figures := figures_of_round(self._file(self.round))) is not None:
            return figures
        difficulty = self.plan.difficulty_in(self.round)
        led = self.trained or self.round > 1
        jobs = [
            Course(self.students[i % len(self.students)] if led else None, seed, difficulty)
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
        seed = int(self._rng(FITTING).integers(2**32))
        jobs = [
            Fit(self.students[i], files, self.config, courses, difficulty, seed, label)
            for i in left
        ]
        each_one = f"round {self.round}: students" if rivals else ""
        results = self.pool.imap(fit_student, jobs, each_one)
        for i, (score, weights) in zip(left, results, strict=True):
            write_arrays(paths[i], score=score, weights=weights)
            fitted[i] = score, weights
        done = [each for each in fitted if each is not None]
        ranked = sorted(done, key=lambda each: -each[0])[: (len(done) + 1) // 2]
        return np.array([weights for _, weights in ranked])

    def _courses(self, count: int, stream: int) -> list[int]:
        chosen = self._rng(stream).choice(len(TRAINING), count, replace=False)
        return [int(seed) for seed in chosen]

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.round, stream))

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
    """Fresh high levels (students, n); one will do where nothing stays as it was drawn."""
    first = make_high_level(architecture, seed)
    count = 1 if has_gradient(first) and not first.encoder.drawn else config.students
    fresh = [make_high_level(architecture, 1000 * seed + i) for i in range(count)]
    return np.array([flat_weights(student) for student in fresh])


def _load_fitted(file: Path, size: int) -> tuple[float, Array] | None:
    """Score and weights (size,) of a student that is fitted already."""
    if not file.exists():
        return None
    with reading_arrays(file, "a fitted student") as data:
        score, weights = float(data["score"]), data["weights"]
        if weights.shape != (size,) or not np.isfinite([score, *weights]).all():
            raise ValueError(f"weights {weights.shape}, expected {size} finite numbers")
    return score, weights
