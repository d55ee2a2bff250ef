"""Attention kernels K(u, v) = E[phi(u)^T phi(v)] by their features (arXiv 2102.04353, section 4).

A kernel turns patches into the importance r^T Q' (K')^T of each (eq. 3). Queries are summed, by
their weights r where these are not 1, before they meet a key, so time and memory are linear in the
number of patches L.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.encoders.iap.ordered import (
    Projection,
    alike,
    ordered_sum,
    product,
    whole_vectors,
)

RELU_EPSILON = 1e-3  # Performer's deterministic ReLU features: relu(z) + 0.001
RANDOM_KERNELS = ("favor", "trig", "hybrid")
SIGNED_KERNELS = ("trig", "hybrid")  # with estimates that may be below 0
KERNELS = ("relu", *RANDOM_KERNELS)
TILE = 1 << 14  # patches at a time, so that the steps of a tile find it in the cache
STEEP = 2.0**60  # a value times this, clipped to [-1, 1], is its sign, 0 included
SMALLEST_SQUARE = 1e-12  # least squared length to divide by


def orthogonal_gaussian(rows: int, dim: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Vectors (rows, dim), each N(0, I), orthogonal within every block of `dim` (eq. 6)."""
    blocks = []
    for _ in range(0, rows, dim):
        q, upper = np.linalg.qr(generator.standard_normal((dim, dim)))
        # LAPACK fixes the signs of Q, which is then not uniform over rotations: without the
        # correction eq. 6 is biased by 25 %.
        q = q * np.sign(np.diagonal(upper))
        blocks.append(q * np.sqrt(generator.chisquare(dim, (dim, 1))))
    return np.concatenate(blocks)[:rows]


