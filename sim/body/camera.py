"""Camera model of a robot: mount, lens and image format. Engines render its images."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array, CameraMount
from pixelgait.sim.rendering.geometry import Floats, View
from pixelgait.sim.world.appearance import LIGHT

if TYPE_CHECKING:
    from pixelgait.robot.bundle import Bundle

NEAR_M, FAR_M = 0.01, 30.0  # assumption: within the housing; beyond any depth camera's range

CACHED_CAMERAS = 64  # assumption: more than robots glide at once, each with a camera of its own

Kind = Literal["rgb", "depth", "rgbd"]
Sampling = Literal["centre", "near"]
SAMPLINGS: tuple[Sampling, ...] = get_args(Sampling)
CHANNELS: dict[Kind, int] = {"rgb": 3, "depth": 1, "rgbd": 4}  # of a policy's image
KIND_OF_CHANNELS = {channels: kind for kind, channels in CHANNELS.items()}


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera. Rays pass through the pixels' centres, unless its sampling is `near`.

    Images are (height, width, 3) uint8 RGB; or (height, width) float32 depth, metres along the
    optical axis, `FAR_M` at most; or (height, width, 4) uint8 RGB-D: RGB and `depth_bytes`, aligned
    pixel by pixel.
    """

    mount: CameraMount
    width: int = 32
    height: int = 32
    kind: Kind = "rgb"
    light: tuple[float, float, float] = LIGHT  # direction towards the light
    yaw_rad: float = 0.0  # error of the mount, to the left
    roll_rad: float = 0.0  # error of the mount about the optical axis, to the right
    sampling: Sampling = "centre"  # of depth, see `sampling.sampled`

    def moved(
        self,
        shift_m: tuple[float, float, float],
        pitch_rad: float,
        yaw_rad: float = 0.0,
        roll_rad: float = 0.0,
    ) -> Camera:
        """The camera shifted in the base frame, and turned: further down, left, and rolled."""
        x, y, z = (a + b for a, b in zip(self.mount.position_m, shift_m, strict=True))
        pitch = self.mount.pitch_down_rad + pitch_rad
        return replace(
            self,
            mount=replace(self.mount, position_m=(x, y, z), pitch_down_rad=pitch),
            yaw_rad=self.yaw_rad + yaw_rad,
            roll_rad=self.roll_rad + roll_rad,
        )

    def shaken(self, offset: Array | None) -> Camera:
        """The camera off its mount by x, y, z [m], pitch, yaw, roll [rad]; None: on its mount."""
        if offset is None:
            return self
        x, y, z, pitch, yaw, roll = offset.tolist()
        return self.moved((x, y, z), pitch, yaw, roll)

    def with_field_of_view(self, vertical_rad: float | None) -> Camera:
        """The camera with another vertical field of view [rad]; None: unchanged."""
        if vertical_rad is None:
            return self
        return replace(self, mount=replace(self.mount, vertical_fov_rad=vertical_rad))

    def axes(self, position: tuple[float, ...], rotation: Array) -> tuple[Array, Array, Array]:
        """Eye, forward and up in the world, (3,) each, for a base at xyz [m], rotated (3, 3)."""
        ahead, above = _mounted(self.mount.pitch_down_rad, self.yaw_rad, self.roll_rad)
        forward, up = rotation @ ahead, rotation @ above
        return np.asarray(position) + rotation @ self.mount.position_m, forward, up

    @property
    def focal_pixels(self) -> float:
        """Focal length [pixels]."""
        return self.height / 2.0 / math.tan(self.mount.vertical_fov_rad / 2.0)

    @property
    def rays(self) -> Array:
        """Unit rays (H W, 3) through the pixels' centres: forward, right, up."""
        return _rays(self.mount.vertical_fov_rad, self.height, self.width)

    def view(self, position: tuple[float, ...], rotation: Array) -> View:
        """View of the camera on a base at xyz [m], rotated (3, 3), for a painter."""
        eye, forward, up = self.axes(position, rotation)
        right = (  # np.cross would take as long as the rest
            forward[1] * up[2] - forward[2] * up[1],
            forward[2] * up[0] - forward[0] * up[2],
            forward[0] * up[1] - forward[1] * up[0],
        )
        local = _rays_float32(self.mount.vertical_fov_rad, self.height, self.width)
        axes = np.array((forward, right, up), np.float32)
        return View(
            eye.astype(np.float32),
            forward.astype(np.float32),
            axes.T @ local,
            local[0],
            1.0 / self.focal_pixels,
            FAR_M,
            axes,
            (self.height, self.width),
        )


def camera_for(
    mount: CameraMount, image_shape: tuple[int, int, int], sampling: Sampling = "centre"
) -> Camera:
    """The camera for a policy's image shape (H, W, C)."""
    height, width, channels = image_shape
    return Camera(mount, width, height, KIND_OF_CHANNELS[channels], sampling=sampling)


def camera_of(bundle: Bundle) -> Camera:
    """The camera that a bundle's policy sees through; without a `camera.sampling` it is `centre`.

    Raises:
        UserError: if the sampling is unknown.
    """
    sampling: Sampling = bundle.contract["camera"].get("sampling", "centre")
    if sampling not in SAMPLINGS:
        raise UserError(f"camera.sampling is {sampling}, expected {' or '.join(SAMPLINGS)}")
    return camera_for(bundle.spec.camera, bundle.image_shape, sampling)


@lru_cache(maxsize=CACHED_CAMERAS)
def _mounted(down_rad: float, yaw_rad: float, roll_rad: float) -> tuple[Array, Array]:
    """Forward and up (3,) in the base frame: pitched down, rolled about forward, yawed about z."""
    cos, sin = math.cos(down_rad), math.sin(down_rad)
    ahead, above = np.array((cos, 0.0, -sin)), np.array((sin, 0.0, cos))
    if not (yaw_rad or roll_rad):
        return ahead, above
    cos, sin = math.cos(roll_rad), math.sin(roll_rad)
    above = cos * above + sin * np.cross(ahead, above)
    cos, sin = math.cos(yaw_rad), math.sin(yaw_rad)
    left = np.array(((cos, -sin, 0.0), (sin, cos, 0.0), (0.0, 0.0, 1.0)))
    return left @ ahead, left @ above


@lru_cache(maxsize=CACHED_CAMERAS)
def _rays(vertical_fov_rad: float, height: int, width: int) -> Array:
    """Unit rays (H W, 3) through the pixels' centres: forward, right, up."""
    half = np.tan(vertical_fov_rad / 2.0)
    along = (2.0 * (np.arange(width) + 0.5) / width - 1.0) * half * width / height
    up = (1.0 - 2.0 * (np.arange(height) + 0.5) / height) * half
    u, v = np.meshgrid(along, up)
    rays = np.stack((np.ones_like(u), u, v), axis=-1).reshape(-1, 3)
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))


@lru_cache(maxsize=CACHED_CAMERAS)
def _rays_float32(vertical_fov_rad: float, height: int, width: int) -> Floats:
    """`_rays` transposed, (3, H W) float32."""
    return np.ascontiguousarray(_rays(vertical_fov_rad, height, width).T, dtype=np.float32)
