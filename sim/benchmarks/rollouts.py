"""How fast training's rollouts are, against the physics in them."""

from __future__ import annotations

import time

import numpy as np

from pixelgait.robot.controller import Controller, Decision
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.spec import RobotSpec
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.world.scene import Scene


def rollout_rates(
    spec: RobotSpec, scene: Scene, steps: int, rounds: int, seed: int
) -> dict[str, float]:
    """Rates [control steps/s] and their ratio, medians over rounds of so many steps."""
    body = TimedBody(spec, scene)
    rows = []
    for _ in range(rounds):
        commands, rollout_s = _rollout(body, steps, seed)
        rows.append((rollout_s, _bare_seconds(body, commands, seed)))
    body.close()
    rollout_s, bare_s = np.median(rows, axis=0)
    return {
        "rollout_steps_per_s": steps / rollout_s,
        "bare_steps_per_s": steps / bare_s,
        "ratio": float(np.median([bare / rollout for rollout, bare in rows])),
    }


class TimedBody(PyBulletBody):
    """Counts the time that PyBullet's own steps take."""

    physics_s = 0.0

    def advance(self) -> None:
        """One physics step."""
        start = time.perf_counter()
        super().advance()
        self.physics_s += time.perf_counter() - start


def _rollout(body: PyBulletBody, steps: int, seed: int) -> tuple[list[JointCommand], float]:
    """The whole loop of training; returns its commands and its time [s]."""
    spec, nothing = body.spec, np.zeros(LOW_LEVEL_WEIGHTS)  # trots on the spot
    low_level = LinearLowLevel.from_weights(spec, nothing)
    controller = Controller(lambda *_: Decision(np.zeros(2), 800), low_level, Supervisor(spec))
    commands = []
    reading = body.reset(seed)
    start = time.perf_counter()
    for _ in range(steps):
        command = controller.step(reading)
        commands.append(command)
        body.apply(command)
        reading = body.read()
    return commands, time.perf_counter() - start


def _bare_seconds(body: TimedBody, commands: list[JointCommand], seed: int) -> float:
    """Time [s] inside stepSimulation alone, while the same motion happens again."""
    body.reset(seed)
    body.physics_s = 0.0
    for command in commands:
        body.apply(command)
    return body.physics_s
