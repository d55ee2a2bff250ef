"""Networks with random weights: what holds exactly, and that their graphs do what torch does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph
from pixelgait.export.parity import check, compare
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.bundle import HIGH_LEVEL


@torch.no_grad()
def random_weights(module: nn.Module) -> Any:
    """The module, none of whose weights is zero."""
    generator = torch.Generator().manual_seed(0)
    for weight in module.parameters():
        weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return module.eval()


def change(values: Tensor, reference: Tensor) -> float:
    """Relative difference of one feature vector or map to another."""
    return float((values - reference).detach().norm() / reference.detach().norm())


def require_parity(
    high_level: HighLevelNetwork, images: Sequence[NDArray[np.uint8]]
) -> onnx.ModelProto:
    """The graph, equal on these images (H, W, C), of which the first two are told apart; changes
    the output's size: clipped outputs would always agree."""
    with torch.no_grad():
        high_level.output.weight *= 0.1
        high_level.output.bias *= 0.1
    samples = [{"image": image} for image in images]
    graph = high_level_graph(high_level)
    check(compare(HIGH_LEVEL, graph, HighLevelGraph(high_level), samples))
    latents = [high_level.decide(image).latent for image in images]
    assert np.abs(latents[0] - latents[1]).max() > 1e-3
    return graph
