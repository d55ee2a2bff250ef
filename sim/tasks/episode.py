"""Episode loop of every rollout and evaluation: controller, body and task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pixelgait.robot.control.controller import (
    Controller,
    ControlResult,
    ScheduledDecision,
)
from pixelgait.robot.control.low_level import INPUT_SIZE, LATENT_SIZE, felt
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase, SimulatedBody
from pixelgait.sim.tasks.task import Task, fallen, progress_m

SAMPLE_STEPS = 10  # every tenth step is logged: path and observation statistics


@dataclass(slots=True)
class Contacts:
    """Contacts of trunk and legs with anything but the ground."""

    count: int = 0
    time_s: float = 0.0
    impulse_n_s: float = 0.0  # normal force over time; 0 for robots without mass
    _touching: bool = False

    def add(self, force_n: float | None) -> None:
        """Add a control step with the force of `RobotBase.touching`."""
        if force_n is not None:
            self.count += not self._touching
            self.time_s += CONTROL_DT_S
            self.impulse_n_s += force_n * CONTROL_DT_S
        self._touching = force_n is not None


@dataclass(frozen=True, slots=True)
class Episode:
    """Result of one episode."""

    seed: int
    success: bool | None  # reached the goal without a fall; None: the scene has no goal
    distance_m: float  # advance along x, or along the path to the goal position
    return_m: float
    fell: bool  # or was damped by the supervisor
    fault: str | None  # why the supervisor damped the robot
    images: int  # processed by the high level
    steps: int
    path: Array  # (n, 2) x, y [m]
    observations: Array  # (n, 20) inputs of the low level
    decisions: Array  # (images, 3) latent command (2), duration [control steps]
    metrics: dict[str, float]  # further figures of the task
    contacts: Contacts

    @property
    def collision_free_success(self) -> bool | None:
        """Whether the goal was reached without contacts; None: the scene has no goal."""
        return self.success and self.contacts.count == 0


class EpisodeLog:
    """Collects the result while an episode runs."""

    def __init__(self, body: RobotBase, command: int = LATENT_SIZE) -> None:
        """`command`: entries of a latent command."""
        self.body = body
        self._command, self._inputs = command, INPUT_SIZE - LATENT_SIZE + command
        self.steps = 0
        self._start_m = progress_m(body)
        self._return_m = 0.0
        self._contacts = Contacts()
        self._path: list[tuple[float, ...]] = []
        self._observations: list[Array] = []
        self._decisions: list[tuple[float, ...]] = []

    def before_step(self) -> bool:
        """Start a control step; return whether its observation shall be logged."""
        self.steps += 1
        sampled = self.steps % SAMPLE_STEPS == 1
        if sampled:
            self._path.append(self.body.pose()[0][:2])
        return sampled

    def observed(self, observation: Array) -> None:
        """Log the low level's inputs (20,), unless a faulty sensor makes them non-finite."""
        if np.isfinite(observation).all():
            self._observations.append(observation)

    def after_step(self, reward: float, result: ControlResult | ScheduledDecision) -> None:
        """Log a control step: reward, contacts, and the decision if it was taken now."""
        self._return_m += reward
        self._contacts.add(self.body.touching())
        decision = result.decision
        if decision and result.image:
            self._decisions.append((*decision.latent, decision.duration_steps))

    def episode(self, seed: int, task: Task, fell: bool, fault: str | None) -> Episode:
        """The result of an episode that is over."""
        self._path.append(self.body.pose()[0][:2])
        return Episode(
            seed=seed,
            success=task.succeeded() and not fell,
            distance_m=progress_m(self.body) - self._start_m,
            return_m=self._return_m,
            fell=fell,
            fault=fault,
            images=len(self._decisions),
            steps=self.steps,
            path=np.array(self._path),
            observations=np.array(self._observations).reshape(-1, self._inputs),
            decisions=np.array(self._decisions).reshape(-1, self._command + 1),
            metrics=task.metrics(fell),
            contacts=self._contacts,
        )


def run_episode(
    controller: Controller,
    body: SimulatedBody,
    task: Task,
    seed: int,
    watch: Callable[[int, ControlResult], None] | None = None,
    look_ahead: Callable[[Reading, Array], float] | None = None,
) -> Episode:
    """Run a controller on a body in the episode of a seed, until the task is over.

    Args:
        controller: both levels and the supervisor.
        body: the simulated robot in its scene.
        task: gives the reward, and ends the episode.
        seed: of everything that is drawn.
        watch: called after every control step with its number, from 1, and result.
        look_ahead: called before a control step with its reading and the latent command (2,) that
            was wanted in the last one: how far the way is free [m], see `SimulatedMap`.
    """
    reading = body.reset(seed)
    controller.reset()
    controller.go_to(body.scene.goal_position)
    task.reset(body, seed)
    log, over, decision = EpisodeLog(body, task.latent_size), False, None
    while not over and log.steps < task.steps:
        if log.before_step():
            latent = decision.latent if decision else np.zeros(task.latent_size)
            log.observed(felt(latent, reading, controller.phase))
        if look_ahead is not None:
            controller.free_m = look_ahead(reading, controller.wanted)
        result = controller.step(reading, body.ages())
        decision = result.decision
        body.apply(result.command)
        reading = body.read()
        reward, over = task.step(body)
        log.after_step(reward, result)
        if watch is not None:
            watch(log.steps, result)
    fault = controller.supervisor.fault
    episode = log.episode(seed, task, fell=fallen(body) or fault is not None, fault=fault)
    episode.metrics["limited_share"] = controller.limited_share
    return episode
