"""Tasks: what an episode rewards, and when it ends."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from pixelgait.robot.controller import Decision
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.reading import Reading
from pixelgait.robot.spec import Array
from pixelgait.sim.simulated_body import Walker

UP_Z_LIMIT = 0.5  # fallen: the base's up axis more than 60 degrees off
FALLEN_HEIGHT_M = 0.13  # or the base this low above the ground (Minitaur's limit in envs_v2)

# What the low level's latent command stands for: (-1..1, -1..1) is speed and yaw rate.
MAX_SPEED_M_PER_S = 0.6
MAX_YAW_RATE_RAD_PER_S = 1.0


class Task(Protocol):
    """Rewards one episode on a body."""

    steps: int  # control steps an episode lasts at most

    def reset(self, body: Walker, seed: int) -> None: ...

    def step(self, body: Walker, reading: Reading) -> tuple[float, bool]:
        """Reward of the control step just taken, and whether the episode is over."""

    def metrics(self) -> dict[str, float]:
        """Further figures of the episode."""


def fallen(body: Walker, reading: Reading) -> bool:
    """Whether the robot has tipped over, sunk down, or left the ground it can walk on."""
    (x, y, z), _ = body.pose()
    qx, qy, _, _ = reading.orientation.tolist()  # Python's floats are faster than numpy's
    up_z = 1.0 - 2.0 * (qx * qx + qy * qy)
    ground = body.scene.ground_m(x, y)
    return up_z < UP_Z_LIMIT or ground is None or z - ground < FALLEN_HEIGHT_M


def progress_m(body: Walker) -> float:
    """How far the robot is on its way through the scene [m]."""
    (x, y, _), _ = body.pose()
    return body.scene.progress_m(x, y)


class Forward:
    """Capped velocity along x (IAP paper, eq. 11 and 12) or towards the goal of the scene: a
    return reads as metres.

    The episode ends with a fall, at the scene's goal, or after `patience_steps` without advance.
    """

    CAP_M_PER_S = 0.6  # the paper does not give its own
    ADVANCE_M = 0.1
    SHOVE_M_PER_S = 0.2  # at the start, in a random direction: no two episodes are alike

    def __init__(self, steps: int, patience_steps: int = 600) -> None:
        self.steps = steps
        self.patience_steps = patience_steps
        self._progress = self._best = 0.0
        self._since_best = 0

    def reset(self, body: Walker, seed: int) -> None:
        self._progress = self._best = progress_m(body)
        self._since_best = 0
        push(body, self.SHOVE_M_PER_S, np.random.default_rng((seed, 1)))

    def step(self, body: Walker, reading: Reading) -> tuple[float, bool]:
        progress = progress_m(body)
        cap = self.CAP_M_PER_S * CONTROL_DT_S
        reward = max(-cap, min(cap, progress - self._progress))
        self._progress = progress
        self._since_best += 1
        if progress > self._best + self.ADVANCE_M:
            self._best, self._since_best = progress, 0
        stuck = self._since_best > self.patience_steps
        return reward, stuck or progress > body.scene.goal_m or fallen(body, reading)

    def metrics(self) -> dict[str, float]:
        return {}


class Follow:
    """Follow speed and yaw-rate commands that change every second, with pushes.

    Reward per second: how well both are tracked, and an upright, level posture; at most 1. Latent
    commands are drawn uniformly, but a tenth asks to stop, 15 % to turn on the spot, 15 % to go
    straight.
    """

    COMMAND_STEPS = 100
    PUSH_STEPS = 250
    PUSH_M_PER_S = 0.3
    SMOOTHING = 0.04  # per step: velocities are judged over about a gait cycle, not within one
    SETTLED_STEPS = 50  # after a new command, before errors count as tracking errors
    # Squared errors at which a term of the reward has fallen to 1/e: wide enough to have a slope
    # for a robot that stands (0.3 m/s off) and narrow enough to tell 0.1 from 0.2.
    SPEED_SCALE_M2_PER_S2 = 0.06
    TURN_SCALE_RAD2_PER_S2 = 0.15
    SIDEWAYS_WEIGHT = 0.5
    # How the body is carried counts too: a camera on a leaning or crouching robot sees less.
    POSTURE_WEIGHT = 0.2
    TILT_SCALE_RAD2 = 0.02
    HEIGHT_SHARE = 0.9  # of the standing height
    HEIGHT_SCALE_M2 = 0.001

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.latent = np.zeros(2)

    def command(self, image: object) -> Decision:
        """The high level of this task: the next command, whatever the camera sees."""
        self.latent = self._rng.uniform(-1.0, 1.0, 2)
        which = self._rng.random()
        if which < 0.1:
            self.latent[:] = -1.0, 0.0
        elif which < 0.25:
            self.latent[0] = -1.0
        elif which < 0.4:
            self.latent[1] = 0.0
        return Decision(self.latent, self.COMMAND_STEPS)

    def reset(self, body: Walker, seed: int) -> None:
        self._rng = np.random.default_rng((seed, 1))
        self._step = 0
        self._pose = planar_pose(body)
        self._velocity = np.zeros(3)  # forward, left [m/s], yaw rate [rad/s], smoothed
        self._errors: list[tuple[float, float]] = []

    def step(self, body: Walker, reading: Reading) -> tuple[float, bool]:
        self._step += 1
        pose = planar_pose(body)
        velocity = planar_velocity(self._pose, pose)
        self._pose = pose
        self._velocity += self.SMOOTHING * (velocity - self._velocity)
        forward, left, turn = self._velocity
        speed, yaw_rate = commanded(self.latent)
        speed_error, turn_error = forward - speed, turn - yaw_rate
        if self._step % self.COMMAND_STEPS > self.SETTLED_STEPS:
            self._errors.append((abs(speed_error), abs(turn_error)))
        if self._step % self.PUSH_STEPS == 0:
            push(body, self.PUSH_M_PER_S, self._rng)
        off = speed_error**2 + self.SIDEWAYS_WEIGHT * left**2
        tracked = math.exp(-off / self.SPEED_SCALE_M2_PER_S2)
        turned = math.exp(-(turn_error**2) / self.TURN_SCALE_RAD2_PER_S2)
        followed = (tracked + turned) / 2.0
        reward = followed + self.POSTURE_WEIGHT * (self._posture(body) - followed)
        return reward * CONTROL_DT_S, fallen(body, reading)

    def _posture(self, body: Walker) -> float:
        """1 for a level base at its height, towards 0 as it tilts or sinks."""
        (x, y, z), (qx, qy, _, _) = body.pose()
        tilt2 = 4.0 * (qx * qx + qy * qy)  # of small angles
        height = z - (body.scene.ground_m(x, y) or 0.0)
        low = height - self.HEIGHT_SHARE * body.spec.stand_height_m
        return math.exp(-tilt2 / self.TILT_SCALE_RAD2 - low * low / self.HEIGHT_SCALE_M2)

    def metrics(self) -> dict[str, float]:
        """Mean tracking errors [m/s], [rad/s] in the second half of every command."""
        if not self._errors:
            return {}
        speed, yaw_rate = np.mean(self._errors, axis=0)
        return {"speed_error": float(speed), "yaw_rate_error": float(yaw_rate)}


def push(body: Walker, speed: float, rng: np.random.Generator) -> None:
    """Add a velocity of so many m/s in a random horizontal direction."""
    angle = rng.uniform(0.0, 2.0 * math.pi)
    body.push(speed * np.array((math.cos(angle), math.sin(angle), 0.0)))


def commanded(latent: Array) -> tuple[float, float]:
    """Speed [m/s] and yaw rate [rad/s] that a latent command (2,) asks for."""
    speed = (float(latent[0]) + 1.0) / 2.0 * MAX_SPEED_M_PER_S
    return speed, float(latent[1]) * MAX_YAW_RATE_RAD_PER_S


def latent_for(speed: float, yaw_rate: float) -> Array:
    """The latent command (2,) for a speed [m/s] and a yaw rate [rad/s], within its range."""
    latent = (2.0 * speed / MAX_SPEED_M_PER_S - 1.0, yaw_rate / MAX_YAW_RATE_RAD_PER_S)
    return np.clip(latent, -1.0, 1.0)


def planar_pose(body: Walker) -> Array:
    """Position x, y [m] and heading [rad] of the base, (3,)."""
    (x, y, _), (qx, qy, qz, qw) = body.pose()
    yaw = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
    return np.array((x, y, yaw))


def planar_velocity(before: Array, after: Array) -> Array:
    """Forward, left [m/s] and yaw rate [rad/s] between two poses one control step apart, (3,)."""
    dx, dy, turn = (after - before).tolist()
    cos, sin = math.cos(after[2]), math.sin(after[2])
    turn = (turn + math.pi) % (2.0 * math.pi) - math.pi
    return np.array((dx * cos + dy * sin, dy * cos - dx * sin, turn)) / CONTROL_DT_S
