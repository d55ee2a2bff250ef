"""What worker processes do for an imitation: show what the teacher does, fit a student to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.policies.high_level import (
    flat_weights,
    set_weights,
)
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.training.imitation.demonstrations import Demonstrations, load_once
from pixelgait.policies.training.imitation.fitting import Lessons, encode_all, fit, has_gradient
from pixelgait.policies.training.rollouts.plan import DAggerConfig
from pixelgait.policies.training.rollouts.worker import Job, this_worker
from pixelgait.robot.control.controller import Decision, MemoryState
from pixelgait.robot.files import Readable
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode, glide_episode
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.seeds import Stream

# A student that is stuck sees the same image again and again; but to turn round takes 3 s, which
# where there is a destination may be the way. With 15 s a navigator learned more slowly (its card).
STALL_STEPS, TURN_STALL_STEPS = 200, 600
TEACHER_NOISE = 0.3  # share of the teacher's decisions led astray, to demonstrate how to come back


@dataclass(frozen=True, slots=True)
class Course:
    """Where the teacher is asked what it would do, and who leads there."""

    student: Array | None  # its weights (n,); None: the teacher leads
    seed: int
    difficulty: float


def collect(course: Course) -> tuple[Demonstrations, Episode]:
    """Demonstrations on one course, and the episode."""
    student, seed = course.student, course.seed
    worker = this_worker()
    high_level = worker.high_level
    assert high_level is not None
    body = worker.glider(course.difficulty)
    teacher = Teacher(body)
    rng = Stream.TEACHER_NOISE.rng(seed)
    images, goals, latents = [], [], []
    if student is not None:
        set_weights(high_level, student)

    def decide(image: NDArray[np.uint8], goal: Array, state: MemoryState) -> Decision:
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

    task = navigation_task(body.scene, worker.plan.steps)
    told = body.scene.has_goal_position
    task.stall_steps = TURN_STALL_STEPS if told else STALL_STEPS
    episode = glide_episode(decide, body, task, seed)
    # Shaped, as who begins where it shall go has nothing to decide.
    seen = np.array(images, np.uint8).reshape(-1, *high_level.image_shape)
    heard, taught = (np.array(each, float).reshape(-1, 2) for each in (goals, latents))
    return Demonstrations(np.arange(len(seen)) == 0, seen, heard, taught), episode


@dataclass(frozen=True, slots=True)
class Fit:
    """A student to be fitted, and where it is tried."""

    weights: Array  # (n,)
    files: list[Readable]  # demonstrations
    config: DAggerConfig
    courses: list[int]  # seeds
    difficulty: float  # of the courses
    seed: int  # of what is drawn while fitting
    label: str  # to count steps under on a terminal, if any


def fit_student(job: Fit) -> tuple[float, Array]:
    """Its advance [m] on the job's courses, if there are any, and its weights (n,)."""
    worker = this_worker()
    high_level = worker.high_level
    assert high_level is not None
    set_weights(high_level, job.weights)
    load = load_once if job.courses else Demonstrations.load  # a student without rivals is alone
    shown = Demonstrations.joined([load(file) for file in job.files])
    seen = torch.from_numpy(shown.images)
    if not has_gradient(high_level):
        seen = encode_all(high_level, seen)
    plan = worker.plan
    fit(high_level, Lessons.of(shown, seen), job.config, job.seed, plan.device, job.label)
    fitted = flat_weights(high_level)
    episodes = worker.run(Job(fitted, Normaliser.empty(), job.courses, plan.steps, job.difficulty))
    advance = [episode.distance_m for episode in episodes]
    return float(np.mean(advance)) if advance else 0.0, fitted
