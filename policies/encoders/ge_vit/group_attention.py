"""Lifting and group self-attention (GE-ViT, arXiv 2306.06722, sections 5.1 and 5.2).

Maps (B, h, P, d) hold features for every element of a group and every vertex of a grid. When the
image is transformed by k, the features at (g, x) move to (k g, k x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.ge_vit.groups import (
    Encoding,
    Group,
    elements,
    encoded_elements,
    inverses,
)

POSITION_UNITS = 16  # of the positional encoding's perceptron, as in the authors' code
OUTSIDE = -1e9  # score of neighbours beyond the border


@dataclass(frozen=True, slots=True)
class Attention:
    """Options that all layers of an encoder share."""

    dim: int
    heads: int
    rows: int
    columns: int
    window: int  # side of the square of neighbours, odd
    group: Group
    encoding: Encoding

    @property
    def offsets(self) -> Tensor:
        """(n, 2) as (row, column), from a vertex to its n neighbours; row by row."""
        reach = self.window // 2
        steps = torch.arange(-reach, reach + 1)
        return torch.cartesian_prod(steps, steps)


class Windows(nn.Module):
    """The n neighbours of each of the P vertices of a grid.

    Neighbours beyond the border are replaced by the nearest vertex and get no attention.
    """

    neighbours: Tensor
    border: Tensor
    observers: Tensor

    def __init__(self, options: Attention) -> None:
        super().__init__()
        last = torch.tensor([options.rows - 1, options.columns - 1])
        vertices = torch.cartesian_prod(*(torch.arange(size) for size in last + 1))
        wanted = vertices[:, None] + options.offsets
        nearest = wanted.minimum(last).clamp_min(0)
        neighbours = nearest[..., 0] * options.columns + nearest[..., 1]  # (P, n)
        outside = (wanted != nearest).any(-1)
        # The vertex that has j at its first offset is j plus the last offset, and so on.
        observers = neighbours.flip(1) * len(options.offsets) + torch.arange(len(options.offsets))
        self.register_buffer("neighbours", neighbours.flatten(), persistent=False)
        self.register_buffer("border", OUTSIDE * outside.float(), persistent=False)
        self.register_buffer("observers", observers, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, heads, h, P, c) to those of all neighbours (B, heads, P, h * n, c)."""
        near: Tensor = x.index_select(3, self.neighbours).unflatten(3, self.border.shape)
        return near.transpose(2, 3).flatten(3, 4)

    def received(self, attention: Tensor) -> Tensor:
        """Attention received by each vertex (B, P), from that given to neighbours (B, P, n)."""
        inside = (self.border.flip(1) == 0.0).float()
        received: Tensor = (attention.flatten(1)[:, self.observers] * inside).sum(-1)
        return received


class GroupAttention(nn.Module):
    """Attention within windows, for every element v of the group (eq. 14 and 17).

        out(i, v) = sum_g sum_(j, m) softmax_(j, m)(q(i, g) . (k(j, m) + rho)) value(j, m)
        rho = rho^P(v^-1 (x_j - x_i), encoded element of (v, g, m))

    With `lifting` the input is a map without elements (h = 1), so there are neither g nor m.

    The paper leaves rho^P open: here a perceptron of the offset plus a vector for each element,
    shared by all heads. Scores are divided by sqrt(d), as in the authors' code.
    """

    offsets: Tensor
    encoded: Tensor

    def __init__(self, options: Attention, lifting: bool = False) -> None:
        super().__init__()
        dim, width = options.dim, options.dim // options.heads
        self.heads, self.scale = options.heads, dim**-0.5
        self.windows = Windows(options)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.position = nn.Sequential(
            nn.Linear(2, POSITION_UNITS), nn.SiLU(), nn.Linear(POSITION_UNITS, width)
        )
        matrices = elements(options.group)
        size = len(matrices)
        self.element = None if lifting else nn.Parameter(torch.randn(size, width))
        offsets = options.offsets.double().numpy() / (options.window // 2)  # in [-1, 1]
        turned = offsets @ matrices[inverses(options.group)].swapaxes(1, 2)  # (v, n, 2)
        # Indices (v, g, m) of scores (g, elements).
        encoded = encoded_elements(options.group, options.encoding)
        encoded = encoded + size * np.arange(size)[:, None]
        self.register_buffer("offsets", torch.from_numpy(turned).float(), persistent=False)
        self.register_buffer("encoded", torch.from_numpy(encoded), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (B, h, P, d) to the same, and how much each vertex was attended to (B, P)."""
        qkv = self.query_key_value(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(3, 0, 4, 1, 2, 5)  # each (B, heads, h, P, c)
        scores = self._scores(q.transpose(2, 3) * self.scale, self.windows(k))
        weights = scores.flatten(-2).softmax(-1).sum(4)  # (B, heads, P, v, m * n)
        out = (weights @ self.windows(v)).permute(0, 3, 2, 1, 4).flatten(3)
        given = weights.unflatten(-1, scores.shape[-2:]).sum((1, 3, 4))
        return self.project(out), self.windows.received(given)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Scores (B, heads, P, v, g, m, n) of queries (..., g, c) and keys (..., m * n, c)."""
        size, count = self.offsets.shape[:2]
        content = (q @ k.transpose(-2, -1)).unflatten(-1, (-1, count)).unsqueeze(3)
        places = self.position(self.offsets).flatten(0, 1)  # (v * n, c)
        position = (q @ places.t()).unflatten(-1, (size, count)).transpose(3, 4).unsqueeze(5)
        scores: Tensor = content + position + self.windows.border[:, None, None, None]
        if self.element is None:
            return scores
        return scores + (q @ self.element.t()).flatten(3)[..., self.encoded].unsqueeze(-1)
