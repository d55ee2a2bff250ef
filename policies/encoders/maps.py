"""Even and odd features: maps of a mirror-equivariant network, split by their symmetry."""

from __future__ import annotations

import torch
from torch import Tensor


def even_and_odd(grid: Tensor) -> Tensor:
    """Maps (B, rows, columns, c) as even features, then `odd_size` odd ones, (B, F).

    Flipping the map left-right negates the odd features and keeps the even ones.
    """
    columns, mirrored = grid.shape[2], grid.flip(2)
    even = (grid + mirrored)[:, :, : (columns + 1) // 2]
    odd = (grid - mirrored)[:, :, : columns // 2]
    return torch.cat([even.flatten(1), odd.flatten(1)], 1) / 2.0


def odd_size(rows: int, columns: int, channels: int) -> int:
    """Number of odd features of such a map."""
    return rows * (columns // 2) * channels
