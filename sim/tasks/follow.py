"""The task of following velocity commands: how a low level is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import STAND, Decision, commanded
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.interface import JointLoads, RobotBase
from pixelgait.sim.tasks.task import drawn_push, fallen, planar_pose, planar_velocity
from pixelgait.sim.world.seeds import Stream

Exponential = Callable[[Any], Any]


class Follow:
    """Follow speed and yaw-rate commands that change every second, with pushes.

    Reward per second: how well both are tracked, and an upright, level posture, less what the
    motors spend and how hard the feet come down; at most 1. Latent commands are drawn uniformly,
    but a tenth asks to stop, 15 % to turn on the spot, 15 % to go straight, a tenth for full speed.
    """

    COMMAND_STEPS = 100
    PUSH_STEPS = 250
    PUSH_M_PER_S = 0.5
    SMOOTHING = 0.04  # per step: velocities are judged over about a gait cycle, not within one
    SETTLED_STEPS = 50  # after a new command, before errors count as tracking errors
    # Squared errors at which a term of the reward has fallen to 1/e: wide enough to have a slope
    # for a robot that stands (0.3 m/s off) and narrow enough to tell 0.1 from 0.2.
    SPEED_SCALE = 0.03  # [m2/s2]
    TURN_SCALE = 0.15  # [rad2/s2]
    SIDEWAYS_WEIGHT = 0.5
    # How the body is carried counts too: a camera on a leaning or crouching robot sees less.
    POSTURE_WEIGHT = 0.2
    TILT_SCALE_RAD2 = 0.02
    HEIGHT_SHARE = 0.9  # of the standing height
    HEIGHT_SCALE_M2 = 0.001

    # A trotting A1 spends 40 to 90 W, and its eight feet a second land at 0.5 to 1.5 m/s: each of
    # the two costs about as much as a tracking error of 0.05 m/s.
    POWER_WEIGHT_PER_W = 0.0007
    LANDING_WEIGHT_S2_PER_M2 = 0.008

    stuck = False  # who does not follow is not told to end

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.latent = STAND
        self._step = self._since = 0

    def command(self, *_: object) -> Decision:
        """The high level of this task: the next command, whatever the camera sees."""
        self.latent = drawn_command(self._rng)
        self._since = self._step
        return Decision(self.latent, self.COMMAND_STEPS)

    def reset(self, body: RobotBase, seed: int) -> None:
        self._rng = Stream.TASK.rng(seed)
        self.latent = STAND  # until it is asked, which it may not be in the first step
        self._step = self._since = 0  # since the last command, which is late if no image came
        self._pose = planar_pose(body)
        self._velocity = np.zeros(3)  # forward, left [m/s], yaw rate [rad/s], smoothed
        self._loads = body.loads()
        self._errors, self._judged = np.zeros(2), 0  # summed up, over so many control steps

    def step(self, body: RobotBase) -> tuple[float, bool]:
        self._step += 1
        pose = planar_pose(body)
        velocity = planar_velocity(self._pose, pose)
        self._pose = pose
        self._velocity += self.SMOOTHING * (velocity - self._velocity)
        forward, left, turn = self._velocity.tolist()
        speed, yaw_rate = commanded(self.latent)
        off = forward - speed, left, turn - yaw_rate
        if self.settled(self._step - self._since):
            self._errors += abs(off[0]), abs(off[2])
            self._judged += 1
        if self._step % self.PUSH_STEPS == 0:
            body.push(drawn_push(self.PUSH_M_PER_S, self._rng))
        (x, y, z), orientation = body.pose()
        height = z - (body.scene.ground_m(x, y) or 0.0)
        posture = self.posture(height, orientation, body.spec)
        return self.reward(off, posture) * CONTROL_DT_S - self._strain(body.loads()), fallen(body)

    @classmethod
    def settled(cls, step: Any) -> Any:
        """Whether errors count as tracking errors so many control steps, or steps (n,), after a
        command, from 1: in the second half of its time, but for the step in which the next one is
        due.
        """
        return step % cls.COMMAND_STEPS > cls.SETTLED_STEPS

    @classmethod
    def reward(cls, off: Sequence[Any], posture: Any, exp: Exponential = math.exp) -> Any:
        """Per second, of errors ahead, aside [m/s] and in turning [rad/s], and of the posture.

        Of one robot, or of n with arrays (n,) and an `exp` for those.
        """
        ahead, aside, turn = off
        tracked = exp(-(ahead * ahead + cls.SIDEWAYS_WEIGHT * (aside * aside)) / cls.SPEED_SCALE)
        turned = exp(-(turn * turn) / cls.TURN_SCALE)
        followed = (tracked + turned) / 2.0
        return followed + cls.POSTURE_WEIGHT * (posture - followed)

    @classmethod
    def posture(
        cls, height_m: Any, orientation: Any, spec: RobotSpec, exp: Exponential = math.exp
    ) -> Any:
        """1 for a level base at its height, towards 0 as it tilts or sinks; see `reward`."""
        qx, qy, _, _ = orientation
        tilt2 = 4.0 * (qx * qx + qy * qy)  # of small angles
        low = height_m - cls.HEIGHT_SHARE * spec.stand_height_m
        return exp(-tilt2 / cls.TILT_SCALE_RAD2 - low * low / cls.HEIGHT_SCALE_M2)

    @classmethod
    def landing_loss(cls, speeds: Array) -> float:
        """What feet cost that come down at these speeds [m/s]."""
        return float(cls.LANDING_WEIGHT_S2_PER_M2 * speeds.dot(speeds))

    def succeeded(self) -> None:
        """There is nothing to reach."""

    def _strain(self, loads: JointLoads) -> float:
        """What this control step has cost motors and feet."""
        power = np.abs(loads.torques).dot(np.abs(loads.speeds))
        landing = (loads.foot_forces > 0.0) & (self._loads.foot_forces <= 0.0)
        speeds = self._loads.foot_sinking[landing]  # just before
        self._loads = loads
        return float(self.POWER_WEIGHT_PER_W * power * CONTROL_DT_S) + self.landing_loss(speeds)

    def metrics(self, fell: bool) -> dict[str, float]:
        """Mean tracking errors [m/s], [rad/s] in the second half of every command."""
        return self.mean_errors(self._errors, self._judged)

    @staticmethod
    def mean_errors(errors: Array, judged: int) -> dict[str, float]:
        """Of sums (2,) over so many control steps, by name; none of none."""
        if not judged:
            return {}
        speed, yaw_rate = (errors / judged).tolist()
        return {"speed_error": speed, "yaw_rate_error": yaw_rate}


def drawn_command(rng: np.random.Generator) -> Array:
    """A latent command (2,), see `Follow`."""
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
