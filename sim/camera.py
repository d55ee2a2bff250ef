"""First-person RGB or depth camera on the robot, rendered by PyBullet's TinyRenderer on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array, CameraMount
from pixelgait.sim.bullet import pybullet

NEAR_M, FAR_M = 0.05, 30.0
LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera.

    Images are (height, width, 3) uint8 RGB or (height, width) float32 depth: metres along the
    optical axis through the pixels' centres, `FAR_M` where nothing is nearer.
    """

    mount: CameraMount
    width: int = 32
    height: int = 32
    kind: Literal["rgb", "depth"] = "rgb"
    light: tuple[float, float, float] = LIGHT

    def axes(self, position: tuple[float, ...], rotation: Array) -> tuple[Array, Array, Array]:
        """Eye, forward and up in the world, (3,) each, for a base at xyz [m], rotated (3, 3)."""
        down = self.mount.pitch_down_rad
        forward = rotation @ (np.cos(down), 0.0, -np.sin(down))
        up = rotation @ (np.sin(down), 0.0, np.cos(down))
        return np.asarray(position) + rotation @ self.mount.position_m, forward, up

    def render(
        self, client: int, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> NDArray[Any]:
        """What the camera sees from a base at this pose (xyz [m], quaternion xyzw)."""
        rotation = np.reshape(pybullet.getMatrixFromQuaternion(orientation), (3, 3))
        eye, forward, up = self.axes(position, rotation)
        view = pybullet.computeViewMatrix(eye, eye + forward, up)
        fov, width, height = self.mount.vertical_fov_rad, self.width, self.height
        if self.kind == "depth":
            return render_depth(client, view, fov, width, height)
        return render_rgb(client, view, fov, width, height, self.light)


def render_rgb(
    client: int,
    view: list[float],
    vertical_fov_rad: float,
    width: int,
    height: int,
    light: tuple[float, float, float] = LIGHT,
) -> NDArray[np.uint8]:
    """One frame (height, width, 3) from a view matrix."""
    projection = _projection(vertical_fov_rad, width, height)
    pixels = _frame(client, view, projection, width, height, light)[2]
    return np.ascontiguousarray(np.reshape(pixels, (height, width, 4))[:, :, :3], dtype=np.uint8)


def render_depth(
    client: int, view: list[float], vertical_fov_rad: float, width: int, height: int
) -> NDArray[np.float32]:
    """Depth along the optical axis [m] (height, width) from a view matrix."""
    projection = _projection(vertical_fov_rad, width, height)
    # The renderer looks through a pixel's lower left corner; half a pixel lower is 0.1 m nearer on
    # the ground 1.4 m ahead.
    projection[8] += 1.0 / width
    projection[9] += 1.0 / height
    buffer = np.reshape(_frame(client, view, projection, width, height)[3], (height, width))
    depth = FAR_M * NEAR_M / (FAR_M - (FAR_M - NEAR_M) * buffer.astype(np.float64))
    return np.asarray(depth, dtype=np.float32)


def _projection(vertical_fov_rad: float, width: int, height: int) -> list[float]:
    """OpenGL's projection matrix, column by column (16)."""
    return list(
        pybullet.computeProjectionMatrixFOV(
            np.degrees(vertical_fov_rad), width / height, NEAR_M, FAR_M
        )
    )


def _frame(
    client: int,
    view: list[float],
    projection: list[float],
    width: int,
    height: int,
    light: tuple[float, float, float] = LIGHT,
) -> tuple[Any, ...]:
    """PyBullet's frame: width, height, RGBA, depth buffer (0 to 1), nothing."""
    frame: tuple[Any, ...] = pybullet.getCameraImage(
        width,
        height,
        view,
        projection,
        shadow=0,
        lightDirection=light,
        renderer=pybullet.ER_TINY_RENDERER,
        flags=pybullet.ER_NO_SEGMENTATION_MASK,
        physicsClientId=client,
    )
    return frame
