"""First-person RGB, depth and RGB-D camera, rendered by PyBullet's TinyRenderer on the CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.observation import rgbd
from pixelgait.robot.spec import Array, CameraMount
from pixelgait.sim.bullet import pybullet

NEAR_M, FAR_M = 0.05, 30.0
TINY_RENDERER = (0.0, 1.0)  # PyBullet's renderer looks through the lower left corner of a pixel
LIGHT = (-0.4, 0.0, 1.0)  # towards it: from behind; left and right are lit alike

Kind = Literal["rgb", "depth", "rgbd"]
CHANNELS: dict[Kind, int] = {"rgb": 3, "depth": 1, "rgbd": 4}  # of what a policy sees
KINDS = {channels: kind for kind, channels in CHANNELS.items()}


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera.

    Images are (height, width, 3) uint8 RGB; or (height, width) float32 depth, metres along the
    optical axis through the pixels' centres, `FAR_M` where nothing is nearer; or (height, width, 4)
    uint8, both in one: RGB and `depth_bytes`, aligned pixel by pixel.
    """

    mount: CameraMount
    width: int = 32
    height: int = 32
    kind: Kind = "rgb"
    light: tuple[float, float, float] = LIGHT

    @property
    def through(self) -> tuple[float, float]:
        """Where in a pixel it is looked through: right and down of its upper left corner, 0 to 1.

        Half a pixel lower is 0.1 m nearer on the ground 1.4 m ahead, so depth needs the middle.
        RGB alone stays as `TINY_RENDERER` shows it, and the policies learned to see it.
        """
        return TINY_RENDERER if self.kind == "rgb" else (0.5, 0.5)

    def moved(self, shift_m: tuple[float, float, float], pitch_rad: float) -> Camera:
        """The camera elsewhere in the base frame, and looking further down."""
        x, y, z = (a + b for a, b in zip(self.mount.position_m, shift_m, strict=True))
        pitch = self.mount.pitch_down_rad + pitch_rad
        return replace(self, mount=replace(self.mount, position_m=(x, y, z), pitch_down_rad=pitch))

    def axes(self, position: tuple[float, ...], rotation: Array) -> tuple[Array, Array, Array]:
        """Eye, forward and up in the world, (3,) each, for a base at xyz [m], rotated (3, 3)."""
        down = self.mount.pitch_down_rad
        cos, sin = math.cos(down), math.sin(down)
        forward, up = rotation @ (cos, 0.0, -sin), rotation @ (sin, 0.0, cos)
        return np.asarray(position) + rotation @ self.mount.position_m, forward, up

    def view_matrix(
        self, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> list[float]:
        """OpenGL's view matrix (16) from a base at this pose (xyz [m], quaternion xyzw)."""
        rotation = np.reshape(pybullet.getMatrixFromQuaternion(orientation), (3, 3))
        eye, forward, up = self.axes(position, rotation)
        target = eye + forward
        # PyBullet reads a list ten times as fast as an array.
        return list(pybullet.computeViewMatrix(eye.tolist(), target.tolist(), up.tolist()))

    def projection_matrix(self) -> list[float]:
        """OpenGL's projection matrix, column by column (16)."""
        projection = _projection(self.mount.vertical_fov_rad, self.width, self.height)
        right, down = self.through
        projection[8] += 2.0 * (right - TINY_RENDERER[0]) / self.width
        projection[9] += 2.0 * (TINY_RENDERER[1] - down) / self.height
        return projection

    def render(
        self, client: int, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> NDArray[Any]:
        """What the camera sees from a base at this pose (xyz [m], quaternion xyzw)."""
        if self.kind == "rgb":
            return _colours(self._frame(client, position, orientation))
        rgb, depth = self.render_both(client, position, orientation)
        return depth if self.kind == "depth" else rgbd(rgb, depth)

    def render_both(
        self, client: int, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (height, width, 3) and depth (height, width) [m] in one frame, of any kind."""
        camera = self if self.kind != "rgb" else replace(self, kind="rgbd")
        frame = camera._frame(client, position, orientation)
        return _colours(frame), _depth(frame)

    def _frame(
        self, client: int, position: tuple[float, ...], orientation: tuple[float, ...]
    ) -> tuple[Any, ...]:
        view, projection = self.view_matrix(position, orientation), self.projection_matrix()
        return _frame(client, view, projection, self.width, self.height, self.light)


def camera_for(mount: CameraMount, image_shape: tuple[int, int, int]) -> Camera:
    """The camera of a policy that sees images of this shape (H, W, C)."""
    height, width, channels = image_shape
    return Camera(mount, width, height, KINDS[channels])


def render_rgb(
    client: int, view: list[float], vertical_fov_rad: float, width: int, height: int
) -> NDArray[np.uint8]:
    """One frame (height, width, 3) from a view matrix."""
    projection = _projection(vertical_fov_rad, width, height)
    return _colours(_frame(client, view, projection, width, height))


def _projection(vertical_fov_rad: float, width: int, height: int) -> list[float]:
    """OpenGL's projection matrix, column by column (16)."""
    return list(
        pybullet.computeProjectionMatrixFOV(
            np.degrees(vertical_fov_rad), width / height, NEAR_M, FAR_M
        )
    )


def _colours(frame: tuple[Any, ...]) -> NDArray[np.uint8]:
    width, height, pixels = frame[:3]
    rgba = np.asarray(pixels, dtype=np.uint8).reshape(height, width, 4)
    return np.asarray(cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB))  # numpy takes ten times as long


def _depth(frame: tuple[Any, ...]) -> NDArray[np.float32]:
    width, height, _, buffer = frame[:4]
    share = np.reshape(buffer, (height, width)).astype(np.float64)
    return np.asarray(FAR_M * NEAR_M / (FAR_M - (FAR_M - NEAR_M) * share), dtype=np.float32)


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
