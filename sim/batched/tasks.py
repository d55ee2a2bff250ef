"""The tasks of low levels for n robots at once, each in the episode of a seed of its own.

They judge as `Follow` and `Forward` do, with the same formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.control.low_level import commanded
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import heading
from pixelgait.robot.spec import Array
from pixelgait.sim.batched.mujoco_batch import MuJoCoBatch
from pixelgait.sim.body.interface import JointLoads
from pixelgait.sim.tasks.follow import Follow, drawn_command
from pixelgait.sim.tasks.forward import AHEAD, Forward
from pixelgait.sim.tasks.task import Task, drawn_push, in_base_frame, off_its_feet
from pixelgait.sim.world.seeds import Stream

Who = NDArray[np.bool_]  # (n,)


class BatchTask(Protocol):
    """Rewards n episodes; see `Task`."""

    steps: int

    def command(self, *_: object) -> Decision:
        """The high level: latent commands (n, 2)."""

    def reset(self, body: MuJoCoBatch) -> None: ...

    def step(self, body: MuJoCoBatch) -> tuple[Array, Who]:
        """Rewards (n,) of the control step just taken, and whose episode is over."""

    def metrics(self, robot: int) -> dict[str, float]:
        """Further figures of a robot's episode, up to now."""


class FollowBatch:
    """`Follow`, n times, each by a clock of its own."""

    def __init__(self, seeds: Sequence[int], steps: int) -> None:
        self.steps = steps
        self.latents = np.zeros((len(seeds), 2))
        self._wanted = np.zeros((len(seeds), 2))  # the same, [m/s], [rad/s]
        self._rngs = [Stream.TASK.rng(seed) for seed in seeds]

    def command(self, *_: object) -> Decision:
        """The next commands (n, 2)."""
        self.draw(range(len(self._rngs)))
        return Decision(self.latents.copy(), Follow.COMMAND_STEPS)

    def draw(self, robots: Iterable[int]) -> None:
        """The next command of some of them."""
        for robot in robots:
            self.latents[robot] = drawn_command(self._rngs[robot])
            self._wanted[robot] = commanded(self.latents[robot])

    def reset(self, body: MuJoCoBatch) -> None:
        self.clocks = np.zeros(body.robots, dtype=np.int64)  # control steps
        self._poses = _planar_poses(body)
        self._velocities = np.zeros_like(self._poses)
        self._loads = body.loads()
        self._errors, self._judged = np.zeros((2, body.robots)), np.zeros(body.robots, np.int64)

    def begin(self, robots: Sequence[int], seeds: Iterable[int], body: MuJoCoBatch) -> None:
        """The episodes of other seeds for some of them, who stand at the start."""
        for robot, seed in zip(robots, seeds, strict=True):
            self._rngs[robot] = Stream.TASK.rng(seed)
        self.clocks[robots] = self._judged[robots] = 0
        self._poses[robots] = _planar_poses(body)[robots]
        self._velocities[robots] = self._errors[:, robots] = 0.0
        now = body.loads()
        self._loads.foot_forces[robots] = now.foot_forces[robots]
        self._loads.foot_sinking[robots] = now.foot_sinking[robots]

    def step(self, body: MuJoCoBatch) -> tuple[Array, Who]:
        self.clocks += body.staying
        poses = _planar_poses(body)
        velocities = _planar_velocities(self._poses, poses)
        self._poses = poses
        self._velocities += Follow.SMOOTHING * (velocities - self._velocities)
        forward, left, turn = self._velocities.T
        off = forward - self._wanted[:, 0], left, turn - self._wanted[:, 1]
        settled = Follow.settled(self.clocks)
        self._errors[:, settled] += np.abs((off[0], off[2]))[:, settled]
        self._judged += settled
        self._push(body)
        posture = Follow.posture(body.positions[:, 2], body.orientations.T, body.spec, _exp)
        rewards = Follow.reward(off, posture, _exp) * CONTROL_DT_S - self._strain(body.loads())
        return rewards, fallen(body)

    def _push(self, body: MuJoCoBatch) -> None:
        """Whose turn it is."""
        due = body.staying & (self.clocks % Follow.PUSH_STEPS == 0)
        pushes = np.zeros((body.robots, 3))
        for robot in np.flatnonzero(due).tolist():
            pushes[robot] = drawn_push(Follow.PUSH_M_PER_S, self._rngs[robot])
        if due.any():
            body.push(pushes)

    def _strain(self, loads: JointLoads) -> Array:
        """What this control step has cost motors and feet, (n,); see `Follow`."""
        torques, speeds = np.abs(loads.torques), np.abs(loads.speeds)
        power = np.array([own.dot(turning) for own, turning in zip(torques, speeds, strict=True)])
        strain = Follow.POWER_WEIGHT_PER_W * power * CONTROL_DT_S
        landing: Who = (loads.foot_forces > 0.0) & (self._loads.foot_forces <= 0.0)  # (n, 4)
        for robot in np.flatnonzero(landing.any(1)).tolist():
            before = self._loads.foot_sinking[robot, landing[robot]]
            strain[robot] += Follow.landing_loss(before)
        self._loads = loads
        return np.asarray(strain)

    def metrics(self, robot: int) -> dict[str, float]:
        """See `Follow.metrics`."""
        return Follow.mean_errors(self._errors[:, robot], int(self._judged[robot]))


