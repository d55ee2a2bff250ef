"""Camera errors: motion blur, lens, exposure and noise of colours, and those of stereo depth."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_RANGE_M, fill_holes, rgbd
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import FAR_M
from pixelgait.sim.body.randomisation import Sample

# Assumptions. Blur is the mean of this many pictures; at the fastest turn a picture of 32 pixels
# moves by less than one.
BLUR_TAPS = 5
UNSEEN_PIXELS = 0.1  # motion below the resolution of bytes
MOST_EXPOSED = 2.0  # largest error of automatic exposure: one stop
# Assumptions. Neighbours whose inverse depths [1/m] differ by more have an edge between them:
# 0.11 m beyond 1 m, 1.3 m beyond 3 m.
EDGE_STEP = 0.1
PATCHES = 8  # side of the grid on which shiny and dark patches are drawn


def captured(
    pixels: NDArray[Any],
    sample: Sample,
    focal_pixels: float,
    rng: np.random.Generator,
    motion: tuple[float, float] = (0.0, 0.0),
    brightness: float = 1.0,
) -> NDArray[Any]:
    """An ideal frame as a randomised camera captures it.

    Colours are blurred, tinted, darker in the corners and noisy; depth has the errors of a stereo
    camera, with its holes filled.

    Args:
        pixels: The ideal frame, see `Camera`.
        sample: The camera's parameters.
        focal_pixels: Focal length.
        rng: Source of noise.
        motion: Motion of the picture during the exposure [pixels], left and up.
        brightness: Factor of automatic exposure.
    """
    if pixels.dtype == np.float32:  # depth [m]
        return fill_holes(apply_stereo(pixels, sample, focal_pixels, rng))
    colours = apply_camera(pixels[..., :3], sample, motion, brightness, rng)
    if pixels.shape[2] == 3:
        return colours
    # Bytes saturate at their range: those pixels count as measured.
    far = pixels[..., 3] == 255
    depth = np.where(far, FAR_M, pixels[..., 3] * (DEPTH_RANGE_M / 255.0))
    return rgbd(colours, fill_holes(apply_stereo(depth, sample, focal_pixels, rng, cuts=False)))


def apply_camera(
    pixels: NDArray[np.uint8],
    sample: Sample,
    motion: tuple[float, float],
    exposure: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """An ideal frame (H, W, 3) with the effects of a camera.

    `motion` is that of the picture while the shutter is open [pixels], right and down; `exposure` a
    factor on the brightness in addition to the sample's gain.
    """
    values: Array = _blurred(pixels.astype(np.float32), *motion).astype(np.float64)
    tint = np.array((sample.camera_red, 1.0, sample.camera_blue)) * sample.camera_gain * exposure
    values = values * (tint * _vignette(sample.camera_vignetting, *pixels.shape[:2])[..., None])
    values = values + sample.camera_noise * rng.standard_normal(pixels.shape)
    return np.asarray(values.round().clip(0, 255), dtype=np.uint8)


class AutomaticExposure:
    """Automatic exposure: follows the brightness of the scene with a lag.

    The first frame is exposed correctly; `strength` 0 is a fixed exposure, 1 undoes all changes.
    """

    def __init__(self, strength: float, lag_s: float) -> None:
        self.strength, self.lag_s = strength, lag_s
        self._first = self._level = 0.0  # mean brightness: of the first frame, and as followed
        self._time_s = -math.inf
        self._factor = 1.0

    def factor(self, pixels: NDArray[np.uint8], time_s: float) -> float:
        """Factor on the brightness of a frame; repeated calls for a frame return the same."""
        if time_s == self._time_s:
            return self._factor
        mean = max(
            1.0, float(pixels.mean())
        )  # assumption: at least 1 of 255, black has no exposure
        if self._first == 0.0:
            self._first = self._level = mean
        else:
            share = 1.0 - math.exp(-(time_s - self._time_s) / max(self.lag_s, 1e-6))
            self._level += share * (mean - self._level)
        self._time_s = time_s
        factor = (self._first / self._level) ** self.strength
        self._factor = min(max(factor, 1.0 / MOST_EXPOSED), MOST_EXPOSED)
        return self._factor


def apply_stereo(
    depth: Array,
    sample: Sample,
    focal_pixels: float,
    rng: np.random.Generator,
    cuts: bool = True,
) -> NDArray[np.float32]:
    """Measured depth (H, W) [m] of a true one, NaN where there is none; inf is an empty pixel.

    Depth beyond the sample's range is not measured, or without `cuts` measured badly.
    """
    inverse = 1.0 / np.maximum(depth.astype(np.float64), 1e-3)
    noise, lost, fly, mix = (rng.random(depth.shape) for _ in range(4))
    patchy = cv2.resize(rng.random((PATCHES, PATCHES)), depth.shape[::-1], interpolation=0)
    furthest_m = max(sample.depth_range_m, 1e-3)
    # Assumption: three times as many single holes at the far end as nearby: the projector fades.
    gone = lost < sample.depth_holes * (0.5 + np.minimum(depth, furthest_m) / furthest_m)
    gone |= patchy < sample.depth_patches
    gone |= _occluded(inverse, focal_pixels * sample.depth_baseline_m)
    flying = _at_edges(inverse) & (fly < sample.depth_flying)
    inverse = np.where(flying, _between_neighbours(inverse, mix), inverse)
    # Errors of disparity are uniform in inverse depth, so depth errs by its square [m]. Assumption:
    # a uniform distribution.
    inverse = inverse + sample.depth_error_per_m * np.sqrt(12.0) * (noise - 0.5)
    if sample.depth_step_per_m:
        inverse = np.rint(inverse / sample.depth_step_per_m) * sample.depth_step_per_m
    far = cuts & (inverse <= 1.0 / furthest_m)
    seen = 1.0 / np.maximum(inverse, 1e-6)
    gone |= far | (seen < sample.depth_nearest_m)
    return np.where(gone, np.nan, seen).astype(np.float32)


def _vignette(strength: float, height: int, width: int) -> Array:
    """Share of the light (H, W); falls with the squared distance to the middle, about as cos^4."""
    v = np.linspace(-1.0, 1.0, height)[:, None]
    u = np.linspace(-1.0, 1.0, width)
    return np.asarray(1.0 - strength * (u * u + v * v) / 2.0)


def _blurred(values: NDArray[np.float32], right: float, down: float) -> NDArray[np.float32]:
    """The mean of the picture along a motion [pixels]."""
    if math.hypot(right, down) < UNSEEN_PIXELS:
        return values
    height, width = values.shape[:2]
    total = np.zeros_like(values)
    for share in np.linspace(-0.5, 0.5, BLUR_TAPS):
        shift = np.array(((1.0, 0.0, share * right), (0.0, 1.0, share * down)))
        total += cv2.warpAffine(values, shift, (width, height), borderMode=cv2.BORDER_REPLICATE)
    return total / np.float32(BLUR_TAPS)


def _occluded(inverse: Array, pixels_m: float) -> NDArray[np.bool_]:
    """Pixels of the left imager that are occluded for the right one by something nearer.

    They are bands on the left of near surfaces, as wide as the difference of the disparities.
    """
    columns = np.arange(inverse.shape[1])
    in_right = columns - pixels_m * inverse
    leftmost = np.full_like(in_right, np.inf)  # edge of all pixels further right
    leftmost[:, :-1] = np.minimum.accumulate(in_right[:, :0:-1], axis=1)[:, ::-1] - 0.5
    return np.asarray(in_right > leftmost)


def _at_edges(inverse: Array) -> NDArray[np.bool_]:
    """Pixels with a right or left neighbour that is much nearer or further."""
    step = np.abs(np.diff(inverse, axis=1)) > EDGE_STEP
    edges = np.zeros(inverse.shape, bool)
    edges[:, 1:] |= step
    edges[:, :-1] |= step
    return edges


def _between_neighbours(inverse: Array, share: Array) -> Array:
    """Inverse depth between the left and the right neighbour, at a share (H, W)."""
    left, right = np.roll(inverse, 1, axis=1), np.roll(inverse, -1, axis=1)
    left[:, 0], right[:, -1] = inverse[:, 0], inverse[:, -1]
    return np.asarray(left + share * (right - left))
