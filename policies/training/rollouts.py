"""Rollouts: workers run episodes of candidate weights; validation, first walk and film.

Validation episodes have seeds that training never draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from pixelgait.policies.high_level import make_high_level, set_weights
from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Run, find_run, robot_name_of
from pixelgait.policies.runs.trained import body_of, trained_low_level
from pixelgait.policies.training.plan import Plan
from pixelgait.robot.bundle import shipped_low_level
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.controller import HighLevel as HighLevelFunction
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.control.policy_map import PolicyMap
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.scenes.uneven_ground import Kerb
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.follow import Climb, Follow
from pixelgait.sim.tasks.gliding import Glide, HighLevels, Look, glide_episodes
from pixelgait.sim.tasks.navigate import AHEAD, navigation_task
from pixelgait.sim.tasks.task import Task
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.map_kernels import spread
from pixelgait.sim.world.scene import Mesh, Scene
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, VALIDATION

if TYPE_CHECKING:
    from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
    from pixelgait.sim.engines.mujoco_body import MuJoCoBody

Figures = dict[str, float]
Progress = Callable[[float], object]  # is called with the share done of an iteration
Result = TypeVar("Result")
MOST_AT_ONCE = 64  # candidates in a batch: more gain nothing, and a worker that dies loses them
GLIDING_AT_ONCE = 20  # robots that decide together, where there are no meshes; assumption
FIRST_WALK_STEPS = 1000
# Each has its own push at the start.
FIRST_WALKS = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + 10)


@dataclass(frozen=True, slots=True)
class Job:
    """A candidate and the episodes that evaluate it."""

    weights: Array
    normaliser: Normaliser
    seeds: Sequence[int]
    steps: int
    difficulty: float = 0.5


class RolloutWorker:
    """Runs episodes in one process: bodies, a task, and networks for candidates' weights."""

    def __init__(self, plan: Plan) -> None:
        torch.set_num_threads(1)
        self.plan, self.spec = plan, plan.spec
        self.task: Task = Follow(plan.steps, plan.reward, plan.omni)
        self.climb = Climb(plan.steps, plan.reward, plan.omni)  # of the episodes over a kerb
        if plan.task != "follow":
            scene = self._scene(plan.difficulty) if plan.sees else FlatGround()
            self.task = navigation_task(scene, plan.steps, plan.contact_cost)
        self.high_level = make_high_level(plan.high_level, 0) if plan.high_level else None
        high = self.high_level
        self.camera = None
        if high:
            self.camera = camera_for(self.spec.camera, high.camera_shape, plan.sampling)
        self._bodies: dict[tuple[str, float], SimulatedBody] = {}
        self._gliders: dict[float, list[KinematicBody]] = {}
        self._batches: dict[tuple[int, float], MuJoCoBatch] = {}  # robots, height of the kerb
        self._randomised: dict[float, list[MuJoCoBody]] = {}  # of batches, by the kerb's height

    def body(self, difficulty: float, seed: int) -> SimulatedBody:
        """The robot in the scene of a difficulty, in the simulator of a seed; made once."""
        plan, simulator = self.plan, self.plan.simulator(seed)
        key = simulator, difficulty if plan.sees or plan.climbs(seed) else -1.0
        if key not in self._bodies:
            scene = self._scene(difficulty) if plan.sees else self._open_ground(key[1])
            self._bodies[key] = make_body(
                simulator,
                self.spec,
                scene,
                camera=self.camera,
                randomisation=plan.randomisation,
                faults=plan.faults,
            )
        return self._bodies[key]

    def gliders(self, difficulty: float, count: int) -> list[KinematicBody]:
        """Gliding robots, each in a scene of its own of this difficulty, made once."""
        bodies = self._gliders.setdefault(difficulty, [])
        while len(bodies) < count:
            scene, ranges = self._scene(difficulty), self.plan.randomisation
            bodies.append(KinematicBody(self.spec, scene, camera=self.camera, randomisation=ranges))
        return bodies[:count]

    def _scene(self, difficulty: float) -> Scene:
        plan = self.plan
        return make_scene(plan.scene, difficulty, plan.appearance)

    def _open_ground(self, difficulty: float) -> Scene:
        """Flat ground, or with a kerb where there is a difficulty from 0."""
        return FlatGround() if difficulty < 0.0 else Kerb(difficulty)

    def run(self, job: Job) -> list[Episode]:
        """One episode per seed."""
        return self.run_all([job])[0]

    def run_all(self, jobs: Sequence[Job]) -> list[list[Episode]]:
        """Episodes of many candidates; all last as long as those of the first."""
        self.task.steps = self.climb.steps = jobs[0].steps
        if self.plan.batched:
            return self._run_at_once(jobs)
        return [self._glide(job) if self.plan.glides else self._run_alone(job) for job in jobs]

    def _run_at_once(self, jobs: Sequence[Job]) -> list[list[Episode]]:
        """All robots of all candidates in one batch; a suspect episode is repeated alone."""
        from pixelgait.sim.batched.controller import stacked
        from pixelgait.sim.batched.tasks import batch_of, run_batch

        candidates = [self._policy(job.weights, job.normaliser)[1] for job in jobs]
        pairs = [(i, seed) for i, job in enumerate(jobs) for seed in job.seeds]
        found: dict[tuple[int, int], Episode] = {}
        for climbs in (False, True):
            rows = [pair for pair in pairs if self.plan.climbs(pair[1]) == climbs]
            if not rows:
                continue
            key = len(rows), jobs[0].difficulty if climbs else -1.0
            if key not in self._batches:
                self._batches[key] = self._batch(*key)
            seeds = [seed for _, seed in rows]
            low_levels = stacked([candidates[i] for i, _ in rows])
            task = batch_of(self._task_of(rows[0][1]), seeds)
            ran = run_batch(low_levels, self._batches[key], task, seeds)
            for (i, seed), episode in zip(rows, ran, strict=True):
                alone = replace(jobs[i], seeds=[seed])
                found[i, seed] = episode or self._run_alone(alone)[0]
        return [[found[i, seed] for seed in job.seeds] for i, job in enumerate(jobs)]

    def _batch(self, robots: int, difficulty: float) -> MuJoCoBatch:
        """Robots to step at once; randomised ones have models of their own, compiled once."""
        from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch  # MuJoCo may not be installed
        from pixelgait.sim.batched.randomised_batch import RandomisedBatch
        from pixelgait.sim.engines.mujoco_body import MuJoCoBody

        ground, ranges = self._open_ground(difficulty), self.plan.randomisation
        if ranges is None:
            return MuJoCoBatch(self.spec, robots, ground)
        bodies = self._randomised.setdefault(difficulty, [])
        while len(bodies) < robots:
            body = MuJoCoBody(self.spec, ground, randomisation=ranges, foot_sensors=True)
            bodies.append(body)
        return RandomisedBatch(bodies[:robots])

    def _run_alone(self, job: Job) -> list[Episode]:
        """One robot after the other."""
        controller = self.controller(job.weights, job.normaliser)
        return [self._episode(controller, job.difficulty, seed) for seed in job.seeds]

    def _episode(self, controller: Controller, difficulty: float, seed: int) -> Episode:
        task = self._task_of(seed)
        if self.plan.omni:
            controller.high_level = task.command  # type: ignore[attr-defined]
        return run_episode(controller, self.body(difficulty, seed), task, seed)

    def _task_of(self, seed: int) -> Task:
        """The task of an episode: the plan's, or a climb over a kerb."""
        return self.climb if self.plan.climbs(seed) else self.task

    def controller(self, weights: Array, normaliser: Normaliser) -> Controller:
        """The controller of a robot with legs: both levels and the supervisor."""
        levels = self._policy(weights, normaliser)
        return Controller(*levels, Supervisor(self.spec), around=self._map())

    def close(self) -> None:
        for body in self._bodies.values():
            body.close()
        for glider in chain(*self._gliders.values()):
            glider.close()

    def _glide(self, job: Job) -> list[Episode]:
        """One episode per seed of a high level without a low level."""
        assert self.high_level is not None
        set_weights(self.high_level, job.weights)
        return [
            episode
            for seeds in gliding_together(self.plan, job.seeds)
            for episode in self.glide(self.decide, seeds, job.difficulty, job.steps)
        ]

    def decide(self, looks: Sequence[Look]) -> Sequence[Decision]:
        """Decisions of the high level for robots that are due."""
        assert self.high_level is not None
        images, goals = (
            np.stack([each.image for each in looks]),
            np.stack([each.goal for each in looks]),
        )
        return self.high_level.decide_all(images, goals, [each.state for each in looks])

    def glide(
        self,
        high_levels: HighLevels,
        seeds: Sequence[int],
        difficulty: float,
        steps: int,
        stall_steps: float | None = None,
    ) -> list[Episode]:
        """Episodes of gliding robots, all at once; None: they may stall as long as the task lets.

        The number of seeds is part of an episode: rounding may depend on it.
        """
        glides: list[Glide] = []
        for body, seed in zip(self.gliders(difficulty, len(seeds)), seeds, strict=True):
            task = navigation_task(body.scene, steps, self.plan.contact_cost)
            task.stall_steps = task.stall_steps if stall_steps is None else stall_steps
            glides.append(Glide(len(glides), body, task, seed, self._map()))
        return glide_episodes(high_levels, glides)

    def _map(self) -> PolicyMap | None:
        """A map of a robot whose high level sees one."""
        return None if self.high_level is None else self.high_level.map(self.spec, spread)

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
    """Initialiser of the pool's processes."""
    global _worker
    _worker = RolloutWorker(plan)


