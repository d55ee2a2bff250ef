"""One episode: body, controller and task in the loop that every rollout and evaluation uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pixelgait.robot.controller import Controller
from pixelgait.robot.low_level import INPUT_SIZE, features
from pixelgait.robot.observation import imu_vector
from pixelgait.robot.spec import Array
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.tasks.task import Task, fallen, progress_m

SAMPLE_STEPS = 10  # every tenth step is kept: path and observation statistics


@dataclass(frozen=True, slots=True)
class Episode:
    """What came of one episode."""

    seed: int
    success: bool  # reached the goal on its feet; without a goal, kept on them to the end
    distance_m: float  # advance along x, or along the way to the scene's goal
    return_m: float
    fell: bool
    images: int  # frames the high level asked for
    steps: int
    path: Array  # (n, 2) x, y [m]
    observations: Array  # (n, 20) inputs of the low level
    decisions: Array  # (images, 3) latent command (2), duration [control steps]
    metrics: dict[str, float]  # what else the task measured


def trip_if_silent(supervisor: Supervisor, body: SimulatedBody) -> None:
    """Damp a robot whose sensors are silent for longer than it may wait."""
    for sensor, age in body.silent().items():
        supervisor.trip(f"the {sensor} sensor is silent for {age:.2f} s")


def run_episode(
    controller: Controller,
    body: SimulatedBody,
    task: Task,
    seed: int,
    watch: Callable[[int], None] | None = None,
) -> Episode:
    """Run the controller on the body until the task is over; `watch` is called every step."""
    reading = body.reset(seed)
    controller.reset()
    task.reset(body, seed)
    start = progress_m(body)
    total, step = 0.0, 0
    path, observations = [], []
    decisions: list[tuple[float, ...]] = []
    for step in range(1, task.steps + 1):
        if step % SAMPLE_STEPS == 1:
            path.append(body.pose()[0][:2])
            latent = controller.decision.latent if controller.decision else np.zeros(2)
            row = features(latent, imu_vector(reading), reading.joint_angles, controller.phase)
            if np.isfinite(row).all():  # a broken sensor must not spoil the statistics
                observations.append(row)
        body.apply(controller.step(reading))
        if controller.decision and controller.images > len(decisions):
            decisions.append((*controller.decision.latent, controller.decision.duration_steps))
        reading = body.read()
        trip_if_silent(controller.supervisor, body)
        reward, over = task.step(body, reading)
        total += reward
        if watch is not None:
            watch(step)
        if over:
            break
    x, y, _ = body.pose()[0]
    path.append((x, y))
    fell = fallen(body, reading) or controller.supervisor.fault is not None
    progress = progress_m(body)
    endless = math.isinf(body.scene.goal_m)
    arrived = step == task.steps if endless else progress > body.scene.goal_m
    return Episode(
        seed=seed,
        success=arrived and not fell,
        distance_m=progress - start,
        return_m=total,
        fell=fell,
        images=controller.images,
        steps=step,
        path=np.array(path),
        observations=np.array(observations).reshape(-1, INPUT_SIZE),
        decisions=np.array(decisions),
        metrics=task.metrics(),
    )
