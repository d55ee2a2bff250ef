"""Encoders as they are trained: their graphs do what torch does, selections and votes included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pixelgait.policies.high_level import HighLevelNetwork
from tests.policies.networks import random_weights, require_parity


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
        ("ge-vit:group=D4,layers=1,channels=1,height=16,width=16", False),
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


@pytest.mark.parametrize(
    "encoder",
    [
        *("sit", "vit", "latformer:height=16,width=16"),
        *("attention-neuron", "attention-neuron:selected=10,channels=4"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("sit-star", "set", "siet")),
    ],
)
def test_the_graph_of_random_weights_equals_torch(encoder: str) -> None:
    """Graphs of sit are little larger than weights: indices of all heads took five times that."""
    high_level = random_weights(HighLevelNetwork(encoder))
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, high_level.image_shape, dtype=np.uint8) for _ in range(3)]
    graph = require_parity(high_level, images)
    weights = sum(each.numel() for each in high_level.parameters())
    assert encoder != "sit" or graph.ByteSize() < 3 * 4 * weights