def this_worker() -> RolloutWorker:
    """The worker of this process."""
    return _worker


def run_jobs(jobs: Sequence[Job]) -> list[list[Episode]]:
    """Episodes of some candidates, in a worker process."""
    return _worker.run_all(jobs)


def counted(
    results: Iterable[Result], total: int, progress: Progress, begin: float, end: float
) -> Iterator[Result]:
    """The results, with the progress of each between the shares `begin` and `end`."""
    for i, result in enumerate(results, 1):
        progress(begin + (end - begin) * i / total)
        yield result


def shares(items: Sequence[Result], size: int) -> list[Sequence[Result]]:
    """The items in order, `size` at a time."""
    return [items[i : i + size] for i in range(0, len(items), size)]


def gliding_together(plan: Plan, seeds: Sequence[int]) -> list[Sequence[int]]:
    """The seeds in order, in groups of robots that decide together.

    Where there are meshes each robot is alone: a copy of a house takes 1 kB for every triangle.
    """
    return shares(seeds, 1 if _has_meshes(plan.scene, plan.difficulty) else GLIDING_AT_ONCE)


@cache
def _has_meshes(scene: str, difficulty: float) -> bool:
    return any(isinstance(shape, Mesh) for shape in make_scene(scene, difficulty).fixed)


def evaluate(
    pool: Pool, plan: Plan, jobs: Sequence[Job], label: str, progress: Progress | None = None
) -> list[list[Episode]]:
    """Episodes of all candidates, in shares for workers that step many robots at once.

    The shares make no difference to the episodes.
    """
    from tqdm import tqdm

    size = min(MOST_AT_ONCE, math.ceil(len(jobs) / pool.capacity)) if plan.batched else 1
    found: list[list[Episode]] = []
    total = sum(len(job.seeds) for job in jobs)
    with tqdm(desc=label, total=total, unit="episode", leave=False, disable=None) as bar:
        for share in pool.imap(run_jobs, shares(jobs, size)):
            found += share
            bar.update(sum(map(len, share)))
            if progress is not None:
                progress(bar.n / total)
    return found


