"""Kinematic (gliding) robot: follows velocity commands without legs, fast.

For training high levels, which are then evaluated in physics: an episode costs little more than its
images. Lower fidelity need not hurt the navigation of legged robots (Truong et al. 2022, arXiv
2207.10821).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import MAX_SPEED_M_PER_S, MAX_YAW_RATE_RAD_PER_S, commanded
from pixelgait.robot.control.low_level import LEAST_COMMAND
from pixelgait.robot.interface import CONTROL_DT_S, Image, Reading
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose, JointLoads
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.body.sensors import CameraStream, DriftingOdometry
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.urdf import HOUSING_M
from pixelgait.sim.world.obstacles import Obstacles, along, moving_obstacles, obstacle_boxes
from pixelgait.sim.world.scene import Layout, Pose, Scene
from pixelgait.sim.world.seeds import Stream

# Ranges drawn every episode: measured on flat ground with the low level `walk`, and widened
# (assumption).
LAG_S = (0.1, 0.3)  # time constant of speed and yaw rate behind their commands
SPEED_GAIN = (0.85, 1.05)
TURN_GAIN = (0.9, 1.1)  # as the controller's heading hold makes it
DRIFT_RAD_PER_S = (-0.03, 0.03)  # yaw rate without a command
SLIP = (-0.1, 0.1)  # sideways, a share of the speed
HEIGHT_SHARE = 0.9  # reported height of the base, of the standing height: that at 0.4 m/s
NOSE_M = 0.07  # assumption: the trunk's front beyond the feet
NOSE_HALF_M = 0.1  # half its width, from the A1's URDF
STEP_ASIDE_M = 0.05  # lateral motion of the feet of `walk`; measured: 0.036 to 0.062
POST_M = 0.05  # assumption: distance of the points on the outline, the narrowest obstacle
FEET = slice(0, 4)  # of the outline
CHECK_M = 0.012  # least approach between two collision checks: a step at full speed

# Trunk motion, fitted to measurements: see `TrunkMotion`.
STRIDE_HZ = 2.62
# Standard deviations at a speed v [m/s] and a yaw rate w [rad/s]; see `TrunkMotion.at`.
ROLL_RAD, ROLL_FALLS = 0.015, 0.015  # per m/s
PITCH_RAD, PITCH_GROWS, PITCH_TURNING = 0.002, 0.03, 0.0045  # per (m/s)^2; per rad/s
HEIGHT_M, HEIGHT_FALLS, HEIGHT_TURNING_M = 0.004, 0.0028, 0.0025  # per m/s; per rad/s
LEAN, UPRIGHT_M_PER_S = -0.05, 0.75  # mean roll per yaw rate on the spot; none at this speed
NOSE_UP_RAD, NOSE_UP_GROWS = -0.005, -0.022  # mean pitch; per m/s
STANDING_SHARE, WALKING_SHARE, SINKS = 0.965, 0.92, 0.055  # of the standing height; per m/s
# Below these commands its steps are smaller.
WHOLE_STEP_M_PER_S = LEAST_COMMAND * MAX_SPEED_M_PER_S
WHOLE_STEP_RAD_PER_S = LEAST_COMMAND * MAX_YAW_RATE_RAD_PER_S
# Drawn every episode. Randomised robots sway up to twice as much; the lower bound and the range of
# the stride's frequency are assumptions.
SIZE, FREQUENCY = (0.8, 2.0), (0.97, 1.03)


@dataclass(frozen=True, slots=True)
class Gait:
    """Command tracking of one episode's robot; see the ranges above."""

    lag_s: float
    drift_rad_per_s: float
    slip: float
    speed_gain: float
    turn_gain: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Gait:
        """Draw a robot."""
        ranges = (LAG_S, DRIFT_RAD_PER_S, SLIP, SPEED_GAIN, TURN_GAIN)
        return cls(*(rng.uniform(*each) for each in ranges))