class ForwardBatch:
    """`Forward` without end, n times: straight ahead on flat ground."""

    def __init__(self, seeds: Sequence[int], steps: int, stall_steps: float) -> None:
        self.steps, self.stall_steps = steps, stall_steps
        self._shoves = np.array([Forward.shove(seed) for seed in seeds])

    def command(self, *_: object) -> Decision:
        """Ahead, (n, 2)."""
        return Decision(np.tile(AHEAD, (len(self._shoves), 1)), self.steps)

    def reset(self, body: MuJoCoBatch) -> None:
        self._progress = body.positions[:, 0]
        self._best = self._progress.copy()
        self._since_best = np.zeros(body.robots, dtype=np.int64)
        body.push(self._shoves)

    def step(self, body: MuJoCoBatch) -> tuple[Array, Who]:
        progress, cap = body.positions[:, 0], Forward.CAP_M_PER_S * CONTROL_DT_S
        rewards = np.clip(progress - self._progress, -cap, cap)
        self._progress = progress
        better = progress > self._best + Forward.ADVANCE_M
        self._since_best = np.where(better, 0, self._since_best + 1)
        self._best = np.where(better, progress, self._best)
        return rewards, (self._since_best > self.stall_steps) | fallen(body)

    def metrics(self, robot: int) -> dict[str, float]:
        """None."""
        return {}


def batch_of(task: Task, seeds: Sequence[int]) -> BatchTask:
    """The task of a low level, in the episodes of n seeds."""
    if isinstance(task, Follow):
        return FollowBatch(seeds, task.steps)
    assert isinstance(task, Forward)
    return ForwardBatch(seeds, task.steps, task.stall_steps)


def fallen(body: MuJoCoBatch) -> Who:
    """Which robots (n,) are off their feet, on flat ground."""
    return np.asarray(off_its_feet(body.positions[:, 2], body.orientations.T))


def _planar_poses(body: MuJoCoBatch) -> Array:
    """(n, 3): see `planar_pose`."""
    headings = [heading(orientation) for orientation in body.orientations.tolist()]
    return np.column_stack((body.positions[:, :2], headings))


def _planar_velocities(before: Array, after: Array) -> Array:
    """(n, 3): see `planar_velocity`."""
    cos, sin = _each(math.cos)(after[:, 2]), _each(math.sin)(after[:, 2])
    return np.column_stack(in_base_frame((after - before).T, cos, sin)) / CONTROL_DT_S


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of numbers for arrays (n,); numpy's own may round otherwise."""
    return lambda values: np.array([function(value) for value in values.tolist()])


_exp: Any = _each(math.exp)
