"""Rays of a depth camera: from its pixels into the base frame, and back."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import CameraMount

Floats = NDArray[np.float32]

# Angles between the pixels that are used. At 2 m a cell of 5 cm has one in each row; a leg of a
# chair, 3 cm thick, has one at 1.5 m. Rows are closer, since ground is seen at a grazing angle.
ACROSS_RAD, DOWN_RAD = 0.019, 0.0095
EDGE_PER_M = 0.1  # 1/depth: a pixel between two such steps down, or two up, is a mixture


class Lens(NamedTuple):
    """Pinhole of a depth image: focal lengths and optical axis [pixels], as K of a CameraInfo."""

    fx: float
    fy: float
    cx: float
    cy: float


class DepthView(NamedTuple):
    """The pixels of a depth image that are used, (h, w) of them, and their rays.

    Rays and axes are in the base frame (x forward, y left, z up); a ray ends at a depth of 1 m
    along the optical axis.
    """

    rows: slice
    columns: slice
    rays: Floats  # (3, h w)
    axes: Floats  # (3, 3), columns: ahead, right, down of the camera
    position: Floats  # (3,) of the camera [m]
    lens: Lens  # of the used pixels

    def used(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """The used pixels (h, w) of an image (H, W)."""
        return pixels[self.rows, self.columns]


def lens_of(mount: CameraMount, height: int, width: int, aspect: float) -> Lens:
    """The lens whose middle with this ratio of width to height has the mount's field of view."""
    rows = min(height, width / aspect)
    focal = rows / 2.0 / math.tan(mount.vertical_fov_rad / 2.0)
    return Lens(focal, focal, (width - 1) / 2.0, (height - 1) / 2.0)


@lru_cache(maxsize=16)
def depth_view(mount: CameraMount, height: int, width: int, lens: Lens) -> DepthView:
    """Rays of a camera on its mount, for depth images (height, width)."""
    down, across = max(1, round(DOWN_RAD * lens.fy)), max(1, round(ACROSS_RAD * lens.fx))
    rows, columns = slice(down // 2, None, down), slice(across // 2, None, across)
    v = (np.arange(height)[rows] - lens.cy) / lens.fy
    u = (np.arange(width)[columns] - lens.cx) / lens.fx
    right, below = np.meshgrid(u, v)
    sin, cos = math.sin(mount.pitch_down_rad), math.cos(mount.pitch_down_rad)
    axes = np.array(((cos, 0.0, -sin), (0.0, -1.0, 0.0), (-sin, 0.0, -cos)), np.float32)
    local = np.stack((np.ones_like(right), right, below)).reshape(3, -1)
    used = Lens(
        lens.fx / across,
        lens.fy / down,
        (lens.cx - across // 2) / across,
        (lens.cy - down // 2) / down,
    )
    rays = np.ascontiguousarray(axes @ local, np.float32)
    return DepthView(rows, columns, rays, axes, np.array(mount.position_m, np.float32), used)


def unmixed(depth: Floats) -> Floats:
    """Depth (h, w) without pixels between a near and a far surface, which are in neither."""
    inverse = 1.0 / np.maximum(depth, np.float32(0.05))
    step = inverse[:, 1:] - inverse[:, :-1]
    mixed = np.minimum(np.abs(step[:, 1:]), np.abs(step[:, :-1])) > EDGE_PER_M
    mixed &= step[:, 1:] * step[:, :-1] > 0.0
    depth = depth.copy()
    depth[:, 1:-1][mixed] = np.nan
    return depth
