"""What a larger low level would gain: the shipped one, fine-tuned with and without more weights.

A hidden layer is added to the linear one, zero at first, and searched together with it; mirrored as
the linear one is. python -m pixelgait.export.reports.larger_low_level HIDDEN ITERATIONS SEED
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.mirror import mirrored_inputs, mirrored_outputs
from pixelgait.policies.runs import load_checkpoint
from pixelgait.policies.training.evolution import exploration_scale
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Job
from pixelgait.policies.training.strategies import ESConfig, make_strategy, training_seeds
from pixelgait.robot.controller import Controller
from pixelgait.robot.low_level import (
    INPUT_SIZE,
    LOW_LEVEL_WEIGHTS,
    OUTPUT_SIZE,
    LinearLowLevel,
    act,
    features,
)
from pixelgait.robot.spec import A1, Array
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.pool import WorkerPool
from pixelgait.sim.world.seeds import VALIDATION

START = load_checkpoint(Path("policies/pretrained/walk/low_level/best.npz"))
SEARCH = ESConfig(directions=16, top=8, noise=0.012, step=0.015, decay=0.97, courses=3)
STEPS = 400
_bodies: dict[str, SimulatedBody] = {}


@dataclass(frozen=True, slots=True)
class LargerLowLevel:
    """Linear, plus V tanh(U z + u) and its mirror image, z being inputs less their mean."""

    linear: LinearLowLevel
    first: Array  # U, u: (H, 21)
    second: Array  # V: (19, H)

    def __call__(
        self, latent: Array, imu: Array, joint_angles: Array, phase: Array
    ) -> tuple[Array, Array]:
        x = features(latent, imu, joint_angles, phase)
        matrix, shift = mirrored_inputs(A1)
        hidden = self._hidden(x) + mirrored_outputs() @ self._hidden(matrix @ x + shift)
        action = np.clip(self.linear.matrix @ x + self.linear.bias + hidden, -1.0, 1.0)
        return act(A1, latent, action, phase)

    def _hidden(self, x: Array) -> Array:
        deviation = np.maximum(np.sqrt(START.normaliser.squares / START.normaliser.count), 0.3)
        z = np.append((x - START.normaliser.mean) / deviation, 1.0)
        return np.asarray(self.second @ np.tanh(self.first @ z))


def low_level(weights: Array) -> LinearLowLevel | LargerLowLevel:
    """Of H inner weights and biases each (H, 21), outer weights (19, H), and the linear 399."""
    linear = searched_low_level(weights[-LOW_LEVEL_WEIGHTS:], START.normaliser, mirror=True)
    more = weights[:-LOW_LEVEL_WEIGHTS]
    if not more.size:
        return linear
    hidden = more.size // (INPUT_SIZE + 1 + OUTPUT_SIZE)
    first, second = np.split(more, [hidden * (INPUT_SIZE + 1)])
    return LargerLowLevel(linear, first.reshape(hidden, -1), second.reshape(-1, hidden))


def start_worker() -> None:
    """Prepare this process (initialiser of the pool)."""
    for name in ("flat", "rough"):
        scene, ranges = make_scene(name, 0.5), Randomisation()
        _bodies[name] = make_body("pybullet", A1, scene, randomisation=ranges)


def run_job(job: tuple[Job, str]) -> list[Episode]:
    """Episodes of one candidate, in a worker process."""
    (job_, scene), task = job, Follow(job[0].steps)
    controller = Controller(task.command, low_level(job_.weights), Supervisor(A1))
    return [run_episode(controller, _bodies[scene], task, seed) for seed in job_.seeds]


def figures(pool: WorkerPool, weights: Array, seeds: list[int], scene: str) -> str:
    """Of walks of 10 s on randomised robots, with pushes."""
    jobs = [(Job(weights, START.normaliser, [seed], 1000), scene) for seed in seeds]
    episodes = [episode for each in pool.map(run_job, jobs) for episode in each]
    speed, turn = (
        np.mean([e.metrics[name] for e in episodes]) for name in ("speed_error", "yaw_rate_error")
    )
    falls, gain = sum(e.fell for e in episodes), np.mean([e.return_m for e in episodes])
    return f"{scene}: return {gain:.3f}, falls {falls}, {speed:.3f} m/s, {turn:.3f} rad/s"


def main() -> None:
    """Search, and evaluate start and end on the seeds of evaluation."""
    hidden, iterations, seed = (int(word) for word in sys.argv[1:4])
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((hidden, INPUT_SIZE + 1)) / np.sqrt(INPUT_SIZE + 1)
    weights = np.concatenate([first.ravel(), np.zeros(OUTPUT_SIZE * hidden), START.weights])
    scale = exploration_scale(Plan(task="follow", steps=STEPS), weights.size)
    scale[: first.size] = 4.0  # inner weights are of another size than outer ones
    strategy = make_strategy(SEARCH, weights, scale, seed)
    with WorkerPool(2, start_worker) as pool:
        for iteration in range(1, iterations + 1):
            seeds, scene = training_seeds(SEARCH, seed, iteration), ("flat", "rough")[iteration % 2]
            jobs = [(Job(w, START.normaliser, seeds, STEPS), scene) for w in strategy.ask()]
            ran = pool.map(run_job, jobs)
            returns = np.array([np.mean([e.return_m for e in each]) for each in ran])
            strategy.tell(returns)
            print(iteration, scene, f"{returns.mean():.3f}", flush=True)
            if iteration % 5 == 0 or iteration == iterations:
                print(figures(pool, strategy.weights, list(VALIDATION[:24]), "flat"), flush=True)
        for name, found in (("start", weights), ("end", strategy.weights)):
            for scene in ("flat", "rough"):
                seeds = list(range(10_000, 10_100))
                print(hidden, seed, name, figures(pool, found, seeds, scene), flush=True)


if __name__ == "__main__":
    main()
