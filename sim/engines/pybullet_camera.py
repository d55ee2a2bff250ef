"""First-person RGB, depth and RGB-D images by PyBullet's TinyRenderer, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.sim.body.camera import FAR_M, NEAR_M, Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.rendering.geometry import FOREIGN, SKY, Hits, View
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.appearance import LIGHT

# TinyRenderer looks through a pixel's lower left corner; this far right and up of it is its centre.
HALF_PIXEL = 0.5


def render(client: int, camera: Camera, pose: BasePose) -> NDArray[Any]:
    """What a camera sees (see `Camera`) from a base at this pose."""
    if camera.kind == "rgb":
        return _colours(_camera_frame(client, camera, pose))
    rgb, depth = render_both(client, camera, pose)
    return depth if camera.kind == "depth" else rgbd(rgb, depth)


def render_both(
    client: int, camera: Camera, pose: BasePose
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Colours (height, width, 3) and depth (height, width) [m] of one instant, of any kind."""
    frame = _camera_frame(client, camera, pose)
    return _colours(frame), _depth(frame)


def render_view(
    client: int, view: list[float], vertical_fov_rad: float, width: int, height: int
) -> NDArray[np.uint8]:
    """Colours (height, width, 3) from an OpenGL view matrix (16): for films, not for robots."""
    projection = _projection(vertical_fov_rad, width, height)
    return _colours(_frame(client, view, projection, width, height, LIGHT))


def render_with_appearance(
    client: int, camera: Camera, pose: BasePose, painter: Painter, shapes: Mapping[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Colours (H, W, 3) and depth (H, W) [m] in an episode's look.

    `shapes` says which shape of the scene a body of PyBullet's is; of others its own colours count.
    """
    frame = _camera_frame(client, camera, pose, labelled=True)
    depth, labels = _depth(frame), np.ravel(frame[4])
    known = np.full(max(int(labels.max()), *shapes, 0) + 2, FOREIGN)
    known[list(shapes)] = list(shapes.values())
    known[-1] = SKY  # PyBullet's label -1
    view = view_from(camera, pose)
    hits = Hits(known[labels], depth.ravel() / view.ahead)
    colours = painter.paint(view, hits, _colours(frame).reshape(-1, 3))
    return colours.reshape(*depth.shape, 3), depth


def view_from(camera: Camera, pose: BasePose) -> View:
    """What a painter needs to know of a camera on a base at this pose."""
    rotation = np.reshape(pybullet.getMatrixFromQuaternion(pose.orientation), (3, 3))
    return camera.view(pose.position, rotation)


def view_matrix(camera: Camera, pose: BasePose) -> list[float]:
    """OpenGL's view matrix (16) from a base at this pose."""
    rotation = np.reshape(pybullet.getMatrixFromQuaternion(pose.orientation), (3, 3))
    eye, forward, up = camera.axes(pose.position, rotation)
    target = eye + forward
    # PyBullet reads a list ten times as fast as an array.
    return list(pybullet.computeViewMatrix(eye.tolist(), target.tolist(), up.tolist()))


def projection_matrix(camera: Camera) -> list[float]:
    """OpenGL's projection matrix, column by column (16)."""
    projection = _projection(camera.mount.vertical_fov_rad, camera.width, camera.height)
    projection[8] += 2.0 * HALF_PIXEL / camera.width
    projection[9] += 2.0 * HALF_PIXEL / camera.height
    return projection


def _projection(vertical_fov_rad: float, width: int, height: int) -> list[float]:
    return list(
        pybullet.computeProjectionMatrixFOV(
            np.degrees(vertical_fov_rad), width / height, NEAR_M, FAR_M
        )
    )


def _camera_frame(
    client: int, camera: Camera, pose: BasePose, labelled: bool = False
) -> tuple[Any, ...]:
    view, projection = view_matrix(camera, pose), projection_matrix(camera)
    return _frame(client, view, projection, camera.width, camera.height, camera.light, labelled)


def _frame(
    client: int,
    view: list[float],
    projection: list[float],
    width: int,
    height: int,
    light: tuple[float, float, float],
    labelled: bool = False,
) -> tuple[Any, ...]:
    """PyBullet's frame: width, height, RGBA, depth buffer (0 to 1), which body is seen (or not)."""
    frame: tuple[Any, ...] = pybullet.getCameraImage(
        width,
        height,
        view,
        projection,
        shadow=0,
        lightDirection=light,
        renderer=pybullet.ER_TINY_RENDERER,
        flags=0 if labelled else pybullet.ER_NO_SEGMENTATION_MASK,
        physicsClientId=client,
    )
    return frame


def _colours(frame: tuple[Any, ...]) -> NDArray[np.uint8]:
    width, height, pixels = frame[:3]
    rgba = np.asarray(pixels, dtype=np.uint8).reshape(height, width, 4)
    return np.asarray(cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB))  # numpy takes ten times as long


def _depth(frame: tuple[Any, ...]) -> NDArray[np.float32]:
    width, height, _, buffer = frame[:4]
    share = np.reshape(buffer, (height, width)).astype(np.float64)
    return np.asarray(FAR_M * NEAR_M / (FAR_M - (FAR_M - NEAR_M) * share), dtype=np.float32)
