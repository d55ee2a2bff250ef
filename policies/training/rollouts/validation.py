"""Figures of episodes: validation, on seeds that training never draws, and a first walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Run, find_run
from pixelgait.policies.runs.trained import body_of, robot_of, trained_low_level
from pixelgait.policies.training.rollouts.plan import Plan
from pixelgait.policies.training.rollouts.worker import Job, RolloutWorker, evaluate
from pixelgait.robot.bundle import shipped_low_level
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, VALIDATION

Figures = dict[str, float]
FIRST_WALK_STEPS = 1000
# Each with a push of its own at the start.
FIRST_WALKS = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + 10)


@dataclass(frozen=True, slots=True)
class Validation:
    """Episodes on the first validation seeds, at the plan's full difficulty."""

    pool: Pool
    plan: Plan
    episodes: int
    steps: int

    def figures(self, weights: Array, normaliser: Normaliser) -> Figures:
        """Of weights (n,)."""
        difficulty = self.plan.difficulty
        seeds = VALIDATION[: self.episodes]
        jobs = [Job(weights, normaliser, [seed], self.steps, difficulty) for seed in seeds]
        ran = evaluate(self.pool, self.plan, jobs, "validation")
        episodes = [episode for each in ran for episode in each]
        return summary("validation", episodes)


def summary(group: str, episodes: Sequence[Episode]) -> Figures:
    """Mean figures of many episodes, named for TensorBoard.

    A measure of the task is the mean over the episodes that have it, success over those with a
    goal.
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
    if len(decisions):  # who is damped at once has looked at nothing
        figures["duration_steps"] = np.sum([e.steps for e in episodes]) / images
        figures["latent_speed"] = decisions[:, 0].mean()
        figures["latent_turn"] = np.abs(decisions[:, 1]).mean()
    if told := [e for e in episodes if e.success is not None]:
        figures["success"] = np.mean([e.success for e in told])
        figures["collision_free"] = np.mean([e.collision_free_success for e in told])
        figures["contact_free"] = np.mean([e.contacts.count == 0 for e in told])
    for name in dict.fromkeys(name for e in episodes for name in e.metrics):
        figures[name] = np.mean([e.metrics[name] for e in episodes if name in e.metrics])
    return {f"{group}/{name}": float(value) for name, value in figures.items()}


def straight_ahead(run: Run) -> str:
    """Two lines: distance [m] and falls at full speed ahead, with zero and with trained weights.

    In ten walks, or in as many as the run was validated in, if those were fewer.
    """
    mirror = bool(run.config.get("mirror"))
    robot, body = robot_of(run.folder).name, body_of(run.folder)
    plan = Plan(task="walk", robot=robot, body=body, steps=FIRST_WALK_STEPS, mirror=mirror)
    worker = RolloutWorker(plan)
    walks = FIRST_WALKS[: int(run.config.get("validation_episodes", len(FIRST_WALKS)))]
    best = run.load("best")
    untrained = np.zeros_like(best.weights), Normaliser.empty()
    candidates = [  # without weights it trots on the spot, however it is pushed
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
    """Film the first validation episode of a run's best policy, of at most so many control steps.

    Whoever learned on gliding robots walks on the low level shipped for its robot.
    """
    from pixelgait.sim.viewing.video import record_video

    if plan.glides:
        low = trained_low_level(find_run(shipped_low_level(plan.robot), "low_level"))
        plan = replace(plan, task="course", low_level=(low.matrix, low.bias))
    worker, seed, best = RolloutWorker(plan), VALIDATION[0], run.load("best")
    worker.task.steps = steps
    controller = worker.controller(best.weights, best.normaliser)
    body = worker.body(plan.difficulty, seed)
    (episode,) = record_video(controller, body, worker.task, [seed], path)
    worker.close()
    return episode
