"""Transformations of a lattice as attention masks (LatFormer, arXiv 2306.03175, section 3).

A transformation gives each of n cells the index of its source. Table 1 lists offsets o_k from cell
k; here they are indices k + o_k, from 0. The table is right for translation and reflection, for
rotation on square lattices only, and for up-scaling with the opposite sign.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def translated(size: int, by: int) -> Tensor:
    """Sources (n,) of a row of cells moved `by` cells ahead; the last ones come first."""
    return (torch.arange(size) - by) % size


def reflected(size: int) -> Tensor:
    """Sources (n,) of a row of cells in the opposite order."""
    return torch.arange(size).flip(0)


def upscaled(size: int, by: int) -> Tensor:
    """Sources (n,) of a row of cells, each repeated `by` times and cropped."""
    return torch.arange(size) // by


def rotated(rows: int, columns: int) -> Tensor:
    """Sources (n,) of a lattice turned by 90 degrees counter-clockwise; both row by row."""
    row, column = torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="ij")
    return (column * columns + columns - 1 - row).flatten()


def mask(sources: Tensor) -> Tensor:
    """The attention mask (n, n) of a transformation: a 1 in each row."""
    return F.one_hot(sources, len(sources)).float()


def product(rows: Tensor, columns: Tensor) -> Tensor:
    """Masks (B, n, n) of a lattice from those of its rows (B, r, r) and its columns (B, c, c).

    Their Kronecker product (theorem 3.2); torch.kron takes no batch.
    """
    return (rows[:, :, None, :, None] * columns[:, None, :, None]).flatten(3).flatten(1, 2)
