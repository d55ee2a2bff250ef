"""Attention overlay on a policy's image (IAP paper, figure 9, arXiv 2102.04353)."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

RED = np.array((255.0, 0.0, 0.0))


def draw_attention(
    image: NDArray[np.uint8], attention: NDArray[np.float32] | None, scale: int = 1
) -> NDArray[np.uint8]:
    """Draw a policy's image (H, W, C), red where attention (H', W') is high.

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
