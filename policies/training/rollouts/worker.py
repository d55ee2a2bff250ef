"""Rollout workers: a weight vector becomes a controller and runs episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from pixelgait.policies.high_level import make_high_level, set_weights
from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.training.rollouts.plan import Plan
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.controller import HighLevel as HighLevelFunction
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.episode import Episode, glide_episode, run_episode
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.navigate import AHEAD, navigation_task
from pixelgait.sim.tasks.task import Task
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.scene import Scene

if TYPE_CHECKING:
    from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch

MOST_AT_ONCE = 64  # candidates: more gain nothing, and a worker that dies loses them


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate and the episodes that evaluate it."""

    weights: Array
    normaliser: Normaliser
    seeds: Sequence[int]
    steps: int
    difficulty: float = 0.5


class RolloutWorker:
    """Bodies, a task, and the networks that candidates' weights go into."""

    def __init__(self, plan: Plan) -> None:
        torch.set_num_threads(1)
        self.plan, self.spec = plan, plan.spec
        self.task: Task = Follow(plan.steps)
        if plan.task != "follow":
            scene = self._scene(plan.difficulty) if plan.sees else FlatGround()
            self.task = navigation_task(scene, plan.steps, plan.contact_cost)
        self.high_level = make_high_level(plan.high_level, 0) if plan.high_level else None
        high = self.high_level
        self.camera = camera_for(self.spec.camera, high.image_shape) if high else None
        self._bodies: dict[tuple[str, float], SimulatedBody] = {}
        self._gliders: dict[float, KinematicBody] = {}
        self._batches: dict[int, MuJoCoBatch] = {}  # by the number of robots

    def body(self, difficulty: float, seed: int) -> SimulatedBody:
        """The body in the scene of a difficulty, in the simulator that a seed is for; each is made
        once, and there is only one flat ground.
        """
        plan, simulator = self.plan, self.plan.simulator(seed)
        key = simulator, difficulty if plan.sees else 0.0
        if key not in self._bodies:
            scene = self._scene(difficulty) if plan.sees else FlatGround()
            self._bodies[key] = make_body(
                simulator,
                self.spec,
                scene,
                camera=self.camera,
                randomisation=plan.randomisation,
                faults=plan.faults,
            )
        return self._bodies[key]

    def glider(self, difficulty: float) -> KinematicBody:
        """The gliding robot in the scene of a difficulty, made once."""
        if difficulty not in self._gliders:
            scene, ranges = self._scene(difficulty), self.plan.randomisation
            self._gliders[difficulty] = KinematicBody(
                self.spec, scene, camera=self.camera, randomisation=ranges
            )
        return self._gliders[difficulty]

    def _scene(self, difficulty: float) -> Scene:
        plan = self.plan
        return make_scene(plan.scene, difficulty, plan.appearance)

    def run(self, job: Job) -> list[Episode]:
        """One episode per seed."""
        return self.run_all([job])[0]

    def run_all(self, jobs: Sequence[Job]) -> list[list[Episode]]:
        """Those of many candidates, of which all episodes last as long."""
        self.task.steps = jobs[0].steps
        if self.plan.batched:
            return self._run_at_once(jobs)
        return [self._glide(job) if self.plan.glides else self._run_alone(job) for job in jobs]

    def _run_at_once(self, jobs: Sequence[Job]) -> list[list[Episode]]:
        """All robots of all candidates; who meets anything odd is run again, alone."""
        from pixelgait.sim.batched.controller import stacked
        from pixelgait.sim.batched.episodes import run_batch
        from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch  # MuJoCo may not be installed
        from pixelgait.sim.batched.tasks import batch_of

        candidates = [self._policy(job.weights, job.normaliser)[1] for job in jobs]
        rows = [(i, seed) for i, job in enumerate(jobs) for seed in job.seeds]
        seeds = [seed for _, seed in rows]
        if len(rows) not in self._batches:
            self._batches[len(rows)] = MuJoCoBatch(self.spec, len(rows))
        low_levels = stacked([candidates[i] for i, _ in rows])
        ran = run_batch(low_levels, self._batches[len(rows)], batch_of(self.task, seeds), seeds)
        episodes: list[list[Episode]] = [[] for _ in jobs]
        for (i, seed), episode in zip(rows, ran, strict=True):
            episodes[i] += [episode] if episode else self._run_alone(replace(jobs[i], seeds=[seed]))
        return episodes

    def _run_alone(self, job: Job) -> list[Episode]:
        """One robot after the other."""
        controller = self.controller(job.weights, job.normaliser)
        return [
            run_episode(controller, self.body(job.difficulty, seed), self.task, seed)
            for seed in job.seeds
        ]

    def controller(self, weights: Array, normaliser: Normaliser) -> Controller:
        """Of a robot with legs: both levels and the supervisor."""
        return Controller(*self._policy(weights, normaliser), Supervisor(self.spec))

    def close(self) -> None:
        for body in self._bodies.values():
            body.close()
        for glider in self._gliders.values():
            glider.close()

    def _glide(self, job: Job) -> list[Episode]:
        """One episode per seed of a high level without legs below it."""
        assert self.high_level is not None
        body = self.glider(job.difficulty)
        set_weights(self.high_level, job.weights)
        return [glide_episode(self.high_level.decide, body, self.task, seed) for seed in job.seeds]

    def _policy(
        self, weights: Array, normaliser: Normaliser
    ) -> tuple[HighLevelFunction, LinearLowLevel]:
        if self.plan.low_level is not None:
            low_level = LinearLowLevel(self.spec, *self.plan.low_level)
        else:
            low_level = searched_low_level(self.spec, weights, normaliser, self.plan.mirror)
        if self.high_level is not None:
            set_weights(self.high_level, weights[: weights.size - self.plan.low_level_weights])
            return self.high_level.decide, low_level
        if isinstance(self.task, Follow):
            return self.task.command, low_level
        return lambda *_: Decision(AHEAD, self.task.steps), low_level


_worker: RolloutWorker


def start_worker(plan: Plan) -> None:
    """Prepare this process (initialiser of the pool)."""
    global _worker
    _worker = RolloutWorker(plan)


def this_worker() -> RolloutWorker:
    """The worker of this process."""
    return _worker


def run_jobs(jobs: Sequence[Job]) -> list[list[Episode]]:
    """Episodes of some candidates, in a worker process."""
    return _worker.run_all(jobs)


def evaluate(pool: Pool, plan: Plan, jobs: Sequence[Job], label: str) -> list[list[Episode]]:
    """Episodes of all candidates; where many robots are stepped at once, every worker has its
    share of them, which makes no difference to the episodes.
    """
    from tqdm import tqdm

    size = min(MOST_AT_ONCE, math.ceil(len(jobs) / pool.capacity)) if plan.batched else 1
    shares = [jobs[i : i + size] for i in range(0, len(jobs), size)]
    found: list[list[Episode]] = []
    total = sum(len(job.seeds) for job in jobs)
    with tqdm(desc=label, total=total, unit="episode", leave=False, disable=None) as bar:
        for share in pool.imap(run_jobs, shares):
            found += share
            bar.update(sum(map(len, share)))
    return found
