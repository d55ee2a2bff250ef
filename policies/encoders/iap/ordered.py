"""Sums in a fixed order: equal patches get bit-equal results, in torch and in every ONNX runtime.

Library sums and matrix products order their terms by where these lie in memory. Equal patches
(flat surfaces are full of them) would get unequal scores and be ranked by rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Multiply = Callable[[Tensor, Tensor], Tensor]  # (..., n, c) times (..., c, L)
CHAIN = 16  # terms added one by one; more are halved first, which keeps graphs small
LANES = 64  # no vector loop of a library takes more numbers at a time


def ordered_sum(terms: Tensor, dim: int) -> Tensor:
    """Sum along `dim`, elementwise, in an order set by the number of terms alone."""
    rest: list[Tensor] = []
    while (count := terms.shape[dim]) > CHAIN:
        half = count // 2
        if count % 2:
            rest.append(terms.narrow(dim, count - 1, 1))
        terms = terms.narrow(dim, 0, half) + terms.narrow(dim, half, half)
    parts = [terms.narrow(dim, i, 1) for i in range(terms.shape[dim])]
    return reduce(torch.add, parts + rest).squeeze(dim)


def product(matrix: Tensor, x: Tensor) -> Tensor:
    """Matrix (..., n, c) times columns (..., c, L): (..., n, L)."""
    count = x.shape[-2]
    if count > CHAIN:
        return ordered_sum(matrix.unsqueeze(-1) * x.unsqueeze(-3), -2)
    return reduce(torch.add, [matrix[..., i : i + 1] * x[..., i : i + 1, :] for i in range(count)])


def whole_vectors(x: Tensor, dim: int = -1) -> Tensor:
    """Pad along `dim` to a multiple of LANES: libraries treat what is left over differently."""
    spare = -x.shape[dim] % LANES
    return F.pad(x, (*(0, 0) * (-1 - dim), 0, spare)) if spare else x


def alike(matrix: Tensor, x: Tensor, count: int | None = None) -> Tensor:
    """Matrix (..., n, c) times the first `count` columns, or all, of (B, c, L): (B, n, count).

    By a library's matrix product. Its last columns, where they fill no vector, would be summed in
    another order; so would some of a product that has but one row, which is therefore taken twice.
    """
    rows = matrix.shape[-2]
    twice = matrix.expand(*matrix.shape[:-2], 2, -1) if rows == 1 else matrix
    return (twice @ whole_vectors(x))[..., :rows, : x.shape[-1] if count is None else count]


class Projection(nn.Linear):
    """A linear layer on columns: W x + b of x (B, c, L) is (B, d, L).

    If x is padded to whole vectors, `count` is the number of columns that count (default: all).
    """

    def forward(self, x: Tensor, count: int | None = None) -> Tensor:
        """(B, c, L) to (B, d, count)."""
        return alike(self.weight, x, count) + self.bias.unsqueeze(-1)

    def shorter(self, x: Tensor, count: int | None = None) -> Tensor:
        """Columns that `then` and `squares` need, of patches x (B, c, L): the shortest that do.

        These are u = W x + b (B, d, count), or for small patches x with a row of ones below it, as
        products with W and b are constants of the exported graph.
        """
        if self.in_features >= self.out_features:
            return self.forward(x, count)
        x = x[..., :count]
        return torch.cat([x, torch.ones_like(x[:, :1])], 1)

    def then(self, directions: Tensor, columns: Tensor, multiply: Multiply) -> Tensor:
        """Directions (n, d) times u: (B, n, L)."""
        if self.in_features >= self.out_features:
            return multiply(directions, columns)
        return multiply(product(directions, self._with_bias()), columns)

    def squares(self, columns: Tensor) -> Tensor:
        """Squared lengths of u (B, L)."""
        if self.in_features >= self.out_features:
            return ordered_sum(columns * columns, -2)
        matrix = self._with_bias()
        return ordered_sum(columns * alike(product(matrix.t(), matrix), columns), -2)

    def _with_bias(self) -> Tensor:
        """W and b side by side (d, c + 1)."""
        return torch.cat([self.weight, self.bias.unsqueeze(-1)], 1)
