"""Colour effects of a camera: motion blur, vignetting, white balance, noise, automatic exposure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

# Assumptions. Blur is the mean of this many pictures; at the fastest turn a picture of 32 pixels
# moves by less than one.
BLUR_TAPS = 5
UNSEEN_PIXELS = 0.1  # motion below the resolution of bytes
MOST_EXPOSED = 2.0  # largest error of automatic exposure: one stop


@dataclass(frozen=True, slots=True)
class Lens:
    """Lens and image sensor, ideal by default."""

    gain: float = 1.0
    noise: float = 0.0  # standard deviation of a pixel's colours, of 255
    red: float = 1.0  # white balance: factors
    blue: float = 1.0
    vignetting: float = 0.0  # share of the light missing in the corners


def apply_camera(
    pixels: NDArray[np.uint8],
    lens: Lens,
    motion: tuple[float, float],
    exposure: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """An ideal frame (H, W, 3) with the effects of a camera.

    `motion` is that of the picture while the shutter is open [pixels], right and down; `exposure` a
    factor on the brightness in addition to the lens's gain.
    """
    values: Array = _blurred(pixels.astype(np.float32), *motion).astype(np.float64)
    tint = np.array((lens.red, 1.0, lens.blue)) * lens.gain * exposure
    values = values * (tint * _vignette(lens.vignetting, *pixels.shape[:2])[..., None])
    values = values + lens.noise * rng.standard_normal(pixels.shape)
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