@dataclass(slots=True)
class GliderState:
    """The state of one episode."""

    gait: Gait
    sway: TrunkMotion
    obstacles: Obstacles
    x: float
    y: float
    z: float
    yaw: float
    speed: float = 0.0  # [m/s]
    yaw_rate: float = 0.0  # [rad/s]
    free_steps: float = 0.0  # without a possible collision
    stopped: bool = False  # by an obstacle, in the last step
    run_into: bool = False  # by an obstacle that moves, in the last step
    camera: CameraStream | None = None  # None: an ideal one
    odometry: DriftingOdometry | None = None  # None: an ideal one
    heading_drift_rad_per_s: float = 0.0  # of the IMU


class KinematicBody:
    """One gliding robot in one scene, with the parts of a `SimulatedBody` for tasks and cameras.

    Only camera, odometry and heading are randomised.
    """

    seed: int  # of this episode
    state: GliderState  # since the first reset

    def __init__(
        self,
        spec: RobotSpec,
        scene: Scene,
        *,
        camera: Camera | None = None,
        randomisation: Randomisation | None = None,
    ) -> None:
        self.spec = spec
        self.randomisation = randomisation
        self.scene = scene
        self.camera = camera or Camera(spec.camera)
        self.client: int = pybullet.connect(pybullet.DIRECT)
        self._scene = PyBulletScene(scene, self.client, alone=True)
        reach_m, half_m = np.abs(spec.feet_m).max(0).tolist()
        # A camera may protrude from the trunk, and must not get into a wall.
        front_m = max(reach_m + NOSE_M, spec.camera.position_m[0] + HOUSING_M)
        front, wide = (front_m, NOSE_HALF_M), (reach_m, half_m + STEP_ASIDE_M)
        left = np.array([front, wide, (-wide[0], wide[1])])
        hull = along(np.vstack([left, left[::-1] * (1.0, -1.0)]), POST_M)
        self._outline = np.vstack([spec.feet_m, hull])  # (n, 2) in the base frame
        self._height_m = HEIGHT_SHARE * spec.stand_height_m
        self.time_s = 0.0

    def close(self) -> None:
        """Disconnect from PyBullet."""
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed, draw the robot and put it at the start."""
        self.seed = seed
        start = self._scene.reset(Stream.LAYOUT.rng(seed))
        rng = Stream.GAIT.rng(seed)
        height = start.z + self._height_m
        surroundings = self.scene, self.layout, self.spec.stand_height_m
        self.state = GliderState(
            Gait.draw(rng),
            TrunkMotion.draw(rng),
            Obstacles(obstacle_boxes(*surroundings), moving_obstacles(*surroundings)),
            start.x,
            start.y,
            height,
            start.yaw,
        )
        self.time_s = 0.0
        if self.randomisation is not None:
            sample = self.randomisation.sample(Stream.GLIDER_CAMERA.rng(seed))
            self.state.camera = CameraStream(sample, self.camera, self._view, seed)
            self.state.camera.observe(self.time_s, self._trunk_pose())
            drift = sample.odometry_scale, sample.odometry_turn_rad_per_m
            self.state.odometry = DriftingOdometry(*drift)
            self.state.heading_drift_rad_per_s = sample.heading_drift_rad_per_s
        return self.read()

    @property
    def layout(self) -> Layout:
        """Layout of the scene in this episode."""
        return self._scene.layout

    def read(self) -> Reading:
        """A reading with zeros for joints and angular velocity."""
        none, state = np.zeros(len(self.spec.joint_names)), self.state
        drifted = state.heading_drift_rad_per_s * self.time_s
        orientation = np.array(upright(state.yaw + drifted))
        odometry = np.array((state.x, state.y, state.yaw))
        if state.odometry is not None:
            odometry = state.odometry.read(odometry)
        return Reading(self.time_s, none, none, orientation, np.zeros(3), self.render, odometry)

    def render(self) -> Image:
        """The camera's newest image; that of this instant for an ideal camera."""
        if self.state.camera is not None:
            return self.state.camera.newest(self.time_s)
        return Image(self._view(self.camera, self._trunk_pose()), self.time_s)

    def render_rgb(self) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of this instant, whatever the camera's kind."""
        camera = self.camera if self.state.camera is None else self.state.camera.camera
        return np.asarray(self._view(replace(camera, kind="rgb"), self._trunk_pose()))

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera on a trunk at a pose; swinging shapes are moved only when rendered."""
        self._scene.move(self.time_s)
        return self._scene.render(camera, pose)

    def _trunk_pose(self) -> BasePose:
        """Pose of the trunk under the camera: it sways, and follows the slope of the ground."""
        state, height_m = self.state, self.spec.stand_height_m
        trunk = state.sway.at(self.time_s, state.speed, state.yaw_rate)
        up_roll, up_pitch = self._ground_slope()
        z = state.z + (1.0 - HEIGHT_SHARE - trunk.sunk_share) * height_m + trunk.lift_m
        euler = (trunk.roll_rad + up_roll, trunk.pitch_rad + up_pitch, state.yaw)
        return BasePose((state.x, state.y, z), pybullet.getQuaternionFromEuler(euler))

    def _ground_slope(self) -> tuple[float, float]:
        """Roll and pitch of the ground between the feet [rad]; 0 if a foot has no ground."""
        state, feet = self.state, self.spec.feet_m
        places = self._at(state.x, state.y, state.yaw)[FEET].tolist()
        heights = [self.scene.ground_m(x, y) for x, y in places]
        if None in heights or len(set(heights)) == 1:
            return 0.0, 0.0
        x_slope, y_slope = np.linalg.lstsq(  # of the plane nearest to all feet
            np.column_stack((feet, np.ones(4))), np.array(heights), rcond=None
        )[0][:2].tolist()
        return math.atan(y_slope), -math.atan(x_slope)

    def pose(self) -> BasePose:
        """True pose of the base."""
        state = self.state
        return BasePose((state.x, state.y, state.z), upright(state.yaw))

    def touching(self) -> float | None:
        """0 while an obstacle stops the robot or runs into it (it has no mass), else None."""
        return 0.0 if self.state.stopped or self.state.run_into else None

    def joint_angles(self) -> Array:
        """Joint angles of a standing robot: this one has no legs."""
        return self.spec.default_pose_rad

    def loads(self) -> JointLoads:
        """Zeros: the robot has neither motors nor feet."""
        joints, legs = np.zeros(len(self.spec.joint_names)), np.zeros(len(self.spec.feet_m))
        return JointLoads(joints, joints, legs, legs)

    def push(self, velocity: Array) -> None:
        """Add the component along the robot of a velocity (3,) [m/s]."""
        cos, sin = math.cos(self.state.yaw), math.sin(self.state.yaw)
        self.state.speed += cos * velocity[0] + sin * velocity[1]

    def follow(self, latent: Array) -> None:
        """One control step (10 ms) under a latent command (2,); obstacles stop it."""
        state, gait = self.state, self.state.gait
        speed, yaw_rate = commanded(latent)
        share = CONTROL_DT_S / gait.lag_s
        state.speed += share * (gait.speed_gain * speed - state.speed)
        turned = gait.turn_gain * yaw_rate + gait.drift_rad_per_s
        state.yaw_rate += share * (turned - state.yaw_rate)
        ahead = state.speed * CONTROL_DT_S
        cos, sin = math.cos(state.yaw), math.sin(state.yaw)
        x = state.x + ahead * (cos - gait.slip * sin)
        y = state.y + ahead * (sin + gait.slip * cos)
        yaw = state.yaw + state.yaw_rate * CONTROL_DT_S
        state.stopped = self._stopped(x, y, yaw)
        if not state.stopped:
            state.x, state.y = x, y
            ground = self.scene.ground_m(x, y)
            state.z = state.z if ground is None else ground + self._height_m
        state.yaw = yaw
        self.time_s += CONTROL_DT_S
        if state.camera is not None:
            state.camera.observe(self.time_s, self._trunk_pose())

    def on_ground(self) -> bool:
        """Whether all feet are on ground."""
        feet = self._at(self.state.x, self.state.y, self.state.yaw)[FEET]
        return None not in [self.scene.ground_m(x, y) for x, y in feet.tolist()]

    def _at(self, x: float, y: float, yaw: float) -> Array:
        """Outline (n, 2) [m] of the robot at a pose: its feet first, then its hull."""
        return Pose(x, y, 0.0, yaw).points(self._outline)

    def _stopped(self, x: float, y: float, yaw: float) -> bool:
        """Whether a step would lead into an obstacle, or deeper into one; turning never does."""
        state = self.state
        state.free_steps -= 1
        if state.free_steps > 0:
            return False
        state.obstacles.move(self.time_s)
        depth, state.run_into = state.obstacles.depth(self._at(x, y, yaw)), False
        if depth <= 0.0:
            # No corner moves faster than this, turns included: check again when one can have hit.
            fastest = 2.0 * MAX_SPEED_M_PER_S + state.obstacles.fastest_m_per_s
            state.free_steps = max(CHECK_M, -depth) / (fastest * CONTROL_DT_S)
            return False
        here = self._at(state.x, state.y, state.yaw)
        state.run_into = state.obstacles.depth(here, moving=True) > 0.0
        return depth > state.obstacles.depth(here)


class TrunkOffset(NamedTuple):
    """Deviation of a trunk from level, at its standing height."""

    roll_rad: float
    pitch_rad: float  # nose down
    sunk_share: float  # of the standing height
    lift_m: float  # in addition


@dataclass(frozen=True, slots=True)
class TrunkMotion:
    """Roll, pitch and height of a trotting trunk: one episode's amplitude, frequency and phases.

    Fitted to `walk` on flat ground, in PyBullet and MuJoCo alike, over 13 s of each of nine
    commands. All but a few per cent of the motion is at the frequency of the stride (roll; in turns
    also pitch and height) and at twice that frequency (pitch and height);
    tests/sim/test_trunk_motion.py compares the two. On ramps of 10 degrees the trunk is as steep as
    the ground (1.1 times, correlation 0.99).
    """

    size: float
    stride_hz: float
    phases: tuple[float, ...]  # [rad] of roll, pitch and height, at once and at twice the stride

    @classmethod
    def draw(cls, rng: np.random.Generator) -> TrunkMotion:
        """Draw a robot."""
        size, frequency = rng.uniform(*SIZE), rng.uniform(*FREQUENCY)
        return cls(
            float(size),
            float(STRIDE_HZ * frequency),
            tuple(rng.uniform(0.0, 2.0 * math.pi, 5).tolist()),
        )

    def at(self, time_s: float, speed: float, yaw_rate: float) -> TrunkOffset:
        """The trunk at a time [s], at a speed [m/s] and yaw rate [rad/s]."""
        v, w = min(abs(speed), UPRIGHT_M_PER_S), abs(yaw_rate)
        step = min(1.0, max(v / WHOLE_STEP_M_PER_S, w / WHOLE_STEP_RAD_PER_S))
        turn = 2.0 * math.pi * self.stride_hz * time_s
        waves = (
            math.sqrt(2.0) * math.sin(n * turn + phase)
            for n, phase in zip((1, 1, 2, 1, 2), self.phases, strict=True)
        )
        roll, pitch, pitch_twice, height, height_twice = waves
        size = self.size * step
        lean = LEAN * yaw_rate * (1.0 - v / UPRIGHT_M_PER_S)
        return TrunkOffset(
            lean + size * max(0.0, ROLL_RAD - ROLL_FALLS * v) * roll,
            NOSE_UP_RAD
            + NOSE_UP_GROWS * v
            + size * ((PITCH_RAD + PITCH_GROWS * v * v) * pitch_twice + PITCH_TURNING * w * pitch),
            1.0 - STANDING_SHARE + step * (STANDING_SHARE - WALKING_SHARE) + SINKS * v,
            size * ((HEIGHT_M - HEIGHT_FALLS * v) * height_twice + HEIGHT_TURNING_M * w * height),
        )
