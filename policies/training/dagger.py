"""DAgger: a high level learns to decide from images as a map-aware teacher does.

Ross et al. 2011 (arXiv 1011.0686). Students glide without physics. Evolution on courses (`course`)
then continues from the best student under physics.

A selection of patches (`iap`) has no gradient, and most random selections look at the sky. Students
with different selections therefore compete (successive halving, Jamieson and Talwalkar 2016, arXiv
1502.07943).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from pixelgait.policies.high_level import (
    Architecture,
    HighLevelNetwork,
    flat_weights,
    make_high_level,
    set_weights,
)
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, checked_figures, reading_arrays, write_arrays
from pixelgait.policies.training.demonstrations import (
    ROUND_FILE,
    Demonstrations,
)
from pixelgait.policies.training.fitting import fit_to, has_gradient
from pixelgait.policies.training.plan import TRIAL_COURSES, DAggerConfig, Plan
from pixelgait.policies.training.rollouts import (
    Figures,
    Job,
    Progress,
    RolloutWorker,
    Validation,
    counted,
    gliding_together,
    summary,
    this_worker,
)
from pixelgait.robot.control.controller import Decision
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable, remove_leftovers
from pixelgait.robot.spec import Array
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.gliding import Look
from pixelgait.sim.tasks.judging import ADVANCE_M
from pixelgait.sim.tasks.task import progress_m
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.seeds import TRAINING, Stream

COLLECTED = 0.3  # progress of a round once its demonstrations are there; assumption
COLLECTING, COMPETING, FITTING = 3, 4, 5  # random streams of a round
# A stuck student sees the same image again and again: its course ends. Towards a goal the teacher
# drives it out first, so that long ways and the way out of a corner are shown. Numbers are
# assumptions, in control steps of a stall, and in decisions of 0.2 s.
STALL_STEPS, GOAL_STALL_STEPS = 200, 1500
RESCUED_AFTER, RESCUED_FOR = 20, 20
TEACHER_NOISE = 0.3  # share of the teacher's decisions with a random turn: shows how to recover


class DAgger:
    """The trainer of imitate; see `loop.Trainer`. An iteration is a round.

    The demonstrations of every round are a file in the run folder; the students are in the
    checkpoint. Within a round every fitted student is a file as well: a round that was killed
    continues there.
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
        """Continues from a checkpoint.

        Args:
            folder: run folder.
            trained: the first students come from another run, so they lead from round 1 on.

        Raises:
            UserError: if the checkpoint is not that of an imitation.
        """
        check_students(checkpoint)
        self.pool, self.plan, self.config, self.seed = pool, plan, config, seed
        self.trained, self.validation = trained, validation
        self.folder = folder / "demonstrations"
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

    def iterate(self, iteration: int, progress: Progress) -> Figures:
        """One round of DAgger (Ross et al. 2011, algorithm 3.1)::

            D = {}
            for round i = 1 .. N:
                pi_i = teacher if i = 1 else student_i
                D_i = {(s, teacher(s)) for states s that pi_i visits}     # collect
                D = D + D_i                                               # aggregate
                student_{i+1} = argmin over pi of the mean loss(pi, D)    # fit

        Where students compete, all of them lead in turn, all are fitted, and the worse half leaves.
        """
        self.round = iteration
        figures = self._collect(progress)
        dataset = self._aggregate()
        fitted = self._fit(dataset, progress)
        self.students = better_half(fitted)
        return figures

    def validate(self) -> Figures:
        """Figures of the best student, gliding on the validation seeds."""
        return self.validation.figures(self.weights, self.normaliser)

    def histograms(self) -> dict[str, Array]:
        """The teacher's turns in the last round."""
        return {"demonstrations/turn": Demonstrations.load(self._file(self.round)).latents[:, 1]}

    def _collect(self, progress: Progress) -> Figures:
        """Store the teacher's decisions on new courses; figures of the episodes."""
        file = self._file(self.round)
        if file.exists():  # the round was killed later on
            with reading_arrays(file, ROUND_FILE) as data:
                return checked_figures(json.loads(str(data["figures"])))
        difficulty = self.plan.difficulty_in(self.round)
        students_lead = self.trained or self.round > 1
        chosen = self._courses(self.config.courses, COLLECTING)
        leaders = list(self.students) if students_lead else [None]
        jobs = [  # in turn, each student leads on its courses
            Courses(leader, seeds, difficulty, self.config.knows)
            for i, leader in enumerate(leaders)
            for seeds in gliding_together(self.plan, chosen[i :: len(leaders)])
        ]
        collected = self.pool.imap(collect, jobs, f"round {self.round}: demonstrations")
        done = counted(collected, len(jobs), progress, 0.0, COLLECTED)
        pairs = [pair for group in done for pair in group]
        shown, episodes = zip(*pairs, strict=True)
        figures = {**summary("train", episodes), "train/difficulty": difficulty}
        Demonstrations.joined(shown).save(file, figures)
        return figures

    def _aggregate(self) -> list[Path]:
        """Files of the demonstrations of all rounds so far."""
        return [self._file(i + 1) for i in range(self.round)]

    def _fit(self, dataset: list[Path], progress: Progress) -> list[tuple[float, Array]]:
        """Score [m] and weights (n,) of every student, fitted to the dataset.

        The score is the mean advance on further courses, 0 for a student without rivals.
        """
        for file in self.folder.glob("fitted-*.npz"):
            if not file.name.startswith(f"fitted-{self.round:03}-"):
                file.unlink()
        files = [
            self.folder / f"fitted-{self.round:03}-{i:03}.npz" for i in range(len(self.students))
        ]
        fitted = [_load_fitted(file, self.weights.size) for file in files]
        left = [i for i, each in enumerate(fitted) if each is None]
        seed = int(self._rng(FITTING).integers(2**32))
        compete = len(self.students) > 1
        results = (self._rivals if compete else self._alone)(
            [self.students[i] for i in left], dataset, seed, progress
        )
        for i, (score, weights) in zip(left, results, strict=True):
            write_arrays(files[i], score=score, weights=weights)
            fitted[i] = score, weights
        return [each for each in fitted if each is not None]

    def _rivals(
        self, students: list[Array], dataset: list[Path], seed: int, progress: Progress
    ) -> Iterator[tuple[float, Array]]:
        """Score and weights of students that compete, each fitted and tried by a worker."""
        count = min(self.config.courses, TRIAL_COURSES // len(self.students))
        courses, difficulty = self._courses(count, COMPETING), self.plan.difficulty_in(self.round)
        files = [self.pool.shared(file) for file in dataset]
        config = self.config.in_round(self.round)
        jobs = [Fit(each, files, config, courses, difficulty, seed) for each in students]
        results = self.pool.imap(fit_student, jobs, f"round {self.round}: students")
        return counted(results, len(jobs), progress, COLLECTED, 1.0)

    def _alone(
        self, students: list[Array], dataset: list[Path], seed: int, progress: Progress
    ) -> Iterator[tuple[float, Array]]:
        """Score and weights of the only student, fitted in this process by as many threads.

        There is none if it was fitted before the run was killed.
        """
        plan, threads = self.plan, self.pool.capacity
        assert plan.high_level is not None
        for weights in students:
            high_level = make_high_level(plan.high_level, 0)
            set_weights(high_level, weights)
            fit_to(
                high_level,
                dataset,
                self.config.in_round(self.round),
                seed,
                plan.device,
                label=f"round {self.round}: steps",
                threads=threads,
                progress=lambda share: progress(COLLECTED + (1.0 - COLLECTED) * share),
            )
            yield 0.0, flat_weights(high_level)

    def _courses(self, count: int, stream: int) -> list[int]:
        chosen = self._rng(stream).choice(len(TRAINING), count, replace=False)
        return [int(seed) for seed in chosen]

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, self.round, stream))

    def _file(self, of_round: int) -> Path:
        return self.folder / f"round-{of_round:03}.npz"


