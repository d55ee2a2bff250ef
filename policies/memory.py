"""Memory of a high level: a recurrent cell between its encoder and its head.

Its state advances when the high level looks, not with time: what a decision was made of is what
the next one remembers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

LARGEST = 4096  # units; more is a slip of the keyboard
MOST_WEIGHTS = 1 << 26  # from features and state to units, of which there are up to four times


class Memory(nn.Module, ABC):
    """A cell that advances a state of `size` numbers and tells the head `units` of them.

    In two parts, as the first needs no state: over a sequence it is done at once.
    """

    size: int
    units: int

    def forward(self, features: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from features (B, F) and state (B, n)."""
        return self.advance(self.inputs(features), state)

    @abstractmethod
    def inputs(self, features: Tensor) -> Tensor:
        """(..., i) from features (..., F)."""

    @abstractmethod
    def advance(self, x: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from inputs (B, i) and state (B, n); any leading axes."""

    def read(self, state: Tensor) -> Tensor:
        """What the head is told (..., units) of a state (..., n): its first numbers."""
        return state[..., : self.units]


class GRU(Memory):
    """`size` tanh units of the features, then a gated recurrent unit (arXiv 1406.1078) as large."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size = self.units = size
        self.squeeze = nn.Linear(features, size)
        self.gates = nn.Linear(2 * size, 2 * size)
        self.candidate = nn.Linear(2 * size, size)

    def inputs(self, features: Tensor) -> Tensor:
        return torch.tanh(self.squeeze(features))

    def advance(self, x: Tensor, state: Tensor) -> Tensor:
        gates = torch.sigmoid(self.gates(torch.cat([x, state], -1)))
        keep, reset = gates.chunk(2, -1)
        candidate = torch.tanh(self.candidate(torch.cat([x, reset * state], -1)))
        return keep * state + (1.0 - keep) * candidate


class LSTM(Memory):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): with 16 units the controller of
    AttentionAgent (arXiv 2003.08165). Its state are its outputs, then its cells.
    """

    def __init__(self, features: int, units: int) -> None:
        super().__init__()
        self.size, self.units = 2 * units, units
        self.gates = nn.Linear(features, 4 * units)
        self.recurrent = nn.Linear(units, 4 * units)
        with torch.no_grad():  # it begins by keeping what it has: 150 steps of fitting suffice
            self.gates.bias[units : 2 * units] += 1.0  # Jozefowicz et al. 2015

    def inputs(self, features: Tensor) -> Tensor:
        x: Tensor = self.gates(features)
        return x

    def advance(self, x: Tensor, state: Tensor) -> Tensor:
        output, cells = state.chunk(2, -1)
        enter, keep, candidate, leave = (x + self.recurrent(output)).chunk(4, -1)
        cells = torch.sigmoid(keep) * cells + torch.sigmoid(enter) * torch.tanh(candidate)
        return torch.cat([torch.sigmoid(leave) * torch.tanh(cells), cells], -1)


MEMORIES: dict[str, type[GRU | LSTM]] = {"gru": GRU, "lstm": LSTM}


def cells_of(memory: str, features: int) -> GRU | LSTM | None:
    """The memory that a text like gru:32 names, for so many features; none for an empty text.

    Raises:
        ValueError: there is no such memory, or it has more weights than anybody can fit.
    """
    if not memory:
        return None
    kind, _, size = memory.partition(":")
    if kind not in MEMORIES or not size.isdecimal() or not 1 <= int(size) <= LARGEST:
        raise ValueError(
            f"memory '{memory}', expected gru:SIZE or lstm:SIZE with 1 to {LARGEST} units"
        )
    if int(size) * (features + int(size)) > MOST_WEIGHTS:
        raise ValueError(
            f"memory '{memory}' is too large for {features} features, expected fewer of either"
        )
    return MEMORIES[kind](features, int(size))
