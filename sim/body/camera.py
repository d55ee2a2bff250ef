"""The camera of a robot, as data: where it sits and what it gives. Engines render it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pixelgait.robot.spec import Array, CameraMount
from pixelgait.sim.world.appearance import LIGHT, Appearance

NEAR_M, FAR_M = 0.01, 30.0

Kind = Literal["rgb", "depth", "rgbd"]
CHANNELS: dict[Kind, int] = {"rgb": 3, "depth": 1, "rgbd": 4}  # of what a policy sees
KIND_OF_CHANNELS = {channels: kind for kind, channels in CHANNELS.items()}


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera, which looks through the pixels' centres.

    Images are (height, width, 3) uint8 RGB; or (height, width) float32 depth, metres along the
    optical axis, `FAR_M` where nothing is nearer; or (height, width, 4) uint8, both in one: RGB and
    `depth_bytes`, aligned pixel by pixel.
    """

    mount: CameraMount
    width: int = 32
    height: int = 32
    kind: Kind = "rgb"
    light: tuple[float, float, float] = LIGHT  # towards it

    def moved(self, shift_m: tuple[float, float, float], pitch_rad: float) -> Camera:
        """The camera elsewhere in the base frame, and looking further down."""
        x, y, z = (a + b for a, b in zip(self.mount.position_m, shift_m, strict=True))
        pitch = self.mount.pitch_down_rad + pitch_rad
        return replace(self, mount=replace(self.mount, position_m=(x, y, z), pitch_down_rad=pitch))

    def with_field_of_view(self, vertical_rad: float | None) -> Camera:
        """The camera with another lens; None: its own."""
        if vertical_rad is None:
            return self
        return replace(self, mount=replace(self.mount, vertical_fov_rad=vertical_rad))

    def under(self, appearance: Appearance | None) -> Camera:
        """The camera as it is in an episode that looks like this; None: as usual."""
        if appearance is None:
            return self
        moved = self.moved(appearance.camera_shift_m, appearance.camera_pitch_rad)
        return replace(moved, light=appearance.light)

    def axes(self, position: tuple[float, ...], rotation: Array) -> tuple[Array, Array, Array]:
        """Eye, forward and up in the world, (3,) each, for a base at xyz [m], rotated (3, 3)."""
        down = self.mount.pitch_down_rad
        cos, sin = math.cos(down), math.sin(down)
        forward, up = rotation @ (cos, 0.0, -sin), rotation @ (sin, 0.0, cos)
        return np.asarray(position) + rotation @ self.mount.position_m, forward, up


def camera_for(mount: CameraMount, image_shape: tuple[int, int, int]) -> Camera:
    """The camera of a policy that sees images of this shape (H, W, C)."""
    height, width, channels = image_shape
    return Camera(mount, width, height, KIND_OF_CHANNELS[channels])
