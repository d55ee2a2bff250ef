"""Robot camera in MuJoCo: RGB, depth and RGB-D images with one ray per pixel.

Without OpenGL, so images are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.mujoco_model import SCENE_GROUP, wxyz
from pixelgait.sim.rendering.geometry import FOREIGN, SKY
from pixelgait.sim.rendering.geometry import Hits as SceneHits
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.meshes import box_uv
from pixelgait.sim.world.texture import TILE_PIXELS

AMBIENT, DIFFUSE, SPECULAR, SHININESS = 0.6, 0.35, 0.05, 2  # of PyBullet's getCameraImage
SKY_LEVEL = 255
GROUPS = np.array([i == SCENE_GROUP for i in range(6)], dtype=np.uint8)


class Paint(Protocol):
    """Gives some geoms other colours than their own."""

    def apply(
        self,
        colours: Array,
        geoms: NDArray[np.int32],
        points: Array,
        normals: Array,
        data: mujoco.MjData,
    ) -> None:
        """Change colours (n, 3) of rays by their geoms (n,), -1 for none, and points (n, 3) [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class TiledTextures:
    """Textures on the boxes and planes of a model with n geoms."""

    tiles: NDArray[np.uint8]  # (m, TILE_PIXELS, TILE_PIXELS, 3)
    which: NDArray[np.int64]  # (n,) tile of each geom, -1 for its own colour
    width_m: Array  # (n,) of each geom's tile

    @classmethod
    def of(cls, count: int, covers: Mapping[int, tuple[NDArray[np.uint8], float]]) -> TiledTextures:
        """Tiles with their widths [m] by geom, for a model with `count` geoms."""
        distinct = {id(pixels): pixels for pixels, _ in covers.values()}
        order = list(distinct)
        which, width = np.full(count, -1), np.ones(count)
        for geom, (pixels, tile_m) in covers.items():
            which[geom], width[geom] = order.index(id(pixels)), tile_m
        return cls(np.stack(list(distinct.values())), which, width)

    def apply(
        self,
        colours: Array,
        geoms: NDArray[np.int32],
        points: Array,
        normals: Array,
        data: mujoco.MjData,
    ) -> None:
        """Give textured geoms the colours of their tiles; see `Paint`."""
        painted = ((geoms >= 0) & (self.which[geoms] >= 0)).nonzero()[0]
        hit = geoms[painted]
        rotations = data.geom_xmat[hit].reshape(-1, 3, 3)
        local = np.einsum("nji,nj->ni", rotations, points[painted] - data.geom_xpos[hit])
        across = np.einsum("nji,nj->ni", rotations, normals[painted])
        uv = box_uv(local, across) / self.width_m[hit, None]
        column, row = np.floor(uv * TILE_PIXELS).astype(int).T % TILE_PIXELS
        colours[painted] = self.tiles[self.which[hit], row, column]


def cast_image(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    camera: Camera,
    pose: BasePose,
    paints: Sequence[Paint],
) -> NDArray[Any]:
    """Image of a camera (see `Camera`) on a base at this pose."""
    hits = _cast(model, data, camera, pose)
    if camera.kind == "depth":
        return hits.depth
    rgb = _colours(model, data, camera, hits, paints)
    return rgb if camera.kind == "rgb" else rgbd(rgb, hits.depth)


def cast_both(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    camera: Camera,
    pose: BasePose,
    paints: Sequence[Paint],
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Colours (height, width, 3) and depth (height, width) [m], whatever the camera's kind."""
    hits = _cast(model, data, camera, pose)
    return _colours(model, data, camera, hits, paints), hits.depth


def cast_with_appearance(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    camera: Camera,
    pose: BasePose,
    paints: Sequence[Paint],
    painter: Painter,
    shapes: NDArray[np.intp],
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """As `cast_both`, in an episode's appearance; `shapes` (ngeom,) of the geoms, or FOREIGN."""
    hits = _cast(model, data, camera, pose)
    which = np.where(hits.geoms < 0, SKY, shapes[hits.geoms])
    theirs = None
    if (which == FOREIGN).any() or painter.geometry.has_mesh:
        theirs = _colours(model, data, camera, hits, paints).reshape(-1, 3)
    view = camera.view(pose.position, _rotation(pose))
    colours = painter.paint(view, SceneHits(which, hits.distances.astype(np.float32)), theirs)
    return colours.reshape(*hits.depth.shape, 3), hits.depth


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of the n = height x width rays of an image."""

    depth: NDArray[np.float32]  # (height, width) [m]
    geoms: NDArray[np.int32]  # (n,), -1: none
    distances: Array  # (n,) [m] from the eye
    points: Array  # (n, 3) [m]
    normals: Array  # (n, 3)


def _rotation(pose: BasePose) -> Array:
    """Rotation (3, 3) of the base."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.array(wxyz(pose.orientation)))
    return rotation.reshape(3, 3)


def _cast(model: mujoco.MjModel, data: mujoco.MjData, camera: Camera, pose: BasePose) -> Hits:
    eye, forward, up = camera.axes(pose.position, _rotation(pose))
    shape = camera.height, camera.width
    rays = camera.rays
    world = rays @ np.array((forward, np.cross(forward, up), up))
    count = len(rays)
    geoms, distances = np.full(count, -1, dtype=np.int32), np.zeros(count)
    normals = np.zeros((count, 3))
    mujoco.mj_multiRay(
        model, data, eye, world.ravel(), GROUPS, True, -1, geoms, distances,
        normals.ravel(), count, FAR_M,
    )  # fmt: skip
    forward_m = distances * rays[:, 0]
    geoms[forward_m >= FAR_M] = -1  # MuJoCo may cast further
    far = np.where(geoms < 0, FAR_M, forward_m)
    depth = np.asarray(far.reshape(shape), dtype=np.float32)
    return Hits(depth, geoms, distances, eye + distances[:, None] * world, normals)


def _colours(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    camera: Camera,
    hits: Hits,
    paints: Sequence[Paint],
) -> NDArray[np.uint8]:
    """Lit colours (height, width, 3) of hits."""
    colours = np.floor(255.0 * model.geom_rgba[hits.geoms, :3])
    for paint in paints:
        paint.apply(colours, hits.geoms, hits.points, hits.normals, data)
    colours *= _brightness(hits.normals, camera.light)[:, None]
    colours[hits.geoms < 0] = SKY_LEVEL
    return np.asarray(colours.reshape(*hits.depth.shape, 3), dtype=np.uint8)


def _brightness(normals: Array, light: tuple[float, float, float]) -> Array:
    """Brightness (n,) of surfaces with normals (n, 3), as by PyBullet's TinyRenderer.

    Phong's model, with the highlight for a camera straight above, wherever it is.
    """
    to_light = np.array(light) / np.linalg.norm(light)
    cosine = normals @ to_light
    reflected_z = 2.0 * cosine * normals[:, 2] - to_light[2]
    highlight = np.maximum(reflected_z, 0.0) ** SHININESS
    brightness = AMBIENT + DIFFUSE * np.maximum(cosine, 0.0) + SPECULAR * highlight
    return np.asarray(brightness)
