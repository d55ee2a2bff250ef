"""AttentionNeuron as one ONNX graph for any number of inputs; sizes as published."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from docs.figures.input_order.sensory_neurons import SensoryNeurons
from pixelgait.policies.encoders.attention_neuron import AttentionNeuron

# Of torch's exporter, about itself.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
MANY = torch.export.Dim("inputs", min=2, max=4096)
ROUNDING = 1e-5  # relative to the largest entry


class Code(nn.Module):
    """Random patches (1, N, 192)."""

    def __init__(self) -> None:
        super().__init__()
        self.neurons = AttentionNeuron()

    def forward(self, x: Tensor) -> Tensor:
        return self.neurons.code(x)[0]


class Step(nn.Module):
    """An action (1, 1, 19) for inputs (1, 1, N), the last action, and what N cells remember."""

    def __init__(self) -> None:
        super().__init__()
        self.neurons = SensoryNeurons()

    def forward(self, x: Tensor, last: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        action, after = self.neurons(x, last, (h, c))
        return action, *after


def graph_of(module: nn.Module, given: tuple[Tensor, ...], axes: tuple[int | None, ...]) -> bytes:
    """ONNX with any number of inputs along these axes of what is given."""
    shapes = tuple({axis: MANY} if axis is not None else {} for axis in axes)
    with redirect_stdout(io.StringIO()):
        program = torch.onnx.export(module, given, dynamo=True, dynamic_shapes=shapes)
    assert program is not None
    return program.model_proto.SerializeToString()


def require_equal(graph: bytes, module: nn.Module, given: tuple[Tensor, ...]) -> None:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    found = session.run(None, dict(zip(names, (x.numpy() for x in given), strict=True)))
    with torch.no_grad():
        out = module(*given)
    for one, other in zip(found, out if isinstance(out, tuple) else (out,), strict=True):
        assert np.abs(one - other.numpy()).max() <= ROUNDING * float(other.abs().max())


def test_one_exported_graph_takes_any_number_of_patches() -> None:
    torch.manual_seed(0)
    module = Code().eval()
    patches = {count: (torch.rand(1, count, 8 * 8 * 3),) for count in (2, 100, 1024)}
    graph = graph_of(module, patches[100], (1,))
    for given in patches.values():
        require_equal(graph, module, given)


@pytest.mark.slow
def test_one_exported_graph_takes_any_number_of_sensory_inputs() -> None:
    torch.manual_seed(0)
    module = Step().eval()
    units = module.neurons.cell.hidden_size

    def sensations(count: int) -> tuple[Tensor, ...]:
        cells = torch.randn(2, 1, count, units)
        return torch.randn(1, 1, count), torch.rand(1, 1, module.neurons.actions), *cells

    graph = graph_of(module, sensations(17), (2, None, 1, 1))
    for count in (2, 17, 300):
        require_equal(graph, module, sensations(count))


@pytest.mark.parametrize(
    ("sizes", "published"),
    [
        # CartPole: queries and keys without biases.
        ({"rows": 16, "actions": 1}, 913 + 2 * 32),
        # Ant: 32 more units between the message and the action.
        ({"rows": 32, "actions": 8}, 2504 - (32 * 32 + 32)),
    ],
)
def test_sensory_neurons_have_the_sizes_of_the_authors_files(
    sizes: dict[str, int], published: int
) -> None:
    neurons = SensoryNeurons(hidden=8, dim=32, **sizes)
    assert sum(p.numel() for p in neurons.parameters()) == published
