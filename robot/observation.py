"""The one observation builder: readings and camera frames become what both levels see."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import roll_pitch
from pixelgait.robot.spec import Array

DEPTH_RANGE_M = 3.0  # ideal range of the RealSense D435 ends here (its data sheet)
ENCODINGS = {1: "depth", 3: "rgb8", 4: "rgbd"}  # of images (H, W, C) uint8, by their channels


def imu_vector(reading: Reading) -> Array:
    """(4,): roll, pitch [rad], roll rate, pitch rate [rad/s] (Google's PMTG IMU channels)."""
    roll, pitch = roll_pitch(reading.orientation.tolist())
    return np.array((roll, pitch, reading.angular_velocity[0], reading.angular_velocity[1]))


def depth_bytes(depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Depth (H, W) [m] as a policy sees it: 0 at the lens, 255 at `DEPTH_RANGE_M` and beyond.

    A step is 12 mm, finer than the camera's own 2 % from 0.6 m on.
    """
    share = np.clip(depth / DEPTH_RANGE_M, 0.0, 1.0)
    return np.asarray(np.round(255.0 * share), dtype=np.uint8)


def rgbd(rgb: NDArray[np.uint8], depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """One image (H, W, 4) of colours (H, W, 3) and depth (H, W) [m]."""
    image: NDArray[np.uint8] = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2RGBA), dtype=np.uint8)
    image[:, :, 3] = depth_bytes(depth)
    return image


def policy_image(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """A camera frame (see `Image`) as a high level sees it: (H, W, C) uint8, see `ENCODINGS`."""
    return pixels if pixels.ndim == 3 else depth_bytes(pixels)[..., None]
