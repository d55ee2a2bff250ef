"""Memory: a recurrent cell (GRU, LSTM) between the encoder and the head of a high level.

The recurrent state updates once per processed image; it has no time input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Memory(nn.Module, ABC):
    """A cell with a state of `size` numbers, the first `units` of which the head reads.

    In two steps: `inputs` needs no state, so it runs once over a whole sequence.
    """

    size: int
    units: int

    def forward(self, features: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from features (B, F) and state (B, n)."""
        return self.advance(self.inputs(features), state)

    @abstractmethod
    def inputs(self, features: Tensor) -> Tensor:
        """Inputs (..., i) of the cell from features (..., F)."""

    @abstractmethod
    def advance(self, x: Tensor, state: Tensor) -> Tensor:
        """The next state (B, n) from inputs (B, i) and state (B, n); any leading axes."""

    def read(self, state: Tensor) -> Tensor:
        """Inputs of the head (..., units): the first numbers of a state (..., n)."""
        return state[..., : self.units]


class GRU(Memory):
    """A tanh layer of the features, then a gated recurrent unit (arXiv 1406.1078), both `size`."""

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
    """Long short-term memory (Hochreiter and Schmidhuber 1997); its state: outputs, then cells.

    With 16 units it is the controller of AttentionAgent (arXiv 2003.08165).
    """

    def __init__(self, features: int, units: int) -> None:
        super().__init__()
        self.size, self.units = 2 * units, units
        self.gates = nn.Linear(features, 4 * units)
        self.recurrent = nn.Linear(units, 4 * units)
        with torch.no_grad():  # open forget gates: 150 steps of fitting suffice
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
    """The memory that a text such as gru:32 names; None for an empty text.

    Args:
        features: number of the encoder's features.

    Raises:
        ValueError: if there is no such memory.
    """
    if not memory:
        return None
    kind, _, size = memory.partition(":")
    if kind not in MEMORIES or not size.isdecimal() or not int(size):
        raise ValueError(f"memory '{memory}', expected gru:SIZE or lstm:SIZE with 1 or more units")
    return MEMORIES[kind](features, int(size))
