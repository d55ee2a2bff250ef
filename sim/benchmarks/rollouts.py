"""Benchmark of training rollouts against bare physics, and shares of their time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import NO_STOPWATCH, Controller, Decision, Stopwatch
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.batched.controller import stacked
from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
from pixelgait.sim.batched.tasks import FollowBatch, run_batch
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.body.legged_body import LeggedBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.world.scene import Scene

PARTS = ("physics", "motors", "sensors", "observe", "low_level", "safety", "task")


def rollout_rates(
    simulator: str, spec: RobotSpec, scene: Scene, steps: int, rounds: int, seed: int
) -> dict[str, Any]:
    """Rates [control steps/s] of processor time, their ratio, and each part's share of the time.

    Medians over rounds. A round runs once as in training and once with a stopwatch: the same
    motion, so the same physics.
    """
    body = make_body(simulator, spec, scene)
    assert isinstance(body, LeggedBody)
    rollouts, parts = [], []
    for _ in range(rounds):
        start = time.process_time()
        _rollout(body, steps, seed)
        rollouts.append(time.process_time() - start)
        parts.append(_parts(body, steps, seed))
    body.close()
    seconds = np.array(parts)  # (rounds, parts)
    shares = np.median(seconds / seconds.sum(axis=1, keepdims=True), axis=0).tolist()
    return {
        "rollout_steps_per_s": steps / float(np.median(rollouts)),
        "bare_steps_per_s": steps / float(np.median(seconds[:, 0])),
        "ratio": float(np.median(seconds[:, 0] / rollouts)),
        "shares": dict(zip(PARTS, shares, strict=True)),
    }


def batch_rates(spec: RobotSpec, robots: int, steps: int, rounds: int) -> dict[str, Any]:
    """As `rollout_rates`, for n ideal robots at once in MuJoCo on flat ground.

    Rates are control steps of one robot per second; a round has about `steps` of all robots. Bare
    physics is the engine's part of the time.
    """
    body = MuJoCoBatch(spec, robots)
    trots = stacked([LinearLowLevel.from_weights(spec, np.zeros(LOW_LEVEL_WEIGHTS))] * robots)
    advance, seeds, taken = body.advance, range(robots), max(1, steps // robots)
    rollouts, bare = [], []
    for _ in range(rounds):
        body.advance = timed = Timed(advance)  # type: ignore[method-assign, assignment]
        start = time.process_time()
        run_batch(trots, body, FollowBatch(seeds, Follow(taken)), seeds)
        rollouts.append(time.process_time() - start)
        bare.append(timed.seconds)
    done = taken * robots
    return {
        "rollout_steps_per_s": done / float(np.median(rollouts)),
        "bare_steps_per_s": done / float(np.median(bare)),
        "ratio": float(np.median(np.array(bare) / rollouts)),
    }


class Laps(Stopwatch):
    """Adds up the time [s] of every stage."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0

    def start(self) -> None:
        self._last = time.process_time()

    def lap(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] += now - self._last
        self._last = now


class Timed:
    """A function that adds up the time [s] it takes."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> None:
        start = time.process_time()
        self.function(*arguments)
        self.seconds += time.process_time() - start


def _rollout(
    body: SimulatedBody, steps: int, seed: int, stopwatch: Stopwatch = NO_STOPWATCH
) -> None:
    """Run the training loop of the follow task; after a fall the episode starts again."""
    spec, nothing = body.spec, np.zeros(LOW_LEVEL_WEIGHTS)  # trots on the spot
    low_level, task = LinearLowLevel.from_weights(spec, nothing), Follow(steps)
    trot = Decision(np.zeros(2), 800)
    controller = Controller(lambda *_: trot, low_level, Supervisor(spec), stopwatch)
    over = True
    for _ in range(steps):
        if over:
            reading = body.reset(seed)
            controller.reset()
            task.reset(body, seed)
        stopwatch.start()
        body.apply(controller.step(reading).command)
        stopwatch.lap("motors")
        reading = body.read()
        stopwatch.lap("sensors")
        _, over = task.step(body)
        stopwatch.lap("task")


def _parts(body: LeggedBody, steps: int, seed: int) -> list[float]:
    """Time [s] of each of the `PARTS` of a rollout."""
    laps, advance = Laps(), body.advance
    body.advance = timed = Timed(advance)  # type: ignore[method-assign]
    _rollout(body, steps, seed, laps)
    body.advance = advance  # type: ignore[method-assign]
    laps.seconds["physics"] = timed.seconds
    laps.seconds["motors"] -= timed.seconds  # the engine steps within `apply`
    return [laps.seconds[part] for part in PARTS]
