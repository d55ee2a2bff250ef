"""Memory of a high level: a recurrent cell between its encoder and its head.

Its state advances when the high level looks, not with time: what a decision was made of is what
the next one remembers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LARGEST = 4096  # units; more is a slip of the keyboard


class GRU(nn.Module):
    """`size` tanh units of the features, then a gated recurrent unit (arXiv 1406.1078) as large.

    In two parts, as the first needs no state: over a sequence it is done at once.
    """

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.squeeze = nn.Linear(features, size)
        self.gates = nn.Linear(2 * size, 2 * size)
        self.candidate = nn.Linear(2 * size, size)

    def forward(self, features: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from features (B, F) and state (B, n)."""
        return self.advance(self.inputs(features), state)

    def inputs(self, features: Tensor) -> Tensor:
        """(..., n) from features (..., F)."""
        return torch.tanh(self.squeeze(features))

    def advance(self, x: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from inputs (B, n) and state (B, n); any leading axes."""
        gates = torch.sigmoid(self.gates(torch.cat([x, state], -1)))
        keep, reset = gates.chunk(2, -1)
        candidate = torch.tanh(self.candidate(torch.cat([x, reset * state], -1)))
        return keep * state + (1.0 - keep) * candidate


def cells_of(memory: str, features: int) -> GRU | None:
    """The memory that a text like gru:32 names, for so many features; none for an empty text.

    Raises:
        ValueError: there is no such memory.
    """
    if not memory:
        return None
    kind, _, size = memory.partition(":")
    if kind != "gru" or not size.isdecimal() or not 1 <= int(size) <= LARGEST:
        raise ValueError(f"memory '{memory}', expected gru:SIZE with 1 to {LARGEST} units")
    return GRU(features, int(size))
