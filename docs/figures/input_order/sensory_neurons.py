"""Sensory neurons (AttentionNeuron over numbers, arXiv 2109.02869): inputs in any order."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.encoders.attention_neuron import POSITIONS, sinusoids
from pixelgait.policies.low_level import LowLevelGraph
from pixelgait.robot.control.low_level import INPUT_SIZE, OUTPUT_SIZE
from pixelgait.robot.spec import Array, RobotSpec

MemoryState = tuple[Tensor, Tensor]  # of all cells: (1, B N, hidden) each


class SensoryNeurons(nn.Module):
    """The same recurrent cell reads every input, and has to infer which input it is.

        K = LSTM(o_i, a),   m = tanh(tanh(Q W_q (K W_k)^T) o),   action = W m + b        (eq. 2)

    with inputs o (N,) in any order and number, and the last action a, which all cells share. Q is
    a fixed table. Attention has tanh in place of softmax, and values are the inputs themselves, as
    in the authors' code for continuous control. Their cell has 8 units; sizes for a robot of twelve
    joints are an assumption. A cell's state belongs to its place: after a shuffle cells have to
    infer their input again.

    Args:
        hidden: units of a cell.
        dim: length of queries and keys.
        rows: number of queries.
        actions: length of an action.
    """

    questions: Tensor

    def __init__(
        self, hidden: int = 24, dim: int = 32, rows: int = 64, actions: int = OUTPUT_SIZE
    ) -> None:
        super().__init__()
        self.cell = nn.LSTM(1 + actions, hidden)
        self.query, self.key = nn.Linear(POSITIONS, dim), nn.Linear(hidden, dim)
        self.out = nn.Linear(rows, actions)
        self.actions = actions
        self.register_buffer("questions", sinusoids(rows), persistent=False)

    def forward(
        self, values: Tensor, last: Tensor, state: MemoryState | None = None
    ) -> tuple[Tensor, MemoryState]:
        """Actions (T, B, A) for sequences of inputs (T, B, N) and the actions before (T, B, A).

        `state` is the state of the cells; None: zero.
        """
        _, batch, inputs = values.shape
        known = last[:, :, None].expand(-1, -1, inputs, -1)
        felt = torch.cat([values[..., None], known], -1).flatten(1, 2)  # (T, B N, 1 + A)
        remembered, state = self.cell(felt, state)
        keys = self.key(remembered).unflatten(1, (batch, inputs))
        weights = torch.tanh(self.query(self.questions) @ keys.transpose(-1, -2))  # (T, B, M, N)
        message = torch.tanh((weights @ values[..., None])[..., 0])
        return self.out(message), state


class NeuronGraph(LowLevelGraph):
    """Sensory neurons that drive a gait generator: a low level, step by step and to export.

    Its state is the last action, then the state of the cells.
    """

    def __init__(self, spec: RobotSpec, network: SensoryNeurons) -> None:
        size = INPUT_SIZE * network.cell.hidden_size
        super().__init__(spec, network.actions + 2 * size)
        self.network, self._sizes = network, [network.actions, size, size]

    def act(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `LowLevelGraph`."""
        last, *cells = state.split(self._sizes)
        before = tuple(each.view(1, INPUT_SIZE, -1) for each in cells)
        action, after = self.network(x[None, None], last[None, None], before)
        action = action[0, 0].clamp(-1.0, 1.0)
        return action, torch.cat([action, *(each.flatten() for each in after)])


class NeuronPolicy:
    """Sensory neurons step by step in an episode; keeps their state and last action."""

    def __init__(self, network: SensoryNeurons) -> None:
        self.network = network
        self._last = np.zeros(network.actions)
        self._state: MemoryState | None = None

    @torch.no_grad()
    def __call__(self, values: Array) -> NDArray[np.float64]:
        """The action (A,), clipped to [-1, 1], for inputs (N,)."""
        x, last = (torch.tensor(v[None, None], dtype=torch.float32) for v in (values, self._last))
        action, self._state = self.network(x, last, self._state)
        self._last = np.clip(action[0, 0].double().numpy(), -1.0, 1.0)
        return self._last
