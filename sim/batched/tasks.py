"""Batched episodes and tasks of low levels: rewards and ends of n episodes, one per seed.

Rewards equal those of `Follow` and `Forward`, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.controller import velocity as velocity_of
from pixelgait.robot.control.low_level import features
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import Array
from pixelgait.sim.batched.controller import BatchController, BatchLowLevel, imu_vectors, up_z
from pixelgait.sim.batched.mujoco_batch import BatchReading, MuJoCoBatch
from pixelgait.sim.body.interface import JointLoads
from pixelgait.sim.tasks.episode import SAMPLE_STEPS, Contacts, Episode
from pixelgait.sim.tasks.follow import Climb, Follow
from pixelgait.sim.tasks.judging import ADVANCE_M
from pixelgait.sim.tasks.navigate import AHEAD, Forward
from pixelgait.sim.tasks.task import (
    FALLEN_HEIGHT_M,
    TIPPED_UP_Z,
    Task,
    drawn_push,
    in_base_frame,
)
from pixelgait.sim.world.seeds import Stream

Robots = NDArray[np.bool_]  # (n,) which of them


class BatchTask(Protocol):
    """Rewards n episodes; see `Task`."""

    steps: int

    def command(self) -> Decision:
        """The next latent commands (n, 2), in place of a high level."""

    def reset(self, body: MuJoCoBatch) -> None: ...

    def step(self, body: MuJoCoBatch) -> tuple[Array, Robots]:
        """Rewards (n,) of the control step just taken, and which episodes (n,) are over."""

    def metrics(self, robot: int) -> dict[str, float]:
        """Further figures of a robot's episode so far."""

    def succeeded(self, robot: int) -> bool | None:
        """See `Task.succeeded`."""


class FollowBatch:
    """`Follow` for n robots; each has its own episode clock."""

    def __init__(self, seeds: Sequence[int], task: Follow) -> None:
        self.task, self.steps, self.reward = task, task.steps, task.reward
        self.latents = np.zeros((len(seeds), len(task.latent)))
        self._wanted = np.zeros((3, len(seeds)))  # forward, left [m/s], yaw rates [rad/s]
        self._rngs = [Stream.TASK.rng(seed) for seed in seeds]

    def command(self) -> Decision:
        """The next commands (n, 2) or (n, 4)."""
        self.draw(range(len(self._rngs)))
        return Decision(self.latents.copy(), Follow.COMMAND_STEPS)

    def draw(self, robots: Iterable[int]) -> None:
        """Draw the next commands of these robots."""
        for robot in robots:
            self.latents[robot] = self.task.drawn(self._rngs[robot])
            self._wanted[:, robot] = velocity_of(self.latents[robot])

    def reset(self, body: MuJoCoBatch) -> None:
        self.clocks = np.zeros(body.robots, dtype=np.int64)  # control steps
        self._poses = _planar_poses(body)
        self._velocities = np.zeros_like(self._poses)
        self._loads = body.loads()
        self._errors, self._judged = np.zeros((3, body.robots)), np.zeros(body.robots, np.int64)

    def begin(self, robots: Sequence[int], seeds: Iterable[int], body: MuJoCoBatch) -> None:
        """Begin episodes with these seeds for some robots, which stand at the start."""
        for robot, seed in zip(robots, seeds, strict=True):
            self._rngs[robot] = Stream.TASK.rng(seed)
        self.clocks[robots] = self._judged[robots] = 0
        self._poses[robots] = _planar_poses(body)[robots]
        self._velocities[robots] = self._errors[:, robots] = 0.0
        now = body.loads()
        self._loads.foot_forces[robots] = now.foot_forces[robots]
        self._loads.foot_sinking[robots] = now.foot_sinking[robots]

    def step(self, body: MuJoCoBatch) -> tuple[Array, Robots]:
        self.clocks += body.staying
        poses = _planar_poses(body)
        velocities = _planar_velocities(self._poses, poses)
        self._poses = poses
        self._velocities += Follow.SMOOTHING * (velocities - self._velocities)
        forward, left, turn = self._velocities.T
        wanted = self._wanted
        off = forward - wanted[0], left - wanted[1], turn - wanted[2]
        settled = Follow.settled(self.clocks)
        self._errors[:, settled] += np.abs((off[0], off[2], off[1]))[:, settled]
        self._judged += settled
        self._push(body)
        ground = body.ground()
        heights = body.positions[:, 2] - np.nan_to_num(ground)
        posture = self.reward.posture(heights, body.orientations.T, body.spec, _exp)
        rewards = self.reward.per_second(off, posture, _exp) * CONTROL_DT_S - self._strain(
            body.loads()
        )
        return rewards, fallen(body, ground)

    def succeeded(self, robot: int) -> bool | None:
        """None: there is no goal."""
        return None

    def _push(self, body: MuJoCoBatch) -> None:
        """Push the robots whose push is due."""
        due = body.staying & (self.clocks % Follow.PUSH_STEPS == 0)
        pushes = np.zeros((body.robots, 3))
        for robot in np.flatnonzero(due).tolist():
            pushes[robot] = drawn_push(self.task.PUSH_M_PER_S, self._rngs[robot])
        if due.any():
            body.push(pushes)

    def _strain(self, loads: JointLoads) -> Array:
        """Costs (n,) of this control step in motor power and landing speed; see `Follow`."""
        torques, speeds = np.abs(loads.torques), np.abs(loads.speeds)
        power = np.array([own.dot(turning) for own, turning in zip(torques, speeds, strict=True)])
        strain = self.reward.power * power * CONTROL_DT_S
        landing: Robots = (loads.foot_forces > 0.0) & (self._loads.foot_forces <= 0.0)  # (n, 4)
        for robot in np.flatnonzero(landing.any(1)).tolist():
            before = self._loads.foot_sinking[robot, landing[robot]]
            strain[robot] += self.reward.impact_cost(before)
        self._loads = loads
        return np.asarray(strain)

    def metrics(self, robot: int) -> dict[str, float]:
        """See `Follow.metrics`."""
        return self.task.mean_errors(self._errors[:, robot], int(self._judged[robot]))


