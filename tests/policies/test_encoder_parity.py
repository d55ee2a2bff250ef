"""Encoders as they are trained: their graphs do what torch does, selections and votes included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pixelgait.policies.high_level import HighLevelNetwork
from tests.policies.parity import require_parity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "mirror"),
    [
        ("iap:weighted=true", True),
        ("iap-hybrid:weighted=true,patch=3,stride=2", False),
        ("iap:patch=4,stride=4,selected=16,values=8,sparse=true", True),
        ("iap:patch=4,stride=2,selected=28,straight=true", True),
        ("iap:channels=4,selected=16,values=8,sparse=true,stem=32", True),
        ("ge-vit", True),
        ("ge-vit:group=C4", False),
        ("ge-vit:group=C8,layers=1", False),
        ("gsa-net", True),
        ("latformer:hard=true", True),
        ("attention-neuron:selected=10", True),
        ("attention-agent", False),
        pytest.param("sit-star:antisymmetric=true", False, marks=pytest.mark.long),
    ],
)
def test_the_exported_graph_equals_torch(encoder: str, mirror: bool) -> None:
    torch.manual_seed(0)
    high_level = HighLevelNetwork(encoder, mirror=mirror)
    if encoder == "attention-agent":  # sums of 529 terms: first weights rate all patches alike
        with torch.no_grad():
            high_level.encoder.query.weight *= 10.0
    if "weighted" in encoder:
        torch.nn.init.normal_(high_level.encoder.weights)
    rng = np.random.default_rng(0)
    height, width, channels = high_level.image_shape
    blocks = rng.integers(0, 256, (3, height // 4, width // 4, channels))
    images = np.kron(blocks, np.ones((1, 4, 4, 1))).astype(np.uint8)
    images[1:, height // 2 :] = 90  # a floor: patches that are alike
    require_parity(high_level, list(images))
