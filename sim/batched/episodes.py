"""n episodes at once, each of a robot with a low level of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pixelgait.robot.control.low_level import LATENT_SIZE, LinearLowLevel, features
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.interface import Reading
from pixelgait.robot.spec import Array
from pixelgait.sim.batched.controller import BatchController
from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
from pixelgait.sim.batched.tasks import BatchTask, Who
from pixelgait.sim.tasks.episode import SAMPLE_STEPS, Contacts, Episode
from pixelgait.sim.tasks.task import off_its_feet


def run_batch(
    low_levels: LinearLowLevel, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int]
) -> list[Episode | None]:
    """Episodes of n robots, as `run_episode` has them one by one, to the last bit.

    None for who met anything odd: run that one alone.
    """
    controller = BatchController(task.command, low_levels)
    reading = body.reset()
    task.reset(body)
    log = BatchLog(body, task, seeds)
    for step in range(1, task.steps + 1):
        if step % SAMPLE_STEPS == 1:
            log.sample(controller, reading)
        command = controller.step(reading)
        body.leave(controller.supervisor.odd)
        body.apply(command)
        reading = body.read()
        rewards, over = task.step(body)
        log.after_step(controller, rewards, over | (step == task.steps))
        body.leave(over)
        if not body.staying.any():
            break
    return log.episodes


class BatchLog:
    """What is noted down while they run; `episodes` (n) are those that are over."""

    def __init__(self, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int]) -> None:
        self.body, self.task, self.seeds = body, task, seeds
        self.episodes: list[Episode | None] = [None] * body.robots
        self._start_m = body.positions[:, 0]
        self._return_m = np.zeros(body.robots)
        self._steps = 0
        self._path: list[Array] = []  # (n, 2) each
        self._observations: list[Array] = []  # (n, 20)
        self._decisions: list[Array] = []  # (n, 3)

    def sample(self, controller: BatchController, reading: Reading) -> None:
        """A step begins whose observation is kept: inputs under the last latent commands."""
        self._path.append(self.body.positions[:, :2])
        decision = controller.decision
        latent = decision.latent if decision else np.zeros((self.body.robots, LATENT_SIZE))
        inputs = (latent, imu_vector(reading), reading.joint_angles, controller.phase)
        self._observations.append(np.asarray(features(*inputs)))

    def after_step(self, controller: BatchController, rewards: Array, over: Who) -> None:
        """A step is over, and with it some (n,) of the episodes."""
        self._steps += 1
        self._return_m += rewards
        decision = controller.decision
        if decision and controller.images > len(self._decisions):
            duration = np.full((self.body.robots, 1), decision.duration_steps)
            self._decisions.append(np.hstack((decision.latent, duration)))
        for robot in np.flatnonzero(over & self.body.staying).tolist():
            self.episodes[robot] = self._episode(robot)

    def _episode(self, robot: int) -> Episode:
        """Of one that is over."""
        end = self.body.positions[robot]
        fell = bool(off_its_feet(end[2], self.body.orientations[robot]))
        path = [*(places[robot] for places in self._path), end[:2]]
        return Episode(
            seed=self.seeds[robot],
            success=None,
            distance_m=float(end[0] - self._start_m[robot]),
            return_m=float(self._return_m[robot]),
            fell=fell,
            fault=None,
            images=len(self._decisions),
            steps=self._steps,
            path=np.array(path),
            observations=np.array([inputs[robot] for inputs in self._observations]),
            decisions=np.array([d[robot] for d in self._decisions]).reshape(-1, LATENT_SIZE + 1),
            metrics=self.task.metrics(robot),
            contacts=Contacts(),
        )
