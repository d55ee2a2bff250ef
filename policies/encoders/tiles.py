"""Square patches that tile an image."""

from __future__ import annotations

from torch import Tensor


def tiles(image: Tensor, patch: int) -> Tensor:
    """Images (B, H, W, C) as patches (B, P, patch * patch * C), row by row."""
    grid: Tensor = image.unflatten(2, (-1, patch)).unflatten(1, (-1, patch)).transpose(2, 3)
    return grid.flatten(3).flatten(1, 2)
