"""The objective of walking, following and seeing: what episodes in simulation return."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.training.rollouts import Job, Plan, run_job
from pixelgait.policies.training.search import Figures
from pixelgait.policies.training.strategies import ESConfig, training_seeds
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.pool import WorkerPool

VALIDATION_SEED = 9000  # training draws below, evaluation starts at 10000
DIFFICULTY_STEP = 0.1  # workers keep one course per difficulty


class EpisodeReturns:
    """Judges candidates by episodes in worker processes; see `search.Objective`."""

    def __init__(
        self,
        pool: WorkerPool,
        plan: Plan,
        config: ESConfig,
        seed: int,
        curriculum: int,
        validation_episodes: int,
        validation_steps: int,
    ) -> None:
        self.pool, self.plan, self.config, self.seed, self.curriculum = (
            pool,
            plan,
            config,
            seed,
            curriculum,
        )
        self.validation_size = validation_episodes, validation_steps
        self.normaliser = Normaliser.empty()
        self._decisions: list[Array] = []

    def evaluate(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Mean return (n,) of each candidate over the iteration's courses, the same for all."""
        seeds = training_seeds(self.config, self.seed, iteration)
        difficulty = self.difficulty(iteration)
        jobs = [Job(trial, self.normaliser, seeds, self.plan.steps, difficulty) for trial in trials]
        episodes: list[list[Episode]] = self.pool.map(run_job, jobs)
        returns = np.array([np.mean([e.return_m for e in each]) for each in episodes])
        flat = [episode for each in episodes for episode in each]
        if self.plan.low_level_weights:
            for episode in flat:
                self.normaliser = self.normaliser.including(episode.observations)
        self._decisions += [episode.decisions for episode in flat]
        return returns, {**summary("train", flat), "train/difficulty": difficulty}

    def validate(self, weights: Array) -> Figures:
        """Figures on the validation seeds at the full difficulty."""
        return validation(self.pool, self.plan, weights, self.normaliser, *self.validation_size)

    def histograms(self) -> dict[str, Array]:
        """Latents and holds of all decisions since the last call."""
        decisions, self._decisions = np.concatenate(self._decisions), []
        names = ("latent_speed", "latent_turn", "hold_steps")
        return {f"decisions/{name}": decisions[:, i] for i, name in enumerate(names)}

    def difficulty(self, iteration: int) -> float:
        """Of the courses of an iteration: rises to the plan's within `curriculum` iterations."""
        share = min(1.0, iteration / self.curriculum) if self.curriculum else 1.0
        steps = np.floor(share * self.plan.difficulty / DIFFICULTY_STEP + 1e-9)
        return float(self.plan.difficulty if share == 1.0 else steps * DIFFICULTY_STEP)


def validation(
    pool: WorkerPool,
    plan: Plan,
    weights: Array,
    normaliser: Normaliser,
    episodes: int,
    steps: int,
) -> Figures:
    """Figures of weights on the first validation seeds, at the plan's difficulty."""
    seeds = range(VALIDATION_SEED, VALIDATION_SEED + episodes)
    jobs = [Job(weights, normaliser, [seed], steps, plan.difficulty) for seed in seeds]
    ran: list[list[Episode]] = pool.map(run_job, jobs)
    return summary("validation", [episode for each in ran for episode in each])


def summary(group: str, episodes: Sequence[Episode]) -> Figures:
    """Mean figures of many episodes, named for TensorBoard."""
    decisions = np.concatenate([e.decisions for e in episodes])
    figures = {
        "return": np.mean([e.return_m for e in episodes]),
        "distance": np.mean([e.distance_m for e in episodes]),
        "shortest": np.min([e.distance_m for e in episodes]),
        "falls": np.mean([e.fell for e in episodes]),
        "success": np.mean([e.success for e in episodes]),
        "images": np.mean([e.images for e in episodes]),
        "hold_steps": np.sum([e.steps for e in episodes]) / np.sum([e.images for e in episodes]),
        "latent_speed": decisions[:, 0].mean(),
        "latent_turn": np.abs(decisions[:, 1]).mean(),
    }
    for name in episodes[0].metrics:
        figures[name] = np.mean([e.metrics[name] for e in episodes if name in e.metrics])
    return {f"{group}/{name}": float(value) for name, value in figures.items()}
