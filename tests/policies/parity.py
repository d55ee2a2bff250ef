"""That a network's graph does what torch does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph
from pixelgait.export.parity import check, compare
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.bundle import HIGH_LEVEL


def require_parity(high_level: HighLevelNetwork, images: Sequence[NDArray[np.uint8]]) -> None:
    """On these images (H, W, C), of which the first two are told apart; changes the output's size:
    clipped outputs would always agree."""
    with torch.no_grad():
        high_level.output.weight *= 0.1
        high_level.output.bias *= 0.1
    samples = [{"image": image} for image in images]
    check(compare(HIGH_LEVEL, high_level_graph(high_level), HighLevelGraph(high_level), samples))
    latents = [high_level.decide(image).latent for image in images]
    assert np.abs(latents[0] - latents[1]).max() > 1e-3