class ClimbBatch(FollowBatch):
    """`Climb` for n robots."""

    def reset(self, body: MuJoCoBatch) -> None:
        super().reset(body)
        self._passed = np.zeros(body.robots, dtype=bool)

    def step(self, body: MuJoCoBatch) -> tuple[Array, Robots]:
        rewards, fell = super().step(body)
        progress = [body.scene.progress_m(x, y) for x, y, _ in body.positions.tolist()]
        self._passed |= np.array(progress) >= body.scene.goal_m
        return rewards, fell | self._passed

    def succeeded(self, robot: int) -> bool | None:
        """Whether a robot has reached the goal."""
        return bool(self._passed[robot])

    def metrics(self, robot: int) -> dict[str, float]:
        """See `Climb.metrics`."""
        return {}


class ForwardBatch:
    """`Forward` for n robots: straight ahead on flat ground, without a goal."""

    def __init__(self, seeds: Sequence[int], steps: int, stall_steps: float) -> None:
        self.steps, self.stall_steps = steps, stall_steps
        self._shoves = np.array([Forward.shove(seed) for seed in seeds])

    def command(self) -> Decision:
        """Straight ahead, (n, 2)."""
        return Decision(np.tile(AHEAD, (len(self._shoves), 1)), self.steps)

    def reset(self, body: MuJoCoBatch) -> None:
        self._progress = body.positions[:, 0]
        self._best = self._progress.copy()
        self._since_best = np.zeros(body.robots, dtype=np.int64)
        body.push(self._shoves)

    def step(self, body: MuJoCoBatch) -> tuple[Array, Robots]:
        progress, cap = body.positions[:, 0], Forward.CAP_M_PER_S * CONTROL_DT_S
        rewards = np.clip(progress - self._progress, -cap, cap)
        self._progress = progress
        better = progress > self._best + ADVANCE_M
        self._since_best = np.where(better, 0, self._since_best + 1)
        self._best = np.where(better, progress, self._best)
        return rewards, (self._since_best > self.stall_steps) | fallen(body)

    def metrics(self, robot: int) -> dict[str, float]:
        """None."""
        return {}

    def succeeded(self, robot: int) -> None:
        """None: there is no goal."""


