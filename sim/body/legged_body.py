"""Legged robot in any physics engine: clock, motors, actuation delay, randomisation and sensors.

An engine adds its state and its scene.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.rotation import Quaternion, Vector, heading, upright
from pixelgait.robot.safety.supervisor import NO_AGES
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import (
    PHYSICS_DT_S,
    START_ABOVE_M,
    SUBSTEPS,
    BasePose,
    JointLoads,
)
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sampling import sampled
from pixelgait.sim.body.sensors import DelayLine, Sensors, with_drawn_eye
from pixelgait.sim.world.obstacles import needed_height_m
from pixelgait.sim.world.scene import Layout, Pose, Scene
from pixelgait.sim.world.seeds import Stream

# A motor: target [rad], kp [Nm/rad], kd [Nm s/rad], feed-forward [Nm], limit [Nm], slope [s/rad].
Motor = tuple[float, float, float, float, float, float]


class EngineScene(Protocol):
    """A scene as an engine has built it."""

    layout: Layout  # of this episode

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns where the robot starts."""

    def move(self, time_s: float) -> None:
        """Put moving shapes at their poses at a time after the reset [s]."""

    def drive(self, time_s: float) -> None:
        """As `move`, a physics step later; with their forces for shapes that have a limited one."""

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera (see `Camera`) on a base at this pose."""

    def render_both(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m], both through the pixels' centres."""


class LeggedBody(ABC):
    """A `SimulatedBody` without its engine. A `Randomisation` draws another robot every episode."""

    seed: int  # of this episode
    height_m: float  # that it needs above the ground in this episode, with its camera
    _scene: EngineScene

    def __init__(
        self,
        spec: RobotSpec,
        scene: Scene,
        *,
        camera: Camera | None = None,
        randomisation: Randomisation | None = None,
    ) -> None:
        self.spec = spec
        self.scene = scene
        self.camera = camera or Camera(spec.camera)
        self.randomisation = randomisation
        self.time_s = 0.0
        self._sample = Sample()
        self.sensors: Sensors | None = None  # None: ideal ones
        self._stand = standing(spec)  # until the first command arrives
        self._commands = DelayLine(self._stand)
        self._command: JointCommand | None = None  # of `_motors`
        self._motors: list[Motor] = []
        self._damped = False  # whether the motors only damp
        self._torques: list[float] = [0.0] * len(spec.joint_names)  # in the last physics step

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed and stand the robot at its start."""
        self.seed = seed
        self._settle(damped=False)
        camera = self.camera
        if self.randomisation is not None:
            self._sample = self.randomisation.sample(Stream.ROBOT.rng(seed))
            self._randomise(self._sample)
            joints = len(self.spec.joint_names)
            camera = with_drawn_eye(camera, self._sample, self.spec.stand_height_m)
            self.sensors = Sensors(self._sample, camera, self._view, seed, joints)
        self.height_m = needed_height_m(self.spec, camera.mount)
        self._commands = DelayLine(self._stand, self._sample.delay_s)
        self._command = None  # `_motors` are those of the last episode
        self.time_s = 0.0
        self._restore()
        start = self._scene.reset(Stream.LAYOUT.rng(seed))
        height = start.z + self.spec.stand_height_m + START_ABOVE_M
        self.place((start.x, start.y, height), upright(start.yaw))
        self._set_joints(self.spec.default_pose_rad)
        return self.read()

    def read(self) -> Reading:
        """Sensor values of this instant, by this episode's sensor models."""
        pose = self.pose()
        (x, y, _), orientation = pose
        odometry = np.array((x, y, heading(orientation)))
        reading = replace(self._measure(pose), odometry=odometry)
        return reading if self.sensors is None else self.sensors.read(reading, pose)

    @property
    def layout(self) -> Layout:
        """Layout of the scene in this episode."""
        return self._scene.layout

    def ages(self) -> Mapping[str, float]:
        """No ages: simulated sensors are never silent."""
        return NO_AGES

    def apply(self, command: JointCommand) -> None:
        """One control step; the motors' PD loop closes in every physics step."""
        self._commands.put(self.time_s, command)
        self._physics(SUBSTEPS)

    def step(self, command: JointCommand) -> None:
        """One physics step."""
        self._commands.put(self.time_s, command)
        self._physics(1)

    def _physics(self, steps: int) -> None:
        """Physics steps under the commands that have reached the motors."""
        for _ in range(steps):
            command = self._commands.at(self.time_s)
            if command is not self._command:
                self._command = command
                self._motors = motors_under(command, self.spec, self._sample)
                self._settle(only_damps(command))
            self._torques = motor_torques(self._motors, *self._joints())
            self._drive(self._torques)
            self.advance()
            self._tick()

    def _settle(self, damped: bool) -> None:
        """Switch to stable damping while the motors only damp.

        Explicit damping diverges if kd dt / inertia exceeds 2, as for light legs without a load:
        3.2 at an A1's knees, 4.2 at a Go2's.
        """
        if damped != self._damped:
            self._damped = damped
            self._damp(self.spec.damping_nms_per_rad if damped else 0.0)

    def _tick(self) -> None:
        """End a physics step: advance the clock and moving shapes.

        A wall that moved by a whole control step at once would intersect the robot and throw it.
        """
        self.time_s += PHYSICS_DT_S
        self._scene.drive(self.time_s)

    def joint_angles(self) -> Array:
        """True joint angles (12,) [rad]."""
        return np.array(self._joints()[0])

    def render(self) -> Image:
        """Image of this episode's camera at this instant."""
        return Image(self._view(self._mounted, self.pose()), self.time_s)

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera on a base at a pose, by its sampling."""
        return sampled(self._scene.render, camera, pose)

    def render_rgb(self) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of this instant, whatever the camera's kind."""
        if self.camera.kind == "rgb":
            return self.render().pixels
        return self.render_both()[0]

    def render_depth(self) -> NDArray[np.float32]:
        """Depth (H, W) [m] of this instant, whatever the camera's kind."""
        depth: NDArray[np.float32] = self._scene.render(
            replace(self._mounted, kind="depth"), self.pose()
        )
        return depth

    def render_both(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m] of this instant, whatever the camera's kind."""
        return self._scene.render_both(self._mounted, self.pose())

    @property
    def _mounted(self) -> Camera:
        """The camera with this episode's mount errors."""
        return self.camera if self.sensors is None else self.sensors.camera.camera

    # Implemented by engines.

    @abstractmethod
    def close(self) -> None:
        """Free the engine."""

    @abstractmethod
    def pose(self) -> BasePose:
        """True pose of the base."""

    @abstractmethod
    def place(self, position: Vector, orientation: Quaternion) -> None:
        """Put the base at a pose, at rest."""

    @abstractmethod
    def push(self, velocity: Array) -> None:
        """Kick the base: add a velocity (3,) [m/s]."""

    @abstractmethod
    def touching(self) -> float | None:
        """Normal force [N] between the robot and obstacles now; None if it touches none."""

    @abstractmethod
    def loads(self) -> JointLoads:
        """Loads of motors and feet at this instant."""

    @abstractmethod
    def advance(self) -> None:
        """One physics step of the engine alone, with the set torques."""

    @abstractmethod
    def _damp(self, kd: float) -> None:
        """Damp the joints by about `kd` [Nm s/rad] and nothing else; 0: stop damping."""

    @abstractmethod
    def _measure(self, pose: BasePose) -> Reading:
        """Ideal sensor values of this instant; the rate is in the base frame, as of an IMU."""

    @abstractmethod
    def _joints(self) -> tuple[Sequence[float], Sequence[float]]:
        """Angles (12) [rad] and speeds (12) [rad/s] of the joints."""

    @abstractmethod
    def _drive(self, torques: list[float]) -> None:
        """Set the torques (12) [Nm] for the coming physics step."""

    @abstractmethod
    def _randomise(self, sample: Sample) -> None:
        """Apply an episode's sample to the body, from its original values."""

    @abstractmethod
    def _restore(self) -> None:
        """Restore the state before the first episode."""

    @abstractmethod
    def _set_joints(self, angles: Array) -> None:
        """Set the joints to angles (12,) [rad], at rest."""


