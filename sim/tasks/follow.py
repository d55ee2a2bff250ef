"""Velocity tracking: the task that trains a low level, and its reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pixelgait.robot.cli.options import Range
from pixelgait.robot.control.controller import (
    STAND,
    Decision,
    latent_for,
    latent_of,
)
from pixelgait.robot.control.controller import velocity as velocity_of
from pixelgait.robot.control.low_level import COMMAND, LATENT_SIZE, OMNI
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import JointLoads, RobotBase
from pixelgait.sim.tasks.task import drawn_push, fallen, planar_pose, planar_velocity
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import Stream

Exponential = Callable[[Any], Any]


Weight = Annotated[float, Range(0.0, 1e3)]
Scale = Annotated[float, Range(1e-6, 1e3)]


@dataclass(frozen=True, slots=True)
class FollowReward:
    """Terms of the reward of following velocity commands.

    A tracking term is exp(-squared error / scale): a scale is the squared error at which the term
    has fallen to 1/e. The defaults are wide enough to have a slope for a robot that stands
    (0.3 m/s off), and narrow enough to tell 0.1 m/s from 0.2.
    """

    tracking_lin_vel: Weight = 0.5
    """Weight of tracking the linear velocity."""
    tracking_ang_vel: Weight = 0.5
    """Weight of tracking the yaw rate."""
    lin_vel_scale: Scale = 0.03
    """Scale of the linear velocity's squared error [m2/s2]."""
    ang_vel_scale: Scale = 0.15
    """Scale of the yaw rate's squared error [rad2/s2]."""
    lateral: Weight = 0.5
    """Weight of the sideways squared error beside the forward one."""
    orientation: Annotated[float, Range(0.0, 1.0)] = 0.2
    """Share of the posture, level and at its height, in the reward; the rest is tracking."""
    tilt_scale: Scale = 0.02
    """Scale of the squared tilt [rad2]."""
    base_height: Annotated[float, Range(0.1, 2.0)] = 0.9
    """Wanted height of the base over the standing height."""
    base_height_scale: Scale = 0.001
    """Scale of the height's squared error [m2]."""
    # A trotting A1 spends 40 to 90 W, and its eight footfalls a second have 0.5 to 1.5 m/s. With
    # these defaults each of the two costs about as much as a tracking error of 0.05 m/s.
    power: Weight = 0.0007
    """Cost of the motors' power [1/W, per second]."""
    feet_impact: Weight = 0.008
    """Cost of a foot's squared vertical speed at touchdown [s2/m2]."""

    def per_second(self, error: Sequence[Any], posture: Any, exp: Exponential = math.exp) -> Any:
        """Reward per second without costs, for one robot or, with arrays and their `exp`, for n.

        Args:
            error: forward and left velocity [m/s] and yaw rate [rad/s], less the command.
            posture: see `posture`.
        """
        ahead, aside, turn = error
        linear = exp(-(ahead * ahead + self.lateral * (aside * aside)) / self.lin_vel_scale)
        angular = exp(-(turn * turn) / self.ang_vel_scale)
        tracking = self.tracking_lin_vel * linear + self.tracking_ang_vel * angular
        return tracking + self.orientation * (posture - tracking)

    def posture(
        self, height_m: Any, orientation: Any, spec: RobotSpec, exp: Exponential = math.exp
    ) -> Any:
        """1 for a level base at its height, towards 0 as it tilts or sinks; see `per_second`."""
        qx, qy, _, _ = orientation
        tilt2 = 4.0 * (qx * qx + qy * qy)  # for small angles
        low = height_m - self.base_height * spec.stand_height_m
        return exp(-tilt2 / self.tilt_scale - low * low / self.base_height_scale)

    def impact_cost(self, speeds: Array) -> float:
        """Cost of feet that touch down at these speeds [m/s]."""
        return float(self.feet_impact * speeds.dot(speeds))


