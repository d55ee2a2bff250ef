"""Maps of a mirror-equivariant network as features that a mirror image keeps or negates."""

from __future__ import annotations

import torch
from torch import Tensor


def even_and_odd(grid: Tensor) -> Tensor:
    """Maps (B, rows, columns, c) as features (B, F): first the even ones, then the odd ones.

    Flipping the map left-right negates the odd ones, the last `odd_size`, and keeps the others.
    """
    columns, mirrored = grid.shape[2], grid.flip(2)
    even = (grid + mirrored)[:, :, : (columns + 1) // 2]
    odd = (grid - mirrored)[:, :, : columns // 2]
    return torch.cat([even.flatten(1), odd.flatten(1)], 1) / 2.0


def odd_size(rows: int, columns: int, channels: int) -> int:
    """Number of odd features of such a map."""
    return rows * (columns // 2) * channels