def motors_under(command: JointCommand, spec: RobotSpec, sample: Sample) -> list[Motor]:
    """Motors of an episode under a command; the slope is the share of the limit lost per speed."""
    kp, kd, forward = command.kp, command.kd, command.feed_forward
    limit, slope = spec.torque_limit_nm, sample.torque_drop / spec.velocity_limit_rad_per_s
    if sample.strength != 1.0:
        kp, kd, forward, limit = (part * sample.strength for part in (kp, kd, forward, limit))
    parts = (command.targets, kp, kd, forward, limit, slope)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def only_damps(command: JointCommand) -> bool:
    """Whether motors only damp: no target and no torque is commanded."""
    return not command.kp.any() and not command.feed_forward.any()


def motor_torques(
    motors: Iterable[Motor], angles: Iterable[float], speeds: Iterable[float]
) -> list[float]:
    """Torques [Nm] of motors at these joint angles [rad] and speeds [rad/s].

    Explicit PD torque within the limit. A motor that drives its joint loses torque along the line
    from stall torque to no-load speed, as Isaac Lab's DCMotor; one that brakes loses none. Plain
    floats: for twelve joints numpy is slower, and this runs five times a control step.
    """
    torques = []
    for (target, kp, kd, forward, limit, slope), q, dq in zip(motors, angles, speeds, strict=True):
        torque = kp * (target - q) - kd * dq + forward
        if torque * dq > 0.0:
            left = 1.0 - slope * (dq if dq > 0.0 else -dq)
            limit = limit * left if left > 0.0 else 0.0
        torques.append(limit if torque > limit else -limit if torque < -limit else torque)
    return torques


def standing(spec: RobotSpec) -> JointCommand:
    """The command of a robot that stands."""
    return stiff(spec, standing_targets(spec))


def stiff(spec: RobotSpec, targets: Array, feed_forward: Array | None = None) -> JointCommand:
    """Targets (12,) [rad] with the robot's own gains, and feed-forward torques (12,) [Nm]."""
    effort = np.zeros_like(targets) if feed_forward is None else feed_forward
    return JointCommand(0.0, targets, spec.kp_nm_per_rad, spec.kd_nms_per_rad, effort)


def damped(spec: RobotSpec) -> JointCommand:
    """Damping without stiffness."""
    zeros = np.zeros(len(spec.joint_names))
    return JointCommand(0.0, zeros, zeros, zeros + spec.damping_nms_per_rad, zeros)


def limp(spec: RobotSpec) -> JointCommand:
    """No torque at all."""
    zeros = np.zeros(len(spec.joint_names))
    return JointCommand(0.0, zeros, zeros, zeros, zeros)
