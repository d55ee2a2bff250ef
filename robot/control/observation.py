"""Observation builder: IMU vector, goal vector and image bytes, for both levels; overlay."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.leg_odometry import Motion
from pixelgait.robot.interface import Reading
from pixelgait.robot.rotation import roll_pitch, rotation_at, wrap_angle
from pixelgait.robot.spec import Array

NO_GOAL = np.array((np.inf, 0.0))  # distance [m], bearing [rad]: none, straight ahead
DEPTH_RANGE_M = 3.0  # end of the RealSense D435's ideal range (data sheet)
DEPTH_SAMPLES = 3  # each way in a larger image's cell: the fewest that outvote an outlier
# Thin things fill a column of the samples. Their depth counts if so many samples agree on it within
# THIN_PER_M, and are nearer than the median by more than that [1/m]: seven times a RealSense's
# noise, and more than the ground's slope within a cell (assumption).
THIN_SAMPLES, THIN_PER_M = 3, 0.06
LENS_M = 0.01  # -inf, and nearer, is at the lens
COLOURS = 3  # the first channels of RGB and RGB-D images
ENCODINGS = {1: "depth", 3: "rgb8", 4: "rgbd"}  # of images (H, W, C) uint8, by their channels

# As it stands in the contract.
BASE_FRAME = "base: x forward, y left, z up (REP 103)"
IMU = {
    "frame": BASE_FRAME,
    "euler": "z-y-x: yaw, pitch, roll",
    "values": ["roll_rad", "pitch_rad", "roll_rate_rad_per_s", "pitch_rate_rad_per_s"],
}
_ORDER = "rows from the top, pixels from the left"
_CROP = "the largest part in the middle with the ratio of height and width"
_RESIZE = {
    "rgb8": "mean by area",
    "depth": (
        f"lower median of what {DEPTH_SAMPLES} x {DEPTH_SAMPLES} even samples measured; where none "
        f"is sampled twice: number {THIN_SAMPLES} from the nearest, if its 1/depth is more than "
        f"{THIN_PER_M} 1/m above the median's, and less than that below the nearest's"
    ),
}
_HOLES = (
    "what measured nothing takes the farthest of the next pixels left, right, above and below that "
    "measured; with none above, and beside none or only nearer ones than below, it is beyond range"
)
RED = np.array((255.0, 0.0, 0.0))  # of the attention overlay


def base_velocity(motion: Motion) -> Array:
    """The base's velocity (3,) [m/s] in its own frame; upwards, which legs tell badly, it is 0."""
    ahead, left, _ = rotation_at(motion.up, 0.0)
    return np.asarray(motion.ahead * ahead + motion.left * left)


def imu_vector(reading: Reading) -> Array:
    """(4,): roll, pitch [rad], roll rate, pitch rate [rad/s] (Google's PMTG IMU channels)."""
    roll, pitch = roll_pitch(reading.orientation.tolist())
    return np.array((roll, pitch, reading.angular_velocity[0], reading.angular_velocity[1]))


def goal_vector(goal_position: Array, odometry: Array) -> Array:
    """(2,): distance [m] and bearing [rad, left positive] of a goal position (2,) x, y [m].

    In the frame of the odometry (3,) x, y [m], heading [rad].
    """
    x, y = (goal_position - odometry[:2]).tolist()
    return np.array((math.hypot(x, y), wrap_angle(math.atan2(y, x) - float(odometry[2]))))


def camera_contract(image_shape: tuple[int, int, int]) -> dict[str, Any]:
    """Meaning of the bytes of the camera image (H, W, C), as it stands in a bundle's contract.

    Encoding rgb8 is red, green, blue; depth is one byte from 0 at the lens to 255 at
    `depth_range_m` along the optical axis, and beyond; rgbd is both, aligned pixel by pixel.

    Raises:
        UserError: if no image has that number of channels.
    """
    height, width, channels = image_shape
    if channels not in ENCODINGS:
        known = ", ".join(f"{count} ({name})" for count, name in ENCODINGS.items())
        raise UserError(f"camera with {channels} channels, this runtime feeds {known}")
    encoding = ENCODINGS[channels]
    camera = {"height": height, "width": width, "channels": channels, "encoding": encoding}
    camera |= {"frame": BASE_FRAME, "order": _ORDER, "crop": _CROP}
    camera["resize"] = _RESIZE if encoding == "rgbd" else {encoding: _RESIZE[encoding]}
    if encoding != "rgb8":
        camera |= {"depth_range_m": DEPTH_RANGE_M, "depth_holes": _HOLES}
    return camera


