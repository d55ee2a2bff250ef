"""Attention drawn over the image it was paid to (figure 9 of the IAP paper, arXiv 2102.04353)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

RED = np.array((255.0, 0.0, 0.0))


def draw_attention(
    image: NDArray[np.uint8], attention: NDArray[np.float32], scale: int = 1
) -> NDArray[np.uint8]:
    """The RGB image (H, W, 3), enlarged `scale` times, red where attention (H', W') is high."""
    size = image.shape[1] * scale, image.shape[0] * scale
    large = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_NEAREST), np.float64)
    strength = np.asarray(cv2.resize(attention, size, interpolation=cv2.INTER_NEAREST))
    weight = 0.8 * (strength / max(float(strength.max()), 1e-9))[..., None]
    return np.asarray((1.0 - weight) * large + weight * RED, dtype=np.uint8)
