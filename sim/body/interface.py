"""Interface of simulated robots: what they offer beyond a real one's, and constants all share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import CONTROL_DT_S, Body, Image, JointCommand
from pixelgait.robot.rotation import Quaternion, Vector
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.world.scene import Layout, Scene

PHYSICS_DT_S = 0.002  # 2 ms, as in Google's envs_v2
SUBSTEPS = round(CONTROL_DT_S / PHYSICS_DT_S)
GRAVITY_Z_M_PER_S2 = -9.8
START_ABOVE_M = 0.01  # the feet start this far above the ground; ours


class BasePose(NamedTuple):
    """Where a base is in the world."""

    position: Vector  # [m]
    orientation: Quaternion  # xyzw


class JointLoads(NamedTuple):
    """What motors and feet bear in a physics step."""

    torques: Array  # (12,) of the motors [Nm]
    speeds: Array  # (12,) of the joints [rad/s]
    foot_forces: Array  # (4,) between each leg and whatever it stands on or touches [N]
    foot_sinking: Array  # (4,) vertical speed of each foot, downwards positive [m/s]


class RobotBase(Protocol):
    """A robot in a scene, as tasks see it."""

    spec: RobotSpec
    scene: Scene

    @property
    def time_s(self) -> float:
        """Since the reset [s]."""

    @property
    def layout(self) -> Layout:
        """The scene's, of this episode."""

    def pose(self) -> BasePose:
        """Where the base is."""

    def touching(self) -> float | None:
        """Normal force [N] between the robot and obstacles now; None if it touches none."""

    def joint_angles(self) -> Array:
        """Where the joints are (12,) [rad], whatever sensors say."""

    def loads(self) -> JointLoads:
        """What motors and feet bear at this instant; nothing, of a robot without legs."""

    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""


class SimulatedBody(Body, RobotBase, Protocol):
    """One robot in one scene, with what a simulator knows and a robot does not.

    `reset` lays the scene out from the seed; whatever ran before, an episode depends on nothing
    else, bit for bit.
    """

    camera: Camera

    @property
    def seed(self) -> int:
        """Of this episode; before the first reset there is none."""

    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""

    def step(self, command: JointCommand) -> None:
        """One physics step; `apply` is `SUBSTEPS` of them under one command.

        The command takes its delay to reach the motors; what swings in the scene follows every
        `SUBSTEPS`.
        """

    def render(self) -> Image:
        """What the camera, as it sits in this episode, sees at this instant."""

    def render_rgb(self) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of this instant, whatever the camera's kind."""

    def render_depth(self) -> NDArray[np.float32]:
        """Depth (H, W) [m] of this instant, whatever the camera's kind."""

    def render_both(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m] of this instant, whatever the camera's kind."""

    def close(self) -> None:
        """Free the simulator."""