def better_half(fitted: list[tuple[float, Array]]) -> Array:
    """One step of successive halving: weights (k, n) of the better half, best first."""
    ranked = sorted(fitted, key=lambda each: -each[0])[: (len(fitted) + 1) // 2]
    return np.array([weights for _, weights in ranked])


def first_students(architecture: Architecture, config: DAggerConfig, seed: int) -> Array:
    """Fresh high levels (students, n); one where gradients reach everything that is drawn."""
    first = make_high_level(architecture, seed)
    count = 1 if has_gradient(first) and not first.encoder.drawn else config.students
    fresh = [make_high_level(architecture, 1000 * seed + i) for i in range(count)]
    return np.array([flat_weights(student) for student in fresh])


def check_students(checkpoint: Checkpoint) -> None:
    """Raises UserError unless the checkpoint holds students of its own number of weights."""
    students = checkpoint.state.get("students", np.zeros(0))
    if students.ndim != 2 or not len(students) or students.shape[1:] != checkpoint.weights.shape:
        raise UserError(
            f"last.npz: weights {checkpoint.weights.shape}, but students {students.shape}, "
            "expected one or more of as many weights"
        )


def _load_fitted(file: Path, size: int) -> tuple[float, Array] | None:
    """Score and weights (size,) of a student that is fitted already; None: it is not."""
    if not file.exists():
        return None
    with reading_arrays(file, "a fitted student") as data:
        score, weights = float(data["score"]), data["weights"]
        if weights.shape != (size,) or not np.isfinite([score, *weights]).all():
            raise ValueError(f"weights {weights.shape}, expected {size} finite numbers")
    return score, weights


@dataclass(frozen=True, slots=True)
class Courses:
    """Job of a worker: demonstrations on courses that robots glide along at once."""

    student: Array | None  # weights (n,) of the student that leads; None: the teacher leads
    seeds: Sequence[int]
    difficulty: float
    knows: Literal["map", "seen"] = "map"  # the teacher


def collect(courses: Courses) -> list[tuple[Demonstrations, Episode]]:
    """Demonstrations on each course, and its episode."""
    worker, high_level = _worker_and_network()
    bodies = worker.gliders(courses.difficulty, len(courses.seeds))
    teachers = [teacher_of(body, courses.knows) for body in bodies]
    labels = [Labels(*each) for each in zip(bodies, teachers, courses.seeds, strict=True)]
    if courses.student is not None:
        set_weights(high_level, courses.student)

    def decide(looks: Sequence[Look]) -> Sequence[Decision]:
        taught = [labels[look.robot].taught(look) for look in looks]
        if courses.student is not None:
            decided = worker.decide(looks)
            rescued = [labels[look.robot].rescued for look in looks]
            return [t if r else d for t, d, r in zip(taught, decided, rescued, strict=True)]
        return [
            labels[look.robot].perturbed(each) for look, each in zip(looks, taught, strict=True)
        ]

    stall_steps = GOAL_STALL_STEPS if bodies[0].scene.has_goal_position else STALL_STEPS
    steps = worker.plan.steps
    episodes = worker.glide(decide, courses.seeds, courses.difficulty, steps, stall_steps)
    shown = [each.shown(high_level.image_shape) for each in labels]
    return list(zip(shown, episodes, strict=True))


def teacher_of(body: KinematicBody, knows: Literal["map", "seen"]) -> Teacher:
    """The teacher of a robot, by what it knows."""
    if knows == "map":
        return Teacher(body)
    from pixelgait.sim.tasks.seeing_teacher import SeeingTeacher

    return SeeingTeacher(body)


class Labels:
    """Teacher's decisions along one course, beside what the camera saw."""

    def __init__(self, body: KinematicBody, teacher: Teacher, seed: int) -> None:
        self._teacher = teacher
        self._rng = Stream.TEACHER_NOISE.rng(seed)
        self._body = body
        self._best_m = -math.inf  # progress, since the last rescue
        self._since_best = 0  # decisions
        self._looks: list[Look] = []
        self._latents: list[Array] = []

    @property
    def rescued(self) -> bool:
        """Whether the student is stuck, so that the teacher drives."""
        return self._since_best > RESCUED_AFTER

    def taught(self, look: Look) -> Decision:
        """The teacher's decision, which is kept."""
        self._note_progress()
        decision = self._teacher.decide()
        self._looks.append(look)
        self._latents.append(decision.latent)
        return decision

    def _note_progress(self) -> None:
        progress = progress_m(self._body)
        ended = self._since_best > RESCUED_AFTER + RESCUED_FOR
        if ended or (not self.rescued and progress > self._best_m + ADVANCE_M):
            self._best_m, self._since_best = progress, 0
        else:
            self._since_best += 1

    def perturbed(self, decision: Decision) -> Decision:
        """The decision, now and then with a random turn."""
        if self._rng.random() >= TEACHER_NOISE:
            return decision
        latent = np.array((decision.latent[0], self._rng.uniform(-1.0, 1.0)))
        return replace(decision, latent=latent)

    def shown(self, image_shape: tuple[int, int, int]) -> Demonstrations:
        """All decisions; none if the course begins at its goal."""
        images = np.array([look.image for look in self._looks], np.uint8)
        goals = np.array([look.goal for look in self._looks], float)
        return Demonstrations(
            np.arange(len(images)) == 0,
            images.reshape(-1, *image_shape),
            goals.reshape(-1, 2),
            np.array(self._latents, float).reshape(-1, 2),
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """Job of a worker: fit a student, and try it."""

    weights: Array  # (n,)
    files: list[Readable]  # demonstrations
    config: DAggerConfig
    courses: list[int]  # seeds of the courses it is tried on
    difficulty: float
    seed: int  # of batches and dropout


def fit_student(job: Fit) -> tuple[float, Array]:
    """Mean advance [m] on the job's courses, and the fitted weights (n,)."""
    worker, high_level = _worker_and_network()
    plan = worker.plan
    set_weights(high_level, job.weights)
    fit_to(high_level, job.files, job.config, job.seed, plan.device)
    fitted = flat_weights(high_level)
    episodes = worker.run(Job(fitted, Normaliser.empty(), job.courses, plan.steps, job.difficulty))
    return float(np.mean([episode.distance_m for episode in episodes])), fitted


def _worker_and_network() -> tuple[RolloutWorker, HighLevelNetwork]:
    worker = this_worker()
    assert worker.high_level is not None
    return worker, worker.high_level
