"""Test of a low level: ten seconds straight ahead, before and after its training."""

from __future__ import annotations

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Run
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Job, Worker
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED

STEPS = 1000
# Each with a push of its own at the start.
SEEDS = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + 10)


def straight_ahead(run: Run) -> str:
    """Two lines: distance [m] and falls at full speed ahead, with zero and with trained weights."""
    worker = Worker(Plan(task="walk", steps=STEPS, mirror=bool(run.config.get("mirror"))))
    best = run.load("best")
    candidates = {
        "zero weights": (np.zeros_like(best.weights), Normaliser.empty()),
        "trained": (best.weights, best.normaliser),
    }
    lines = []
    for label, (weights, normaliser) in candidates.items():
        episodes = worker.run(Job(weights, normaliser, SEEDS, STEPS))
        distance = [episode.distance_m for episode in episodes]
        falls = sum(episode.fell for episode in episodes)
        lines.append(
            f"{label:<13} 10 s straight ahead: {np.mean(distance):5.1f} m "
            f"({min(distance):.1f} to {max(distance):.1f}), falls {falls} of {len(episodes)}"
        )
    worker.close()
    return "\n".join(lines)