class ReLUKernel(nn.Module):
    """Deterministic features relu(u) + 0.001 of queries and keys as they are, without scaling."""

    def forward(
        self,
        x: Tensor,
        query: Projection,
        key: Projection,
        count: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Importance (B, L) of the first L = `count` of patches (B, c, L or more).

        Queries are weighted by `weights` (L,), or not.
        """
        # Not by `split`, which copies even a single tile.
        starts = range(0, count, TILE)
        tiles = [(x[..., i : i + TILE], min(TILE, count - i)) for i in starts]
        parts = [None] * len(tiles) if weights is None else weights.split(TILE)
        sums = [self._sum(query(*tile), part) for tile, part in zip(tiles, parts, strict=True)]
        total = reduce(torch.add, sums)
        return torch.cat([alike(total, self._features(key(*tile))) for tile in tiles], -1)[:, 0]

    def _features(self, u: Tensor) -> Tensor:
        return F.relu(u) + RELU_EPSILON

    def _sum(self, u: Tensor, weights: Tensor | None) -> Tensor:
        """Features of (B, d, L) summed over patches, weighted or not: (B, 1, d)."""
        features = self._features(u) if weights is None else self._features(u) * weights
        # Another memory layout would be summed in another order, which matters where two patches
        # are almost equally important.
        return features.transpose(1, 2).contiguous().sum(1, keepdim=True)


class Features(NamedTuple):
    """Random features of L vectors u: products of signs, values and growth (eq. 8).

    Divided by exp(exponent) and times sqrt(m), so none overflows.
    """

    signs: Tensor  # (B, 1 + r, L) ones, then sgn(xi^T u); of queries maybe times their weights
    values: list[Tensor]  # (B, m, L) exponentials, sines, cosines of the kernel
    growth: Tensor  # (B, 1, L or 1)
    exponent: Tensor  # (B, 1, 1)


class SoftmaxKernel(nn.Module):
    """Unbiased random features of the softmax kernel exp(x^T y).

    "favor" has positive exponential features (eq. 6), "trig" sines and cosines (section 4.1),
    "hybrid" combines both by an estimate of the angle between x and y (eq. 7 to 9), which makes
    the error vanish at angles 0 and pi.

    Args:
        name: one of RANDOM_KERNELS.
        dim: length d of queries and keys.
        m: Gaussian vectors omega of the softmax kernel.
        r: Gaussian vectors xi of the angle; only of "hybrid".
        same_length: scale vectors to the length d^(1/4) (eq. 5), not by d^(-1/4) (eq. 4).
        seed: of omega and xi, which are constants.
    """

    omega: Tensor
    xi: Tensor
    weights: Tensor

    def __init__(
        self, name: str, dim: int, m: int = 10, r: int = 5, same_length: bool = False, seed: int = 0
    ) -> None:
        super().__init__()
        self.exponential, self.trigonometric = name != "trig", name != "favor"
        self.same_length = same_length
        r = r if name == "hybrid" else 0
        generator = np.random.default_rng(seed)
        for buffer, rows in (("omega", m), ("xi", r)):
            vectors = orthogonal_gaussian(rows, dim, generator) if rows else np.empty((0, dim))
            self.register_buffer(buffer, torch.tensor(vectors).float(), persistent=False)
        self.register_buffer("weights", _weights(name, m, r), persistent=False)

    def forward(
        self,
        x: Tensor,
        query: Projection,
        key: Projection,
        count: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Importance (B, L) of the first L = `count` of patches (B, c, L or more).

        Up to a factor common to all patches; queries are weighted by `weights` (L,), or not.
        """
        queries, keys = self.features(x, query, count), self.features(x, key, count)
        if weights is not None:
            queries = queries._replace(signs=queries.signs * weights)
        return self.importance(queries, keys)

    def importance(self, queries: Features, keys: Features) -> Tensor:
        """Kernel summed over queries (B, L), divided by the exponentials of both exponents.

        The m r last features of eq. 8 and 9, products of signs and values, are never formed.
        """
        signs = queries.signs * queries.growth
        pairs = zip(queries.values, keys.values, self.weights, strict=True)
        rows = reduce(torch.add, [_attend(signs, q, k, weights) for q, k, weights in pairs])
        return ordered_sum(rows * keys.signs, 1) * keys.growth[:, 0]

    def features(self, x: Tensor, projection: Projection, count: int | None = None) -> Features:
        """Features of u = W x + b for the first `count` patches, or all, of x (B, c, L)."""
        columns, dim = projection.shorter(x, count), projection.out_features
        squares = projection.squares(columns).unsqueeze(-2)  # (B, 1, L)
        if self.same_length:
            scale = dim**0.25 * squares.clamp_min(SMALLEST_SQUARE).rsqrt()
            z = projection.then(self.omega, columns, alike) * scale  # (B, m, L)
            half = torch.full_like(squares, dim**0.5 / 2.0)  # |z|^2 / 2
        else:
            z = projection.then(self.omega * dim**-0.25, columns, alike)
            half = squares * (dim**-0.5 / 2.0)
        exponent = self._exponent(z, half)
        signs = self._signs(columns, projection)
        if not self.trigonometric:
            powers = torch.exp(z - (half + exponent))
            return Features(signs, [powers], torch.ones_like(exponent), exponent)
        # Exponentials have the growth of waves taken out: no logarithm exceeds |omega|^2 / 2.
        values = [torch.exp(z - 2.0 * half)] if self.exponential else []
        padded, length = whole_vectors(z), z.shape[-1]
        values += [padded.sin()[..., :length], padded.cos()[..., :length]]
        return Features(signs, values, torch.exp(half - exponent), exponent)

    def _exponent(self, z: Tensor, half: Tensor) -> Tensor:
        """Scale (B, 1, 1): about the largest logarithm of a feature.

        One for all vectors; one for each, as in Performer, would change the ranking.
        """
        if not self.trigonometric:
            return (z - half).amax((-2, -1), keepdim=True)
        highest = half.amax((-2, -1), keepdim=True)
        if not self.exponential:
            return highest
        lengths = self.omega.square().sum(-1, keepdim=True)  # (m, 1)
        # omega^T z - |z|^2 / 2 <= |omega|^2 / 2
        return torch.maximum(highest, lengths.amax(-2, keepdim=True) / 2.0)

    def _signs(self, columns: Tensor, projection: Projection) -> Tensor:
        if not len(self.xi):
            return torch.ones_like(columns[:, :1])
        # Clipped, as onnxruntime's Sign takes ten times as long.
        signs = projection.then(STEEP * self.xi, columns, product).clamp(-1.0, 1.0)
        return torch.cat([torch.ones_like(signs[:, :1]), signs], 1)


def _attend(signs: Tensor, queries: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """Sums over queries, for each row of signs (B, 1 + r, L), weighted by keys: (B, 1 + r, L)."""
    total = signs @ queries.transpose(1, 2) * weights  # (B, 1 + r, m)
    return alike(total, keys)


def _weights(name: str, m: int, r: int) -> Tensor:
    """Weights (values, 1 + r, 1) of products of signs and values, in the order of these.

    Eq. 7 with eq. 16 is ((1 - a) exp + (1 + a) trig) / 2 for the angular kernel's estimate a. The
    paper prints the minus sign in both factors (beta of eq. 9), where it cancels.
    """
    if name != "hybrid":
        return torch.full((1 if name == "favor" else 2, 1, 1), 1.0 / m)
    weights = torch.full((3, 1 + r, 1), 0.5 / m)
    weights[:, 1:] /= r
    weights[0, 1:] *= -1.0
    return weights
