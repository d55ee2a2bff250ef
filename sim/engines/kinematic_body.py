"""A robot without legs that follows commands as a trained low level does, for fast practice.

What a high level learns here physics has to confirm, but an episode costs little more than its
images. That lower fidelity need not hurt the navigation of legged robots is the finding of Truong
et al. 2022 (arXiv 2207.10821).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.controller import MAX_SPEED_M_PER_S, commanded
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.body.sensors import CameraStream
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.pybullet_scene import PyBulletScene
from pixelgait.sim.world.scene import Box, Mesh, Pose, Scene
from pixelgait.sim.world.seeds import Stream

# What the low level `walk` does on flat ground, measured, and somewhat more; drawn every episode.
LAG_S = (0.1, 0.3)  # time constant of speed and yaw rate behind their commands
SPEED_GAIN = (0.85, 1.05)
TURN_GAIN = (0.75, 1.1)
DRIFT_RAD_PER_S = (-0.1, 0.1)  # yaw rate when none is asked for
SLIP = (-0.1, 0.1)  # sideways, a share of the speed
HEIGHT_SHARE = 0.9  # of the standing height
# The trunk sways with the gait: deviations from image to image.
ROLL_RAD, PITCH_RAD, HEIGHT_M = 0.04, 0.03, 0.006
NOSE_M = 0.07  # the trunk's front, ahead of the front feet
STEP_M = 0.02  # nothing lower is an obstacle
LOOK_STEPS = 4  # between looks for collisions: 24 mm at full speed


class KinematicBody:
    """One gliding robot in one scene, with what tasks and cameras need of a `SimulatedBody`.

    Of a randomisation only the camera's part means anything here.
    """

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
        self._scene = PyBulletScene(scene, self.client)
        nose = (spec.feet_m[0, 0] + NOSE_M, 0.0)
        self._outline = np.vstack([spec.feet_m, nose])  # (5, 2) in the base frame
        self._obstacles = Obstacles([])
        self.time_s = 0.0

    def close(self) -> None:
        if pybullet.isConnected(physicsClientId=self.client):
            pybullet.disconnect(physicsClientId=self.client)

    def reset(self, seed: int) -> Reading:
        """Lay the scene out from the seed, draw the robot, put it at the start."""
        start = self._scene.reset(Stream.LAYOUT.rng(seed))
        placed = zip(self.scene.movable, self._scene.layout.movable, strict=True)
        top = start.z + self.spec.stand_height_m
        boxes = [(s, pose) for s, pose in placed if isinstance(s, Box)]
        meshes = [shape for shape in self.scene.fixed if isinstance(shape, Mesh)]
        boxes += [(box, box.pose) for mesh in meshes for box in mesh.boxes]
        self._obstacles = Obstacles([b for b in boxes if _between(b, start.z + STEP_M, top)])
        self._rng = rng = Stream.GAIT.rng(seed)
        self._lag_s, self._drift, self._slip = (
            rng.uniform(*r) for r in (LAG_S, DRIFT_RAD_PER_S, SLIP)
        )
        self._gains = rng.uniform(*SPEED_GAIN), rng.uniform(*TURN_GAIN)
        self._x, self._y, self._yaw = start.x, start.y, start.yaw
        self._z = start.z + HEIGHT_SHARE * self.spec.stand_height_m
        self._speed = self._yaw_rate = 0.0
        self._free_steps = 0.0
        self.time_s = 0.0
        self._eye: CameraStream | None = None
        if self.randomisation is not None:
            sample = self.randomisation.sample(Stream.GLIDER_CAMERA.rng(seed))
            self._eye = CameraStream(sample, self.camera, self._view, seed)
            self._eye.note(self.time_s, self.pose())
        return self.read()

    def read(self) -> Reading:
        """A reading of which only time, orientation and image mean anything."""
        none = np.zeros(len(self.spec.joint_names))
        orientation = np.array(self.pose().orientation)
        return Reading(self.time_s, none, none, orientation, np.zeros(3), self.render)

    def render(self) -> Image:
        """The camera's newest view; an ideal one's is that of this instant."""
        if self._eye is not None:
            return self._eye.newest(self.time_s)
        return Image(self._view(self.camera, self.pose()), self.time_s)

    def _view(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """What a camera sees from a trunk that sways about this pose."""
        (x, y, z), (_, _, sin, cos) = pose
        roll, pitch, lift = self._rng.normal(0.0, (ROLL_RAD, PITCH_RAD, HEIGHT_M)).tolist()
        swaying = pybullet.getQuaternionFromEuler((roll, pitch, 2.0 * math.atan2(sin, cos)))
        return self._scene.render(camera, BasePose((x, y, z + lift), swaying))

    def pose(self) -> BasePose:
        """Where the base is."""
        return BasePose((self._x, self._y, self._z), upright(self._yaw))

    def push(self, velocity: Array) -> None:
        """Add the part along the robot of a velocity (3,) [m/s]."""
        self._speed += math.cos(self._yaw) * velocity[0] + math.sin(self._yaw) * velocity[1]

    def follow(self, latent: Array) -> None:
        """One control step (10 ms) under a latent command (2,); obstacles stop it."""
        speed, yaw_rate = commanded(latent)
        share = CONTROL_DT_S / self._lag_s
        self._speed += share * (self._gains[0] * speed - self._speed)
        self._yaw_rate += share * (self._gains[1] * yaw_rate + self._drift - self._yaw_rate)
        ahead = self._speed * CONTROL_DT_S
        cos, sin = math.cos(self._yaw), math.sin(self._yaw)
        x = self._x + ahead * (cos - self._slip * sin)
        y = self._y + ahead * (sin + self._slip * cos)
        yaw = self._yaw + self._yaw_rate * CONTROL_DT_S
        if not self._stopped(x, y, yaw):
            self._x, self._y = x, y
        self._yaw = yaw
        self.time_s += CONTROL_DT_S
        self._scene.move(self.time_s)
        if self._eye is not None:
            self._eye.note(self.time_s, self.pose())

    def on_ground(self) -> bool:
        """Whether all feet are on ground to walk on."""
        feet = self._at(self._x, self._y, self._yaw)[:4]
        return None not in [self.scene.ground_m(x, y) for x, y in feet.tolist()]

    def _at(self, x: float, y: float, yaw: float) -> Array:
        """The outline (5, 2) of a robot there: its feet and its nose."""
        return Pose(x, y, 0.0, yaw).points(self._outline)

    def _stopped(self, x: float, y: float, yaw: float) -> bool:
        """Whether a step would lead into an obstacle, or deeper into one; turning is free."""
        self._free_steps -= 1
        if self._free_steps > 0:
            return False
        depth = self._obstacles.depth(self._at(x, y, yaw))
        if depth <= 0.0:
            # No corner moves faster than this, in a turn either: look again when one can have hit.
            steps = -depth / (2.0 * MAX_SPEED_M_PER_S * CONTROL_DT_S)
            self._free_steps = max(LOOK_STEPS, steps)
            return False
        return depth > self._obstacles.depth(self._at(self._x, self._y, self._yaw))


class Obstacles:
    """Upright boxes seen from above."""

    def __init__(self, boxes: list[tuple[Box, Pose]]) -> None:
        self.centre = np.array([(p.x, p.y) for _, p in boxes]).reshape(-1, 1, 2)
        self.half = np.array([b.half_m[:2] for b, _ in boxes]).reshape(-1, 1, 2)
        yaw = np.array([p.yaw for _, p in boxes]).reshape(-1, 1)
        self.cos, self.sin = np.cos(yaw), np.sin(yaw)

    def depth(self, points: Array) -> float:
        """How far any of the points (n, 2) is inside a box [m]; outside, minus the distance to the
        nearest one, or less than that."""
        if len(self.centre) == 0:
            return -math.inf
        x, y = np.moveaxis(points - self.centre, -1, 0)
        local = np.stack((self.cos * x + self.sin * y, self.cos * y - self.sin * x), -1)
        return float((self.half - np.abs(local)).min(-1).max())


def _between(box: tuple[Box, Pose], low: float, high: float) -> bool:
    """Whether a box reaches into these heights [m]: not stored away, not hovering above."""
    shape, pose = box
    return pose.z - shape.half_m[2] < high and pose.z + shape.half_m[2] > low