@dataclass(frozen=True, slots=True)
class Validation:
    """Episodes on the first validation seeds, at the plan's full difficulty."""

    pool: Pool
    plan: Plan
    episodes: int
    steps: int

    def figures(self, weights: Array, normaliser: Normaliser) -> Figures:
        """Figures of weights (n,)."""
        difficulty = self.plan.difficulty
        seeds = VALIDATION[: self.episodes]
        groups = gliding_together(self.plan, seeds) if self.plan.glides else shares(seeds, 1)
        jobs = [Job(weights, normaliser, group, self.steps, difficulty) for group in groups]
        ran = evaluate(self.pool, self.plan, jobs, "validation")
        episodes = [episode for each in ran for episode in each]
        return summary("validation", episodes)


def summary(group: str, episodes: Sequence[Episode]) -> Figures:
    """Mean figures of many episodes, named for TensorBoard.

    A task's own metric is the mean over the episodes that have it, success over those with a goal.
    """
    decisions = np.concatenate([e.decisions for e in episodes])
    images = np.sum([e.images for e in episodes])
    figures = {
        "return": np.mean([e.return_m for e in episodes]),
        "distance": np.mean([e.distance_m for e in episodes]),
        "shortest": np.min([e.distance_m for e in episodes]),
        "falls": np.mean([e.fell for e in episodes]),
        "images": np.mean([e.images for e in episodes]),
    }
    if len(decisions):  # none where the robot was damped at once
        figures["duration_steps"] = np.sum([e.steps for e in episodes]) / images
        figures["latent_speed"] = decisions[:, 0].mean()
        figures["latent_turn"] = np.abs(decisions[:, 1]).mean()
    if navigated := [e for e in episodes if e.success is not None]:
        figures["success"] = np.mean([e.success for e in navigated])
        figures["collision_free"] = np.mean([e.collision_free_success for e in navigated])
        figures["contact_free"] = np.mean([e.contacts.count == 0 for e in navigated])
    for name in dict.fromkeys(name for e in episodes for name in e.metrics):
        figures[name] = np.mean([e.metrics[name] for e in episodes if name in e.metrics])
    return {f"{group}/{name}": float(value) for name, value in figures.items()}