def batch_of(task: Task, seeds: Sequence[int]) -> BatchTask:
    """The batched form of a task, with an episode for each seed."""
    if isinstance(task, Follow):
        return (ClimbBatch if isinstance(task, Climb) else FollowBatch)(seeds, task)
    assert isinstance(task, Forward)
    return ForwardBatch(seeds, task.steps, task.stall_steps)


def fallen(body: MuJoCoBatch, ground: Array | float = 0.0) -> Robots:
    """Which robots (n,) have fallen, on ground of these heights (n,); see `tasks.task.fallen`."""
    standing = body.positions[:, 2] - ground >= FALLEN_HEIGHT_M  # False where there is no ground
    return (up_z(body.orientations) < TIPPED_UP_Z) | ~standing


def _planar_poses(body: MuJoCoBatch) -> Array:
    """(n, 3): see `planar_pose`."""
    headings = [heading(orientation) for orientation in body.orientations.tolist()]
    return np.column_stack((body.positions[:, :2], headings))


def _planar_velocities(before: Array, after: Array) -> Array:
    """(n, 3): see `planar_velocity`."""
    cos, sin = _each(math.cos)(after[:, 2]), _each(math.sin)(after[:, 2])
    return np.column_stack(in_base_frame((after - before).T, cos, sin)) / CONTROL_DT_S


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Apply a scalar function to an array (n,): numpy's own may round differently."""
    return lambda values: np.array([function(value) for value in values.tolist()])


_exp: Any = _each(math.exp)


def run_batch(
    low_level: BatchLowLevel, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int]
) -> list[Episode | None]:
    """Run n episodes, one per seed; each equals that of `run_episode`, bit for bit.

    None for a robot with a suspect reading: its episode must be run individually.
    """
    controller = BatchController(task.command, low_level)
    reading = body.reset(seeds)
    task.reset(body)
    log = BatchLog(body, task, seeds, low_level.shape.command)
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

    def __init__(
        self, body: MuJoCoBatch, task: BatchTask, seeds: Sequence[int], command: int
    ) -> None:
        self.body, self.task, self.seeds = body, task, seeds
        self._width = command  # entries of a command
        self.episodes: list[Episode | None] = [None] * body.robots
        self._start_m = body.positions[:, 0]
        self._return_m = np.zeros(body.robots)
        self._steps = 0
        self._path: list[Array] = []  # (n, 2) each
        self._observations: list[Array] = []  # (n, 20)
        self._decisions: list[Array] = []  # (n, 3) or (n, 5)

    def sample(self, controller: BatchController, reading: BatchReading) -> None:
        """Record positions and the low levels' inputs under the last latent commands."""
        self._path.append(self.body.positions[:, :2])
        decision = controller.decision
        latent = decision.latent if decision else np.zeros((self.body.robots, self._width))
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
        if not (ended := np.flatnonzero(over & self.body.staying).tolist()):
            return
        limited = (controller.limited_steps / self._steps).tolist()
        fell = fallen(self.body, self.body.ground()).tolist()
        for robot in ended:
            self.episodes[robot] = self._episode(robot, fell[robot], limited[robot])

    def _episode(self, robot: int, fell: bool, limited_share: float) -> Episode:
        end = self.body.positions[robot]
        succeeded = self.task.succeeded(robot)
        path = [*(places[robot] for places in self._path), end[:2]]
        return Episode(
            seed=self.seeds[robot],
            success=succeeded and not fell,
            distance_m=float(end[0] - self._start_m[robot]),
            return_m=float(self._return_m[robot]),
            fell=fell,
            fault=None,
            images=len(self._decisions),
            steps=self._steps,
            path=np.array(path),
            observations=np.array([inputs[robot] for inputs in self._observations]),
            decisions=np.array([d[robot] for d in self._decisions]).reshape(-1, self._width + 1),
            metrics={**self.task.metrics(robot), "limited_share": limited_share},
            contacts=Contacts(),
        )
