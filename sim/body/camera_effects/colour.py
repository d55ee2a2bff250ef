"""Colours as a camera takes them: blurred by motion, dark in the corners, tinted, exposed late."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

# All of these are ours.
# Pictures that a blurred one is the mean of: at full turn 32 pixels move by less than one.
BLUR_TAPS = 5
UNSEEN_PIXELS = 0.1  # of motion, that nobody would see in bytes
MOST_EXPOSED = 2.0  # by so much automatic exposure is off at most: a stop, still a picture


@dataclass(frozen=True, slots=True)
class Lens:
    """A lens and the sensor behind it; as it stands here, an ideal one."""

    gain: float = 1.0
    noise: float = 0.0  # standard deviation of a pixel's colours, of 255
    red: float = 1.0  # white balance: factors
    blue: float = 1.0
    vignetting: float = 0.0  # how much of the light the corners lack


def apply_camera(
    pixels: NDArray[np.uint8],
    lens: Lens,
    motion: tuple[float, float],
    exposure: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """An ideal frame (H, W, 3) as this camera takes it.

    `motion` is how far the picture moves while the shutter is open [pixels], right and down;
    `exposure` a factor on the brightness beside the lens's own.
    """
    values: Array = _blurred(pixels.astype(np.float32), *motion).astype(np.float64)
    tint = np.array((lens.red, 1.0, lens.blue)) * lens.gain * exposure
    values = values * (tint * _vignette(lens.vignetting, *pixels.shape[:2])[..., None])
    values = values + lens.noise * rng.standard_normal(pixels.shape)
    return np.asarray(values.round().clip(0, 255), dtype=np.uint8)


class AutomaticExposure:
    """Follows the brightness of what it sees, late: what the robot turns to is too dark or bright.

    The first frame is well exposed; `strength` 0 is a fixed exposure, 1 would undo all changes.
    """

    def __init__(self, strength: float, lag_s: float) -> None:
        self.strength, self.lag_s = strength, lag_s
        self._first = self._level = 0.0  # mean brightness: of the first frame, and as followed
        self._time_s = -math.inf
        self._factor = 1.0

    def factor(self, pixels: NDArray[np.uint8], time_s: float) -> float:
        """On the brightness of a frame; the same again for a frame that is asked for again."""
        if time_s == self._time_s:
            return self._factor
        mean = max(1.0, float(pixels.mean()))  # of 255, ours: black has no exposure
        if self._first == 0.0:
            self._first = self._level = mean
        else:
            share = 1.0 - math.exp(-(time_s - self._time_s) / max(self.lag_s, 1e-6))
            self._level += share * (mean - self._level)
        self._time_s = time_s
        factor = (self._first / self._level) ** self.strength
        self._factor = min(max(factor, 1.0 / MOST_EXPOSED), MOST_EXPOSED)
        return self._factor


def _vignette(strength: float, height: int, width: int) -> Array:
    """Share of the light (H, W): all of it in the middle. It falls by the square of the distance to
    that, as cos^4 does at first."""
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