def depth_bytes(depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Depth (H, W) [m] as a policy sees it: 0 at the lens, 255 at `DEPTH_RANGE_M` and beyond.

    A step is 12 mm, finer than the camera's own 2 % from 0.6 m on.
    """
    share = np.clip(depth / DEPTH_RANGE_M, 0.0, 1.0)
    return np.asarray(np.round(255.0 * share), dtype=np.uint8)


def middle(pixels: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Crop an image (H, W, ...) to the aspect ratio of (height, width), centred and maximal.

    The crop has at least one row and one column.
    """
    full_rows, full_columns = pixels.shape[:2]
    rows = min(full_rows, max(1, full_columns * height // width))
    columns = min(full_columns, max(1, full_rows * width // height))
    top, left = (full_rows - rows) // 2, (full_columns - columns) // 2
    return pixels[top : top + rows, left : left + columns]


def rgb(
    pixels: NDArray[np.uint8], conversion: int | None, height: int, width: int
) -> NDArray[np.uint8]:
    """RGB colours (height, width, 3) of the middle of a camera image.

    `conversion` is OpenCV's code for the conversion to RGB; None: the image is RGB.
    """
    pixels = middle(pixels, height, width)
    colours = np.asarray(pixels if conversion is None else cv2.cvtColor(pixels, conversion))
    if colours.shape[:2] != (height, width):
        colours = np.asarray(cv2.resize(colours, (width, height), interpolation=cv2.INTER_AREA))
    return np.ascontiguousarray(colours, dtype=np.uint8)


def rgbd(colours: NDArray[np.uint8], depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """RGB-D image (H, W, 4) of colours (H, W, 3) and depth (H, W) [m]."""
    image: NDArray[np.uint8] = np.asarray(cv2.cvtColor(colours, cv2.COLOR_RGB2RGBA), dtype=np.uint8)
    image[:, :, 3] = depth_bytes(depth)
    return image


def policy_image(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """A camera frame (see `Image`) as input of a high level: (H, W, C) uint8, see `ENCODINGS`."""
    return pixels if pixels.ndim == 3 else depth_bytes(pixels)[..., None]


def fill_holes(depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill the holes (NaN) in depth (H, W) [m] of a stereo camera; inf beyond range.

    A hole takes the farthest of the next measurements on its four sides, as RealSense's hole
    filling does by default (farest_from_around): beside a near edge one of the two imagers cannot
    see the background, and a hole in a wall stays wall. A constant would turn holes into gaps to
    walk into (far) or walls in the sky (near).

    A hole is beyond range if nothing was measured above it, and beside it nothing or only values
    nearer than the ground below: that ground continues to beyond the range.
    """
    left, right = _next_measured(depth), _next_measured(depth[:, ::-1])[:, ::-1]
    above, below = _next_measured(depth.T).T, _next_measured(depth[::-1].T).T[::-1]
    beside = np.fmax(left, right)
    leads_on = np.isnan(beside) | (below > beside)
    filled = np.where(np.isnan(above) & leads_on, np.inf, np.fmax(beside, np.fmax(above, below)))
    return np.where(np.isnan(depth), filled, depth).astype(np.float32)


def _next_measured(depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """For every pixel (H, W) the last value before it in its row that is not NaN."""
    columns = np.where(np.isnan(depth), -1, np.arange(depth.shape[1]))
    last = np.maximum.accumulate(columns, axis=1)
    padded = np.pad(depth, ((0, 0), (1, 0)), constant_values=np.nan)
    return np.asarray(np.take_along_axis(padded, last + 1, axis=1))


def draw_attention(
    image: NDArray[np.uint8], attention: NDArray[np.float32] | None, scale: int = 1
) -> NDArray[np.uint8]:
    """Draw a policy's image (H, W, C), red where attention (H', W') is high (IAP paper, figure 9).

    Depth is drawn in grey, RGB-D by its colours. Returns (H scale, W scale, 3).
    """
    size = image.shape[1] * scale, image.shape[0] * scale
    colours = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image[..., :3]
    enlarged = cv2.resize(np.ascontiguousarray(colours), size, interpolation=cv2.INTER_NEAREST)
    if attention is None:
        return np.asarray(enlarged, dtype=np.uint8)
    large = np.asarray(enlarged, np.float64)
    strength = np.asarray(cv2.resize(attention, size, interpolation=cv2.INTER_NEAREST))
    weight = 0.8 * (strength / max(float(strength.max()), 1e-9))[..., None]
    return np.asarray((1.0 - weight) * large + weight * RED, dtype=np.uint8)
