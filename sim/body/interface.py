"""Interface of simulated robots, beyond that of a real one, and their common constants."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import CONTROL_DT_S, Body, Image, JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.world.scene import Layout, Scene

PHYSICS_DT_S = 0.002  # 2 ms, as in Google's envs_v2
SUBSTEPS = round(CONTROL_DT_S / PHYSICS_DT_S)
GRAVITY_Z_M_PER_S2 = -9.8
START_ABOVE_M = 0.01  # assumption: height of the feet above the ground at the start


class BasePose(NamedTuple):
    """Pose of a base in the world."""

    position: Vector  # [m]
    orientation: Quaternion  # xyzw


class JointLoads(NamedTuple):
    """Loads of motors and feet in a physics step."""

    torques: Array  # (12,) of the motors [Nm]
    speeds: Array  # (12,) of the joints [rad/s]
    foot_forces: Array  # (4,) contact forces of each leg [N]
    foot_sinking: Array  # (4,) vertical speed of each foot, downwards positive [m/s]


class RobotBase(Protocol):
    """A robot in a scene, as tasks need it."""

    spec: RobotSpec
    scene: Scene
    height_m: float  # that it needs above the ground in this episode, with its camera

    @property
    def time_s(self) -> float:
        """Since the reset [s]."""

    @property
    def layout(self) -> Layout:
        """Layout of the scene in this episode."""

    def pose(self) -> BasePose:
        """True pose of the base."""

    def touching(self) -> float | None:
        """Normal force [N] between the robot and obstacles now; None if it touches none."""

    def joint_angles(self) -> Array:
        """True joint angles (12,) [rad]."""

    def loads(self) -> JointLoads:
        """Loads of motors and feet at this instant; zeros for a gliding robot."""

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""


class SimulatedBody(Body, RobotBase, Protocol):
    """One robot in one scene, with the ground truth of a simulator.

    `reset` lays the scene out from the seed. An episode depends on nothing but the seed, bit for
    bit, regardless of earlier ones.
    """

    camera: Camera

    @property
    def seed(self) -> int:
        """Seed of this episode; undefined before the first reset."""

    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""

    def step(self, command: JointCommand) -> None:
        """One physics step; `apply` is `SUBSTEPS` of them under one command.

        The command reaches the motors after its delay; moving shapes move in every physics step.
        """

    def render(self) -> Image:
        """Image of this episode's camera at this instant."""

    def render_rgb(self) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of this instant, whatever the camera's kind."""

    def render_depth(self) -> NDArray[np.float32]:
        """Depth (H, W) [m] of this instant, whatever the camera's kind."""

    def render_both(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m] of this instant, whatever the camera's kind."""

    def close(self) -> None:
        """Free the simulator."""


class ChangedBody:
    """A `SimulatedBody` whose readings are another one's, changed; all else is that one's."""

    def __init__(self, body: SimulatedBody) -> None:
        self.body = body

    def __getattr__(self, name: str) -> Any:
        return getattr(self.body, name)

    def reset(self, seed: int) -> Reading:
        """Reset the body."""
        reading = self.body.reset(seed)
        self._begin(seed)
        return self._changed(reading)

    def read(self) -> Reading:
        """The body's reading, changed."""
        return self._changed(self.body.read())

    def _begin(self, seed: int) -> None:
        """Begin an episode; the body was reset."""

    def _changed(self, reading: Reading) -> Reading:
        raise NotImplementedError
