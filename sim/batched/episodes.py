"""Batched episodes: `run_episode` for n robots at once, a low level for each robot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pixelgait.robot.control.low_level import LATENT_SIZE, features
from pixelgait.robot.spec import Array
from pixelgait.sim.batched.controller import BatchController, BatchLowLevel, imu_vectors
from pixelgait.sim.batched.mujoco_batch import BatchReading, MuJoCoBatch
from pixelgait.sim.batched.tasks import BatchTask, Robots
from pixelgait.sim.tasks.episode import SAMPLE_STEPS, Contacts, Episode
from pixelgait.sim.tasks.task import off_its_feet


def run_batch(
    low_level: BatchLowLevel, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int]
) -> list[Episode | None]:
    """Run n episodes, one per seed; each equals that of `run_episode`, bit for bit.

    None for a robot with a suspect reading: its episode must be run individually.
    """
    controller = BatchController(task.command, low_level)
    reading = body.reset()
    task.reset(body)
    log = BatchLog(body, task, seeds)
    for step in range(1, task.steps + 1):
        if step % SAMPLE_STEPS == 1:
            log.sample(controller, reading)
        targets = controller.step(reading)
        body.leave(controller.supervisor.flagged)
        body.apply(targets)
        reading = body.read()
        rewards, over = task.step(body)
        log.after_step(controller, rewards, over | (step == task.steps))
        body.leave(over)
        if not body.staying.any():
            break
    return log.episodes


class BatchLog:
    """Records n episodes while they run; `episodes` (n) holds those that are over."""

    def __init__(self, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int]) -> None:
        self.body, self.task, self.seeds = body, task, seeds
        self.episodes: list[Episode | None] = [None] * body.robots
        self._start_m = body.positions[:, 0]
        self._return_m = np.zeros(body.robots)
        self._steps = 0
        self._path: list[Array] = []  # (n, 2) each
        self._observations: list[Array] = []  # (n, 20)
        self._decisions: list[Array] = []  # (n, 3)

    def sample(self, controller: BatchController, reading: BatchReading) -> None:
        """Record positions and the low levels' inputs under the last latent commands."""
        self._path.append(self.body.positions[:, :2])
        decision = controller.decision
        latent = decision.latent if decision else np.zeros((self.body.robots, LATENT_SIZE))
        inputs = (latent, imu_vectors(reading), reading.joint_angles, controller.phase)
        self._observations.append(np.asarray(features(*inputs)))

    def after_step(self, controller: BatchController, rewards: Array, over: Robots) -> None:
        """Record a step that is over; `over` (n,) marks the episodes that end with it."""
        self._steps += 1
        self._return_m += rewards
        decision = controller.decision
        if decision and controller.decisions > len(self._decisions):
            duration = np.full((self.body.robots, 1), decision.duration_steps)
            self._decisions.append(np.hstack((decision.latent, duration)))
        for robot in np.flatnonzero(over & self.body.staying).tolist():
            self.episodes[robot] = self._episode(robot)

    def _episode(self, robot: int) -> Episode:
        end = self.body.positions[robot]
        fell = off_its_feet(end[2], self.body.orientations[robot].tolist())
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
