"""Memory: a recurrent cell (GRU, LSTM) between the encoder and the head of a high level.

The recurrent state updates once per processed image; it has no time input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
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

    def unrolled(self, x: Tensor, starts: Tensor, state: Tensor) -> Tensor:
        """States (T, B, n) after each of T inputs (T, B, i), from a state (B, n).

        The state is zero before an input where `starts` (T, B) is true.
        """
        states = []
        for inputs, fresh in zip(x, starts, strict=True):
            state = self.advance(inputs, state * ~fresh[:, None])
            states.append(state)
        return torch.stack(states)

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

    def unrolled(self, x: Tensor, starts: Tensor, state: Tensor) -> Tensor:
        """As `advance` step by step, but for rounding, in half the time with gradients."""
        own, recurrent = (
            [each.weight[:, part] for each in (self.gates, self.candidate)]
            for part in (slice(None, self.size), slice(self.size, None))
        )
        biases = self.gates.bias, self.candidate.bias
        gates, candidates = (F.linear(x, w, b) for w, b in zip(own, biases, strict=True))
        going = (~starts)[..., None].to(x.dtype)
        states: Tensor = UnrolledGRU.apply(gates, candidates, going, state, *recurrent)
        return states


class UnrolledGRU(torch.autograd.Function):
    """A GRU's recurrence over T steps, with its gradient in closed form.

    torch's own GRU resets after the product with the recurrent weights, this one before it, as in
    arXiv 1406.1078. What needs no state is computed for all steps at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        candidates: Tensor,
        going: Tensor,
        state: Tensor,
        gate_weights: Tensor,
        candidate_weights: Tensor,
    ) -> Tensor:
        """States (T, B, n).

        Args:
            gates: the inputs' part (T, B, 2 n), before the sigmoid.
            candidates: the inputs' part (T, B, n), before the tanh.
            going: 0 (T, B, 1) where an episode begins, else 1.
            state: (B, n) before the first step.
            gate_weights, candidate_weights: of the state (2 n, n) and (n, n).
        """
        size = state.shape[-1]
        of_gates, of_candidates = gate_weights.t(), candidate_weights.t()
        steps = []
        for x, y, on in zip(gates, candidates, going, strict=True):
            before = state * on
            opened = torch.addmm(x, before, of_gates).sigmoid_()
            keep, reset = opened[:, :size], opened[:, size:]
            kept = reset * before
            new = torch.addmm(y, kept, of_candidates).tanh_()
            state = torch.lerp(new, before, keep)
            steps.append((before, opened, kept, new, state))
        *saved, states = (torch.stack(each) for each in zip(*steps, strict=True))
        ctx.save_for_backward(going, gate_weights, candidate_weights, *saved)
        return states

    @staticmethod
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of all arguments but `going`."""
        going, gate_weights, candidate_weights, before, opened, kept, new = ctx.saved_tensors
        size = new.shape[-1]
        keep, reset = opened[..., :size], opened[..., size:]
        # Factors from a state's gradient to those of what it was made of.
        to_new = (1.0 - keep) * (1.0 - new * new)
        slopes = opened * (1.0 - opened)
        to_keep, to_reset = (before - new) * slopes[..., :size], before * slopes[..., size:]
        d_gates, d_candidates = torch.empty_like(opened), torch.empty_like(new)
        d_state = torch.zeros_like(new[0])
        for t in range(len(new) - 1, -1, -1):
            d_state = d_state + d_states[t]
            d_new = torch.mul(d_state, to_new[t], out=d_candidates[t])
            d_kept = d_new @ candidate_weights
            torch.mul(d_state, to_keep[t], out=d_gates[t, :, :size])
            torch.mul(d_kept, to_reset[t], out=d_gates[t, :, size:])
            d_before = torch.addcmul(d_kept * reset[t], d_state, keep[t])
            d_state = d_before.addmm_(d_gates[t], gate_weights) * going[t]
        of_gates = d_gates.flatten(0, 1).t() @ before.flatten(0, 1)
        of_candidates = d_candidates.flatten(0, 1).t() @ kept.flatten(0, 1)
        return d_gates, d_candidates, None, d_state, of_gates, of_candidates


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
