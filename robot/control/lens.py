"""Lens and mount of a camera: whether a CameraInfo, and a pose, fit those of a policy."""

from __future__ import annotations

import math
from typing import Any

from pixelgait.robot.spec import Array, CameraMount, TrainedMounts

ANGLE_TOLERANCE_RAD = 0.1  # twice the randomisation of mounts in training; assumption
POSITION_TOLERANCE_M = 0.05  # five times the randomisation of mounts in training; assumption
FOV_TOLERANCE = 0.1  # share of the field of view; assumption


def calibrated(info: Any) -> bool:
    """Whether a CameraInfo describes the lens; K is 0 if the lens is unknown."""
    return bool(info.k[0] > 0.0 and info.k[4] > 0.0 and info.height and info.width)


def misfit(info: Any, image_shape: tuple[int, int, int], mount: CameraMount) -> str | None:
    """A mismatch of a CameraInfo with a policy's images of this shape (H, W, C), or None.

    The images show a region of interest (0: all of the sensor), whose pixels may be binned (0: not
    binned). K and the region are in pixels of the whole, unbinned sensor.
    """
    if not calibrated(info):
        return None
    size = info.roi.height or info.height, info.roi.width or info.width
    return _other_lens(info, size, image_shape, mount) or _off_middle(info, size)


def _other_lens(
    info: Any, size: tuple[int, int], image_shape: tuple[int, int, int], mount: CameraMount
) -> str | None:
    """A mismatch of the field of view in a region's middle, or None; the region has size (H, W)."""
    down, across = info.binning_y or 1, info.binning_x or 1
    ratio = image_shape[1] / image_shape[0]
    rows = min(size[0] / down, size[1] / across / ratio)
    half = math.tan(mount.vertical_fov_rad / 2.0)
    sides = {
        "high": (rows * down / info.k[4], half),
        "wide": (rows * ratio * across / info.k[0], half * ratio),
    }
    for side, (seen, wanted) in sides.items():
        seen_rad, wanted_rad = 2.0 * math.atan(seen / 2.0), 2.0 * math.atan(wanted)
        if abs(seen_rad - wanted_rad) > FOV_TOLERANCE * wanted_rad:
            made = f"it was made for {wanted_rad:.2f} rad"
            return f"the policy would see {seen_rad:.2f} rad {side}, {made}"
    return None


def _off_middle(info: Any, size: tuple[int, int]) -> str | None:
    """How far the region's middle is off the optical axis, if too far; its size is (H, W)."""
    for direction, first, pixels, axis, focal in (
        ("down", info.roi.y_offset, size[0], info.k[5], info.k[4]),
        ("to the right", info.roi.x_offset, size[1], info.k[2], info.k[0]),
    ):
        turned_rad = math.atan((first + (pixels - 1) / 2.0 - axis) / focal)
        if not abs(turned_rad) <= ANGLE_TOLERANCE_RAD:
            made = "it was made for the middle of a lens"
            return f"the policy would look {turned_rad:.2f} rad {direction}, {made}"
    return None


def misplaced(pose: Array, mounts: TrainedMounts) -> str | None:
    """A mismatch of a camera body's pose (4, 4) in the base frame with the policy's, or None."""
    x, y, z = pose[:3, 3].tolist()
    (ahead_x, _, _), (ahead_y, _, _), (ahead_z, left_z, up_z) = pose[:3, :3].tolist()
    down_rad = math.atan2(-ahead_z, math.hypot(ahead_x, ahead_y))
    up_m, pitch_rad = mounts.nearest(z, down_rad)
    ahead_m, left_m, _ = mounts.usual.position_m
    if math.dist((x, y, z), (ahead_m, left_m, up_m)) > POSITION_TOLERANCE_M:
        wanted = f"({ahead_m:.2f}, {left_m:.2f}, {_ends(mounts.up_m)}) m"
        return f"sits at ({x:.2f}, {y:.2f}, {z:.2f}) m, the policy was made for {wanted}"
    if abs(down_rad - pitch_rad) > ANGLE_TOLERANCE_RAD:
        wanted = f"the policy was made for {_ends(mounts.pitch_down_rad)} rad"
        return f"looks {down_rad:.2f} rad down, {wanted}"
    for what, turned_rad in (
        ("to the left", math.atan2(ahead_y, ahead_x)),
        ("about its axis", math.atan2(left_z, up_z)),
    ):
        if abs(turned_rad) > ANGLE_TOLERANCE_RAD:
            return f"is turned by {turned_rad:.2f} rad {what}, the policy was made for none"
    return None


def _ends(ends: tuple[float, float]) -> str:
    """A range, or the number that it is."""
    low, high = (f"{each:.2f}" for each in ends)
    return low if low == high else f"{low} to {high}"
