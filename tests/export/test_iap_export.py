"""Selecting encoders as ONNX graphs: the same patches as in torch, and no attention matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph
from pixelgait.export.parity import run_onnx
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.bundle import TOLERANCE

# Sizes that no vector register divides.
CASES: list[tuple[str, dict[str, Any]]] = [
    ("iap", {}),
    ("iap-favor", {}),
    ("iap-trig", {}),
    ("iap-hybrid", {}),
    ("brute-force", {}),
    ("iap", {"patch": 3, "stride": 2, "channels": 4, "values": 2}),
    ("iap-hybrid", {"patch": 3, "stride": 2, "channels": 1, "same_length": True}),
    ("iap", {"patch": 3, "stride": 2, "selected": 20, "straight": True}),
]


def camera_images(shape: tuple[int, int, int], count: int = 10) -> list[np.ndarray]:
    """Noise, one flat colour, flat sky, ground and walls, and a slope of brightness."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, shape), np.broadcast_to(rng.integers(0, 256, shape[2]), shape)]
    for _ in range(count):
        image = np.empty(shape, int)
        horizon, left, right = 5 + rng.integers(20), *np.sort(rng.integers(0, shape[1], 2))
        image[:horizon], image[horizon:] = rng.integers(0, 256, (2, shape[2]))
        image[horizon - 4 : horizon + 6, left:right] = rng.integers(0, 256, shape[2])
        images.append(image)
    images.append(np.broadcast_to(8 * np.arange(shape[1])[:, None] % 256, shape))
    return [np.ascontiguousarray(image, np.uint8) for image in images]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES)
def test_onnx_selects_what_torch_selects(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    high_level = HighLevelNetwork(name, height=31, width=33, **options)
    torch.nn.init.normal_(high_level.encoder.query.weight)
    torch.nn.init.normal_(high_level.encoder.key.weight)
    shape = (31, 33, options.get("channels", 3))
    graph = high_level_graph(high_level)
    images = camera_images(shape)
    outputs = run_onnx(graph, [{"image": image} for image in images])
    module = HighLevelGraph(high_level)
    for image, output in zip(images, outputs, strict=True):
        with torch.no_grad():
            latent, duration, attention = (x.numpy() for x in module(torch.from_numpy(image)))
        np.testing.assert_array_equal(output["attention"], attention)
        np.testing.assert_allclose(output["latent"], latent, atol=TOLERANCE)
        assert output["duration_steps"] == duration
    shapes = [
        [d.dim_value for d in value.type.tensor_type.shape.dim] for value in graph.graph.value_info
    ]
    pairs = any(shape.count(attention.size) > 1 for shape in shapes)
    assert pairs == (name == "brute-force")  # nothing but that forms an L x L matrix


def test_the_graph_holds_no_operators_of_training_a_selection() -> None:
    nodes = []
    for encoder in (
        "iap:patch=4,stride=4,selected=5",
        "iap:patch=4,stride=4,selected=5,straight=true",
    ):
        graph = high_level_graph(HighLevelNetwork(encoder))
        nodes.append({node.op_type for node in graph.graph.node} - {"Gather"})  # an order
    assert nodes[0] == nodes[1]
