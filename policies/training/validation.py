"""Figures of episodes, and validation: those on seeds that training never draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Job, run_job
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.pool import WorkerPool
from pixelgait.sim.world.seeds import VALIDATION

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Validation:
    """Episodes on the first validation seeds, at the plan's full difficulty."""

    pool: WorkerPool
    plan: Plan
    episodes: int
    steps: int

    def figures(self, weights: Array, normaliser: Normaliser) -> Figures:
        """Of weights (n,)."""
        difficulty = self.plan.difficulty
        seeds = VALIDATION[: self.episodes]
        jobs = [Job(weights, normaliser, [seed], self.steps, difficulty) for seed in seeds]
        ran: list[list[Episode]] = self.pool.map(run_job, jobs, "validation")
        return summary("validation", [episode for each in ran for episode in each])


def summary(group: str, episodes: Sequence[Episode]) -> Figures:
    """Mean figures of many episodes, named for TensorBoard."""
    decisions = np.concatenate([e.decisions for e in episodes])
    images = np.sum([e.images for e in episodes])
    figures = {
        "return": np.mean([e.return_m for e in episodes]),
        "distance": np.mean([e.distance_m for e in episodes]),
        "shortest": np.min([e.distance_m for e in episodes]),
        "falls": np.mean([e.fell for e in episodes]),
        "success": np.mean([e.success for e in episodes]),
        "images": np.mean([e.images for e in episodes]),
        "duration_steps": np.sum([e.steps for e in episodes]) / images,
        "latent_speed": decisions[:, 0].mean(),
        "latent_turn": np.abs(decisions[:, 1]).mean(),
    }
    for name in episodes[0].metrics:
        figures[name] = np.mean([e.metrics[name] for e in episodes if name in e.metrics])
    return {f"{group}/{name}": float(value) for name, value in figures.items()}