class Follow:
    """Follow speed and yaw-rate commands that change every second, with pushes.

    `FollowReward` rewards tracking and posture, less the cost of power and impacts; at most 1 per
    second by default. Commands are drawn uniformly, but a tenth asks to stop, 15 % to turn on the
    spot, 15 % to go straight, a tenth for full speed. Those of an omnidirectional low level also go
    sideways; see `drawn_velocity`.
    """

    COMMAND_STEPS = 100
    PUSH_STEPS = 250
    PUSH_M_PER_S = 0.5
    SMOOTHING = 0.04  # per step: averages velocities over about a gait cycle
    SETTLED_STEPS = 50  # after a new command, before errors count as tracking errors

    stuck = False  # an episode without progress does not end

    def __init__(self, steps: int, reward: FollowReward | None = None, omni: bool = False) -> None:
        self.steps, self.reward, self.omni = steps, reward or FollowReward(), omni
        self.latent_size = OMNI.command if omni else LATENT_SIZE
        self.latent = self._stand = latent_of(np.zeros(OMNI.command)) if omni else STAND
        self._step = self._since = 0

    def command(self, *_: object) -> Decision:
        """The high level of this task: the next command, whatever the camera sees."""
        self.latent = self.drawn(self._rng)
        self._since = self._step
        return Decision(self.latent, self.COMMAND_STEPS)

    def reset(self, body: RobotBase, seed: int) -> None:
        self._rng = Stream.TASK.rng(seed)
        self.latent = self._stand  # until the first command, which may come after the first step
        self._step = self._since = 0  # a command is late if no image came
        self._pose = planar_pose(body)
        self._velocity = np.zeros(3)  # forward, left [m/s], yaw rate [rad/s], smoothed
        self._loads = body.loads()
        self._errors, self._judged = np.zeros(3), 0  # sums over `_judged` control steps

    def step(self, body: RobotBase) -> tuple[float, bool]:
        self._step += 1
        pose = planar_pose(body)
        velocity = planar_velocity(self._pose, pose)
        self._pose = pose
        self._velocity += self.SMOOTHING * (velocity - self._velocity)
        forward, left, turn = self._velocity.tolist()
        wanted = velocity_of(self.latent).tolist()
        error = forward - wanted[0], left - wanted[1], turn - wanted[2]
        if self.settled(self._step - self._since):
            self._errors += abs(error[0]), abs(error[2]), abs(error[1])
            self._judged += 1
        if self._step % self.PUSH_STEPS == 0:
            body.push(drawn_push(self.PUSH_M_PER_S, self._rng))
        (x, y, z), orientation = body.pose()
        height = z - (body.scene.ground_m(x, y) or 0.0)
        posture = self.reward.posture(height, orientation, body.spec)
        reward = self.reward.per_second(error, posture) * CONTROL_DT_S
        return reward - self._cost(body.loads()), fallen(body) or self.arrived(body.scene, x, y)

    def drawn(self, rng: np.random.Generator) -> Array:
        """A random command."""
        return drawn_velocity(rng) if self.omni else drawn_command(rng)

    def arrived(self, scene: Scene, x: float, y: float) -> bool:
        """False: there is no goal."""
        return False

    @classmethod
    def settled(cls, step: Any) -> Any:
        """Whether errors count as tracking errors: in the second half of a command's time.

        Args:
            step: control steps since the command, from 1; an int, or (n,).
        """
        return step % cls.COMMAND_STEPS > cls.SETTLED_STEPS

    def succeeded(self) -> bool | None:
        """None: there is no goal."""
        return None

    def _cost(self, loads: JointLoads) -> float:
        """Cost of power and impacts in this control step."""
        power = np.abs(loads.torques).dot(np.abs(loads.speeds))
        landing = (loads.foot_forces > 0.0) & (self._loads.foot_forces <= 0.0)
        speeds = self._loads.foot_sinking[landing]  # just before
        self._loads = loads
        return float(self.reward.power * power * CONTROL_DT_S) + self.reward.impact_cost(speeds)

    def metrics(self, fell: bool) -> dict[str, float]:
        """Mean tracking errors [m/s], [rad/s] in the second half of every command."""
        return self.mean_errors(self._errors, self._judged)

    def mean_errors(self, errors: Array, judged: int) -> dict[str, float]:
        """Means, by name, of sums (3,) over `judged` control steps; empty if that is 0."""
        if not judged:
            return {}
        speed, yaw_rate, side = (errors / judged).tolist()
        means = {"speed_error": speed, "yaw_rate_error": yaw_rate}
        return means | {"side_error": side} if self.omni else means


class Climb(Follow):
    """Walk straight ahead over what the scene has, to its goal, at speeds that change every second.

    An omnidirectional low level is commanded to climb; others have no such command.
    """

    SPEEDS_M_PER_S = 0.3, 0.55
    PUSH_M_PER_S = 0.2

    def __init__(
        self,
        steps: int,
        reward: FollowReward | None = None,
        omni: bool = False,
        climb: float = 1.0,
    ) -> None:
        super().__init__(steps, reward, omni)
        self.climb, self._passed = climb, False

    def reset(self, body: RobotBase, seed: int) -> None:
        super().reset(body, seed)
        self._passed = False

    def drawn(self, rng: np.random.Generator) -> Array:
        speed = rng.uniform(*self.SPEEDS_M_PER_S)
        if self.omni:
            return latent_of(np.array((speed, 0.0, 0.0, self.climb)))
        return latent_for(speed, 0.0)

    def arrived(self, scene: Scene, x: float, y: float) -> bool:
        self._passed = self._passed or scene.progress_m(x, y) >= scene.goal_m
        return self._passed

    def succeeded(self) -> bool | None:
        return self._passed

    def metrics(self, fell: bool) -> dict[str, float]:
        """None: the errors are those of every obstacle."""
        return {}


def drawn_command(rng: np.random.Generator) -> Array:
    """A random latent command (2,), see `Follow`."""
    latent = rng.uniform(-1.0, 1.0, 2)
    which = rng.random()
    if which < 0.1:
        latent[:] = -1.0, 0.0
    elif which < 0.25:
        latent[0] = -1.0
    elif which < 0.4:
        latent[1] = 0.0
    elif which < 0.5:
        latent[0] = 1.0
    return latent


def drawn_velocity(rng: np.random.Generator) -> Array:
    """The latent (4,) of a random command within `COMMAND`, a fourth of them with some climb.

    A tenth asks to stop, 15 % to turn on the spot, 15 % to go straight, a tenth for full speed, a
    tenth to go sideways, a tenth for a tenth of the velocity. The more climb, the slower, to half.
    """
    low, high = np.array([ends for _, *ends in COMMAND]).T
    command = rng.uniform(low, high)
    climbs, which = rng.random() < 0.25, rng.random()
    command[3] *= climbs
    command[:3] *= 1.0 - 0.5 * command[3]
    if which < 0.1:
        command[:3] = 0.0
    elif which < 0.25:
        command[:2] = 0.0
    elif which < 0.4:
        command[1:3] = 0.0
    elif which < 0.5:
        command[0], command[1] = high[0], 0.0
    elif which < 0.6:
        command[0] = command[2] = 0.0
    elif which < 0.7:
        command[:3] *= 0.1
    return latent_of(command)
