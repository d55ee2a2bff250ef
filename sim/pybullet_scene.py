"""Scenes in PyBullet."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.sim.bullet import pybullet
from pixelgait.sim.scenes import Box, Plane, Pose, Scene


class PyBulletScene:
    """A scene built in one PyBullet client."""

    def __init__(self, scene: Scene, client: int) -> None:
        self.scene = scene
        self.client = client
        for shape in scene.fixed:
            self._add(shape)
        self._movable = [self._add(box) for box in scene.movable]

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns where the robot starts."""
        layout = self.scene.layout(rng)
        for body, pose in zip(self._movable, layout.movable, strict=True):
            pybullet.resetBasePositionAndOrientation(
                body, (pose.x, pose.y, pose.z), quaternion(pose.yaw), physicsClientId=self.client
            )
        return layout.start

    def _add(self, shape: Box | Plane) -> int:
        body = self._box(shape) if isinstance(shape, Box) else self._plane()
        pybullet.changeDynamics(
            body, -1, lateralFriction=shape.friction, physicsClientId=self.client
        )
        return body

    def _box(self, box: Box) -> int:
        client = self.client
        shape = pybullet.createCollisionShape(
            pybullet.GEOM_BOX, halfExtents=box.half_m, physicsClientId=client
        )
        visual = pybullet.createVisualShape(
            pybullet.GEOM_BOX,
            halfExtents=box.half_m,
            rgbaColor=(*box.colour, 1.0),
            specularColor=(0, 0, 0),
            physicsClientId=client,
        )
        pose = box.pose
        body: int = pybullet.createMultiBody(
            0,
            shape,
            visual,
            (pose.x, pose.y, pose.z),
            quaternion(pose.yaw),
            physicsClientId=client,
        )
        return body

    def _plane(self) -> int:
        plane = pybullet.createCollisionShape(
            pybullet.GEOM_PLANE, planeNormal=(0, 0, 1), physicsClientId=self.client
        )
        body: int = pybullet.createMultiBody(0, plane, physicsClientId=self.client)
        return body


def quaternion(yaw: float) -> tuple[float, float, float, float]:
    """Heading [rad] as a quaternion xyzw."""
    return (0.0, 0.0, math.sin(yaw / 2.0), math.cos(yaw / 2.0))
