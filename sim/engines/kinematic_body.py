"""Kinematic (gliding) robot: follows velocity commands without legs, fast.

For training high levels, which are then evaluated in physics: an episode costs little more than its
images. Lower fidelity need not hurt the navigation of legged robots (Truong et al. 2022, arXiv
2207.10821).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import commanded
from pixelgait.robot.estimation.leg_odometry import up_in_base
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.rotation import heading, rotation_at, upright
from pixelgait.robot.spec import Array, CameraMount, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose, JointLoads
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.body.sampling import sampled
from pixelgait.sim.body.sensors import CameraStream, with_drawn_eye
from pixelgait.sim.engines.cast_scene import CastScene
from pixelgait.sim.engines.gliding import (
    HEIGHT_SHARE,
    KEPT,
    ROBOT,
    STRIDE_HZ,
    TRUNK,
    Surroundings,
    follow,
    record,
    surroundings,
    trunk_at,
)
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.engines.urdf import HOUSING_M
from pixelgait.sim.world.ground import Ground, make_ground
from pixelgait.sim.world.obstacles import along, moving_obstacles, needed_height_m, obstacle_boxes
from pixelgait.sim.world.scene import Layout, Mesh, Pose, Scene
from pixelgait.sim.world.seeds import Stream

# Ranges drawn every episode: measured on flat ground with the low level `walk`, and widened
# (assumption).
LAG_S = (0.1, 0.3)  # time constant of speed and yaw rate behind their commands
SPEED_GAIN = (0.85, 1.05)
TURN_GAIN = (0.9, 1.1)  # as the controller's heading hold makes it
DRIFT_RAD_PER_S = (-0.03, 0.03)  # yaw rate without a command
SLIP = (-0.1, 0.1)  # sideways, a share of the speed
# Randomised robots sway up to twice as much; the lower bound and the range of the stride's
# frequency are assumptions.
SIZE, FREQUENCY = (0.8, 2.0), (0.97, 1.03)
NOSE_M = 0.07  # assumption: the trunk's front beyond the feet
NOSE_HALF_M = 0.1  # half its width, from the A1's URDF
STEP_ASIDE_M = 0.05  # lateral motion of the feet of `walk`; measured: 0.036 to 0.062
POST_M = 0.05  # assumption: distance of the points on the outline; obstacles are no narrower
SAMPLED_M, SAMPLED_REACH_M = 0.05, 16.0  # grid of a ground that is known point by point
SAMPLED_ANEW_M = 10.0  # so far from its middle; the longest decision takes a robot 5 m further


class Poses:
    """Recorded poses of the trunk."""

    def __init__(self, robot: Any, trunk: Array) -> None:
        self._robot, self._trunk = robot, trunk

    def at(self, time_s: float) -> Array:
        """Position [m] and orientation xyzw (7,) at a time [s]."""
        pose = np.empty(7)
        trunk_at(self._robot, self._trunk, time_s, pose)
        return pose


class KinematicBody:
    """One gliding robot in one scene, with the parts of a `SimulatedBody` for tasks and cameras.

    Only camera, odometry and heading are randomised.
    """

    seed: int  # of this episode
    height_m: float  # that it needs above the ground in this episode, with its camera
    around: Surroundings  # of this episode
    mount: CameraMount  # of this episode's camera, as the robot knows it
    middle_m: tuple[float, float]  # x, y about which what is known point by point is sampled

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
        self._scene = _drawn(scene)
        reach_m, half_m = np.abs(spec.feet_m).max(0).tolist()
        # A camera may protrude from the trunk, and must not get into a wall.
        front_m = max(reach_m + NOSE_M, spec.camera.position_m[0] + HOUSING_M)
        front, wide = (front_m, NOSE_HALF_M), (reach_m, half_m + STEP_ASIDE_M)
        left = np.array([front, wide, (-wide[0], wide[1])])
        hull = along(np.vstack([left, left[::-1] * (1.0, -1.0)]), POST_M)
        self._outline = np.vstack([spec.feet_m, hull])  # (n, 2) in the base frame
        self.robot = np.zeros(1, ROBOT).view(np.recarray)
        self.trunk = np.zeros((KEPT, TRUNK))
        self._poses = Poses(self.robot, self.trunk)
        self._stream: CameraStream | None = None  # None: an ideal camera
        self._heading_drift_rad_per_s = 0.0  # of the IMU

    def close(self) -> None:
        """Disconnect from PyBullet, where it draws the scene."""
        if isinstance(self._scene, PyBulletScene) and pybullet.isConnected(self._scene.client):
            pybullet.disconnect(self._scene.client)

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed, draw the robot and put it at the start."""
        self.seed = seed
        start = self._scene.reset(Stream.LAYOUT.rng(seed))
        sample, camera = None, self.camera
        if self.randomisation is not None:
            sample = self.randomisation.sample(Stream.GLIDER_CAMERA.rng(seed))
            camera = with_drawn_eye(camera, sample, self.spec.stand_height_m)
        self.mount = camera.mount
        self.height_m = needed_height_m(self.spec, camera.mount)
        obstacles = self.scene, self.layout, self.height_m
        self.middle_m = start.x, start.y
        self.around = surroundings(
            self._outline,
            _ground(self.scene, self.middle_m),
            obstacle_boxes(*obstacles),
            moving_obstacles(*obstacles),
            POST_M / 2,
        )
        self._draw(Stream.GAIT.rng(seed), start)
        self._stream, self._heading_drift_rad_per_s = None, 0.0
        if sample is not None:
            self._stream = CameraStream(sample, camera, self._view, seed, self._poses)
            self.robot.odometry_scale = sample.odometry_scale
            self.robot.odometry_turn_rad_per_m = sample.odometry_turn_rad_per_m
            self._heading_drift_rad_per_s = sample.heading_drift_rad_per_s
        record(self.robot, self.around, self.trunk)
        return self.read()

    def _draw(self, rng: np.random.Generator, start: Pose) -> None:
        """Draw the robot of an episode, and put it at the start."""
        robot, stand_m = self.robot, self.spec.stand_height_m
        robot[:] = np.zeros(1, ROBOT)
        robot.lag_s, robot.drift_rad_per_s = rng.uniform(*LAG_S), rng.uniform(*DRIFT_RAD_PER_S)
        robot.slip, robot.speed_gain = rng.uniform(*SLIP), rng.uniform(*SPEED_GAIN)
        robot.turn_gain = rng.uniform(*TURN_GAIN)
        robot.sway, robot.stride_hz = rng.uniform(*SIZE), STRIDE_HZ * rng.uniform(*FREQUENCY)
        robot.phases = rng.uniform(0.0, 2.0 * np.pi, 5)
        robot.odometry_scale = 1.0
        robot.stand_m = stand_m
        robot.x, robot.y, robot.yaw = start.x, start.y, start.yaw
        robot.z = start.z + HEIGHT_SHARE * stand_m
        robot.odometry_x, robot.odometry_y, robot.odometry_yaw = start.x, start.y, start.yaw

    @property
    def layout(self) -> Layout:
        """Layout of the scene in this episode."""
        return self._scene.layout

    @property
    def time_s(self) -> float:
        """Since the reset [s]."""
        return float(self.robot.time_s[0])

    def odometry_at(self, time_s: float) -> tuple[float, float, Array]:
        """x, y [m] and rotation (3, 3) of the trunk at a time, by odometry of now."""
        x, y, _, *orientation = self._poses.at(time_s).tolist()
        robot = self.robot[0]
        turn = float(robot.odometry_yaw - robot.yaw)
        cos, sin = math.cos(turn), math.sin(turn)
        dx, dy = x - float(robot.x), y - float(robot.y)
        up = up_in_base(orientation)
        return (
            float(robot.odometry_x) + cos * dx - sin * dy,
            float(robot.odometry_y) + sin * dx + cos * dy,
            rotation_at(up, heading(orientation) + turn),
        )

    def read(self) -> Reading:
        """A reading with zeros for joints and angular velocity."""
        none, robot = np.zeros(len(self.spec.joint_names)), self.robot[0]
        orientation = np.array(upright(self.heading_rad()))
        odometry = np.array((robot.odometry_x, robot.odometry_y, robot.odometry_yaw))
        return Reading(self.time_s, none, none, orientation, np.zeros(3), self.render, odometry)

    def heading_rad(self) -> float:
        """Heading by the IMU [rad], which drifts."""
        return float(self.robot.yaw[0]) + self._heading_drift_rad_per_s * self.time_s

    def render(self) -> Image:
        """The camera's newest image; that of this instant for an ideal camera."""
        if self._stream is not None:
            return self._stream.newest(self.time_s)
        return Image(self._view(self.camera, self.trunk_pose()), self.time_s)

    def render_rgb(self) -> NDArray[np.uint8]:
        """Colours (H, W, 3) of this instant, whatever the camera's kind."""
        camera = self.camera if self._stream is None else self._stream.camera
        return np.asarray(self._view(replace(camera, kind="rgb"), self.trunk_pose()))

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera on a trunk at a pose; moving shapes are moved only when rendered."""
        self._scene.move(self.time_s)
        return sampled(self._scene.render, camera, pose)

    def trunk_pose(self) -> BasePose:
        """Pose of the trunk under the camera: it sways, and follows the slope of the ground."""
        x, y, z, *orientation = self._poses.at(self.time_s).tolist()
        return BasePose((x, y, z), tuple(orientation))

    def pose(self) -> BasePose:
        """True pose of the base."""
        robot = self.robot[0]
        place = float(robot.x), float(robot.y), float(robot.z)
        return BasePose(place, upright(float(robot.yaw)))

    def touching(self) -> float | None:
        """0 while an obstacle stops the robot or runs into it (it has no mass), else None."""
        robot = self.robot[0]
        return 0.0 if robot.stopped or robot.run_into else None

    def joint_angles(self) -> Array:
        """Joint angles of a standing robot: this one has no legs."""
        return self.spec.default_pose_rad

    def loads(self) -> JointLoads:
        """Zeros: the robot has neither motors nor feet."""
        joints, legs = np.zeros(len(self.spec.joint_names)), np.zeros(len(self.spec.feet_m))
        return JointLoads(joints, joints, legs, legs)

    def push(self, velocity: Array) -> None:
        """Add the component along the robot of a velocity (3,) [m/s]."""
        yaw = float(self.robot.yaw[0])
        self.robot.speed += np.cos(yaw) * velocity[0] + np.sin(yaw) * velocity[1]

    def follow(self, latent: Array) -> None:
        """One control step (10 ms) under a latent command (2,); obstacles stop it."""
        follow(self.robot, *commanded(latent), self.around, self.trunk)
        self.sample_anew()

    def sample_anew(self) -> bool:
        """Sample what is known point by point about a robot that nears the edge; whether it did."""
        robot = self.robot[0]
        x, y = self.middle_m
        if max(abs(robot.x - x), abs(robot.y - y)) < SAMPLED_ANEW_M:
            return False
        self.middle_m = float(robot.x), float(robot.y)
        self.around = self.around._replace(ground=_ground(self.scene, self.middle_m))
        return True

    def on_ground(self) -> bool:
        """Whether all feet are on ground."""
        return bool(self.robot.on_ground[0])


def _drawn(scene: Scene) -> CastScene | PyBulletScene:
    """Renderer of a scene: rays, or PyBullet where there are meshes."""
    if any(isinstance(shape, Mesh) for shape in scene.fixed):
        return PyBulletScene(scene, pybullet.connect(pybullet.DIRECT))
    return CastScene(scene)


def _ground(scene: Scene, middle_m: tuple[float, float]) -> Ground:
    """Ground of a scene's layout; one that is known point by point is sampled on a grid."""
    ground = scene.ground()
    if ground is not None:
        return ground
    steps = np.arange(-SAMPLED_REACH_M, SAMPLED_REACH_M + SAMPLED_M / 2, SAMPLED_M).tolist()
    x, y = middle_m
    points = ((x + ahead, y + aside) for ahead in steps for aside in steps)
    heights = [scene.ground_m(*point) for point in points]
    grid = np.array([np.nan if h is None else h for h in heights]).reshape(len(steps), -1)
    reach = SAMPLED_REACH_M
    edges = x - reach, x + reach, y - reach, y + reach, 0.0
    return make_ground([edges], grid, (x, y, 1.0, SAMPLED_M))
