"""First-person RGB and depth images in MuJoCo by one ray per pixel.

No OpenGL, the same on every machine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.camera import FAR_M, LIGHT, Camera, rgbd
from pixelgait.sim.mujoco_model import SCENE_GROUP

AMBIENT, DIFFUSE = 0.6, 0.35  # PyBullet's getCameraImage
SKY = 255
GROUPS = np.array([i == SCENE_GROUP for i in range(6)], dtype=np.uint8)
TO_LIGHT = np.array(LIGHT) / np.linalg.norm(LIGHT)


def cast_image(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    camera: Camera,
    position: tuple[float, ...],
    orientation: tuple[float, ...],
) -> NDArray[Any]:
    """What the camera sees (see `Camera`) from a base at this pose (xyz [m], quaternion xyzw)."""
    x, y, z, w = orientation
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.array((w, x, y, z)))
    eye, forward, up = camera.axes(position, rotation.reshape(3, 3))
    fov_rad, shape = camera.mount.vertical_fov_rad, (camera.height, camera.width)
    rays = _pixels(fov_rad, camera.width, camera.height)
    world = rays @ np.array((forward, np.cross(forward, up), up))
    count = len(rays)
    geoms, distances = np.full(count, -1, dtype=np.int32), np.zeros(count)
    normals = np.zeros((count, 3))
    mujoco.mj_multiRay(
        model, data, eye, world.ravel(), GROUPS, True, -1, geoms, distances,
        normals.ravel(), count, FAR_M,
    )  # fmt: skip
    if camera.kind == "rgb":
        return _shaded(model, geoms, normals).reshape(*shape, 3)
    far = np.where(geoms < 0, FAR_M, np.minimum(distances * rays[:, 0], FAR_M))
    depth = np.asarray(far.reshape(shape), dtype=np.float32)
    if camera.kind == "depth":
        return depth
    return rgbd(_shaded(model, geoms, normals).reshape(*shape, 3), depth)


def _shaded(model: mujoco.MjModel, geoms: NDArray[np.int32], normals: Array) -> NDArray[np.uint8]:
    """Colours (n, 3) of what was hit, lit as PyBullet lights them."""
    shade = AMBIENT + DIFFUSE * np.maximum(normals @ TO_LIGHT, 0.0)
    colours = 255.0 * model.geom_rgba[geoms, :3] * shade[:, None]
    colours[geoms < 0] = SKY
    return np.asarray(colours, dtype=np.uint8)


@cache
def _pixels(vertical_fov_rad: float, width: int, height: int) -> Array:
    """Unit rays through the pixels' centres, (H W, 3): forward, right, up."""
    half = np.tan(vertical_fov_rad / 2.0)
    right = (2.0 * (np.arange(width) + 0.5) / width - 1.0) * half
    up = (1.0 - 2.0 * (np.arange(height) + 0.5) / height) * half
    u, v = np.meshgrid(right * width / height, up)
    rays = np.stack((np.ones_like(u), u, v), axis=-1).reshape(-1, 3)
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))
