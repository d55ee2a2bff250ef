"""First-person RGB camera on the robot, rendered by PyBullet's TinyRenderer on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array, CameraMount
from pixelgait.sim.bullet import pybullet

NEAR_M, FAR_M = 0.05, 30.0
LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera; images are (height, width, 3) uint8 RGB."""

    mount: CameraMount
    width: int = 32
    height: int = 32

    def axes(self, position: tuple[float, ...], rotation: Array) -> tuple[Array, Array, Array]:
        """Eye, forward and up in the world, (3,) each, for a base at xyz [m], rotated (3, 3)."""
        down = self.mount.pitch_down_rad
        forward = rotation @ (np.cos(down), 0.0, -np.sin(down))
        up = rotation @ (np.sin(down), 0.0, np.cos(down))
        return np.asarray(position) + rotation @ self.mount.position_m, forward, up

    def render(
        self, client: int, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> NDArray[np.uint8]:
        """What the camera sees from a base at this pose (xyz [m], quaternion xyzw)."""
        rotation = np.reshape(pybullet.getMatrixFromQuaternion(orientation), (3, 3))
        eye, forward, up = self.axes(position, rotation)
        view = pybullet.computeViewMatrix(eye, eye + forward, up)
        return render_rgb(client, view, self.mount.vertical_fov_rad, self.width, self.height)


def render_rgb(
    client: int, view: list[float], vertical_fov_rad: float, width: int, height: int
) -> NDArray[np.uint8]:
    """One frame (height, width, 3) from a view matrix."""
    projection = pybullet.computeProjectionMatrixFOV(
        np.degrees(vertical_fov_rad), width / height, NEAR_M, FAR_M
    )
    frame = pybullet.getCameraImage(
        width,
        height,
        view,
        projection,
        shadow=0,
        lightDirection=LIGHT,
        renderer=pybullet.ER_TINY_RENDERER,
        flags=pybullet.ER_NO_SEGMENTATION_MASK,
        physicsClientId=client,
    )
    return np.ascontiguousarray(np.reshape(frame[2], (height, width, 4))[:, :, :3], dtype=np.uint8)