def straight_ahead(run: Run) -> str:
    """Two lines: distance [m] and falls at full speed ahead, with zero and with trained weights.

    Ten walks, or as many as the run's validation episodes if those are fewer.
    """
    mirror = bool(run.config.get("mirror"))
    robot, body = robot_name_of(run.folder), body_of(run.folder)
    plan = Plan(task="walk", robot=robot, body=body, steps=FIRST_WALK_STEPS, mirror=mirror)
    worker = RolloutWorker(plan)
    walks = FIRST_WALKS[: int(run.config.get("validation_episodes", len(FIRST_WALKS)))]
    best = run.load("best")
    untrained = np.zeros_like(best.weights), Normaliser.empty()
    candidates = [  # with zero weights the robot trots on the spot, however it is pushed
        ("zero weights", *untrained, walks[:1]),
        ("trained", best.weights, best.normaliser, walks),
    ]
    lines, seconds = [], FIRST_WALK_STEPS * CONTROL_DT_S
    for label, weights, normaliser, seeds in candidates:
        episodes = worker.run(Job(weights, normaliser, seeds, FIRST_WALK_STEPS))
        distance = [episode.distance_m for episode in episodes]
        falls = sum(episode.fell for episode in episodes)
        lines.append(
            f"{label:<13} {seconds:.0f} s straight ahead: {np.mean(distance):5.1f} m "
            f"({min(distance):.1f} to {max(distance):.1f}), falls {falls} of {len(episodes)}"
        )
    worker.close()
    return "\n".join(lines)


def film_best(run: Run, plan: Plan, steps: int, path: Path) -> Episode:
    """Film the first validation episode of a run's best policy, of at most `steps` control steps.

    A policy trained on gliding robots walks on the low level shipped for its robot.
    """
    from pixelgait.sim.viewing.video import record_video

    if plan.glides:
        low = trained_low_level(find_run(shipped_low_level(plan.spec.name), "low_level"))
        plan = replace(plan, task="course", low_level=(low.matrix, low.bias))
    worker, seed, best = RolloutWorker(plan), VALIDATION[0], run.load("best")
    worker.task.steps = steps
    controller = worker.controller(best.weights, best.normaliser)
    body = worker.body(plan.difficulty, seed)
    (episode,) = record_video(controller, body, worker.task, [seed], path)
    worker.close()
    return episode
