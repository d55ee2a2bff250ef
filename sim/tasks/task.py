"""Task interface: reward and end of an episode, by the true pose; geometry all tasks share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import heading, up_z, wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase

TIPPED_UP_Z = 0.5  # fallen: the base's up axis more than 60 degrees off
FALLEN_HEIGHT_M = 0.13  # or the base this low above the ground (Minitaur's limit in envs_v2)


class Task(Protocol):
    """Gives the reward of one episode, and ends it."""

    steps: int  # control steps an episode lasts at most
    latent_size: int  # entries of a latent command

    def reset(self, body: RobotBase, seed: int) -> None: ...

    def step(self, body: RobotBase) -> tuple[float, bool]:
        """Reward of the control step just taken, and whether the episode is over.

        By the simulator's true state: sensors may be noisy, late or faulty.
        """

    def succeeded(self) -> bool | None:
        """Whether the goal is reached, falls aside; None: there is no goal."""

    def metrics(self, fell: bool) -> dict[str, float]:
        """Further figures of the episode; `fell`: the robot fell or was damped."""


def fallen(body: RobotBase) -> bool:
    """Whether the robot has tipped over, sunk down, or left the walkable ground."""
    (x, y, z), orientation = body.pose()
    ground = body.scene.ground_m(x, y)
    return ground is None or off_its_feet(z - ground, orientation)


def off_its_feet(height_m: float, orientation: Sequence[float]) -> bool:
    """Whether a base at this height above ground [m] and orientation (4,) has fallen."""
    return up_z(orientation) < TIPPED_UP_Z or height_m < FALLEN_HEIGHT_M


def progress_m(body: RobotBase) -> float:
    """Progress of the robot through the scene [m]."""
    (x, y, _), _ = body.pose()
    return body.scene.progress_m(x, y)


def planar_pose(body: RobotBase) -> Array:
    """Position x, y [m] and heading [rad] of the base, (3,)."""
    (x, y, _), orientation = body.pose()
    return np.array((x, y, heading(orientation)))


def planar_velocity(before: Array, after: Array) -> Array:
    """Forward, left [m/s] and yaw rate [rad/s] between two poses one control step apart, (3,)."""
    cos, sin = math.cos(after[2]), math.sin(after[2])
    return np.array(in_base_frame((after - before).tolist(), cos, sin)) / CONTROL_DT_S


def in_base_frame(moved: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
    """Forward, left and turn of a motion x, y, heading, by cosine and sine of the heading.

    For one robot (3,), or n robots (3, n) with cosines and sines (n,).
    """
    dx, dy, turn = moved
    return dx * cos + dy * sin, dy * cos - dx * sin, wrap_angle(turn)


def drawn_push(speed: float, rng: np.random.Generator) -> Array:
    """A velocity (3,) of this speed [m/s] in a random horizontal direction, for `push`."""
    angle = rng.uniform(0.0, 2.0 * math.pi)
    return speed * np.array((math.cos(angle), math.sin(angle), 0.0))
