"""AttentionNeuron and AttentionAgent: any order and number of patches; sizes as published."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pixelgait.policies.encoder_registry import make_encoder
from pixelgait.policies.encoders.attention_neuron import AttentionNeuron, sinusoids
from pixelgait.policies.encoders.tiles import tiles
from pixelgait.policies.high_level import HighLevelNetwork
from tests.policies.networks import change, random_weights

INVARIANT = 5e-6  # relative, float32: sums in another order


def random_image(side: int = 32, channels: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (1, side, side, channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("count", [256, 121, 36, 4, 1])
@torch.no_grad()
def test_the_code_depends_neither_on_the_order_nor_on_the_number_of_patches(count: int) -> None:
    neurons = random_weights(AttentionNeuron())
    patches = torch.rand(1, count, 8 * 8 * 3)
    order = torch.randperm(count)
    (code, weights), (shuffled, after) = neurons.code(patches), neurons.code(patches[:, order])
    assert code.shape == (1, 64, 8)
    assert change(shuffled, code) < INVARIANT
    assert change(after, weights[:, :, order]) < INVARIANT
    twice, _ = neurons.code(patches.repeat(1, 2, 1))  # softmax: no more than once
    assert change(twice, code) < INVARIANT
    assert change(neurons.code(torch.rand(1, count, 8 * 8 * 3))[0], code) > 0.1


@torch.no_grad()
def test_with_positions_in_the_keys_the_order_matters() -> None:
    """The control: what the test above would see."""
    neurons = random_weights(AttentionNeuron())
    key, positions = neurons.key, torch.randn(36, 16)
    neurons.key = nn.Module()
    neurons.key.forward = lambda x: key(x) + positions  # type: ignore[method-assign]
    patches = torch.rand(1, 36, 8 * 8 * 3)
    shuffled, code = (neurons.code(x)[0] for x in (patches[:, torch.randperm(36)], patches))
    assert change(shuffled, code) > 1e-2


@pytest.mark.parametrize("selected", [0, 10])
@torch.no_grad()
def test_shuffled_images_have_the_same_features(selected: int) -> None:
    encoder, image = random_weights(AttentionNeuron(selected=selected)), random_image()
    grid = image.reshape(4, 8, 4, 8, 3).transpose(1, 2).flatten(0, 1)[torch.randperm(16)]
    shuffled = grid.unflatten(0, (4, 4)).transpose(1, 2).reshape(1, 32, 32, 3)
    (features, seen), (after, seen_after) = encoder(image), encoder(shuffled)
    assert features.shape == (1, encoder.features)
    assert change(after, features) < INVARIANT
    torch.testing.assert_close(seen_after.flatten().sort()[0], seen.flatten().sort()[0])
    assert change(encoder(random_image(seed=1))[0], features) > 0.1


@torch.no_grad()
def test_attention_is_that_of_equation_2() -> None:
    neurons, x = random_weights(AttentionNeuron(rows=3)), torch.rand(5, 192)
    scores = neurons.query(sinusoids(3)) @ neurons.key(x).T / 4.0
    centred = x - x.mean(1, keepdim=True)
    values = neurons.value(centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt())
    expected = neurons.norm((scores.softmax(1) @ values).relu())
    torch.testing.assert_close(neurons.code(x[None])[0][0], expected)


def test_positions_are_sines_and_cosines() -> None:
    angles = 3 * torch.tensor([1.0, 0.1, 0.01, 0.001])
    row = sinusoids(5)[3]
    torch.testing.assert_close(row[0::2], angles.sin())
    torch.testing.assert_close(row[1::2], angles.cos())


@pytest.mark.parametrize("selected", [0, 10])
@torch.no_grad()
def test_black_images_have_finite_features(selected: int) -> None:
    encoder = random_weights(AttentionNeuron(selected=selected))
    features, seen = encoder(torch.zeros(1, 32, 32, 3, dtype=torch.uint8))
    assert features.isfinite().all()
    torch.testing.assert_close(seen, torch.ones(1, 4, 4))


@torch.no_grad()
def test_selected_codes_are_those_with_the_most_votes() -> None:
    encoder, image = random_weights(AttentionNeuron(rows=9, selected=2)), random_image()
    code, _ = encoder.code(tiles(image / 255.0, 8))
    q, k = encoder.votes(code[0]).chunk(2, -1)
    votes = (q @ k.T / 2.0).softmax(1).sum(0)
    places = encoder(image)[0].reshape(2, 2)
    for place, index in zip(places, votes.argsort(descending=True)[:2], strict=True):
        expected = torch.tensor([index // 3, index % 3]) * 2 / 3 - 2 / 3
        torch.testing.assert_close(place, expected)


def test_every_weight_learns() -> None:
    encoder = AttentionNeuron()
    encoder(random_image())[0].square().sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.any()), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 12}, "not a multiple of patch 12"),
        ({"channels": 2}, "2 channels"),
        ({"rows": 0}, "rows is 0, expected at least 1"),
        ({"selected": 65}, "selected is 65, expected 0 to the 64 rows"),
        ({"selected": 3, "rows": 8}, "rows is 8, expected a square number to select from"),
    ],
)
def test_attention_neuron_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionNeuron(**options)


# AttentionAgent


def test_attention_agent_has_its_published_sizes() -> None:
    encoder = make_encoder("attention-agent")
    assert encoder.image_shape == (96, 96, 3)
    assert encoder.rows * encoder.columns == 529
    assert sum(p.numel() for p in encoder.parameters()) == 2 * (147 * 4 + 4)
    places, attention = encoder(random_image(96))
    assert places.shape == (1, 2 * 10)
    assert int(attention.sum()) == 10
    high_level = HighLevelNetwork("attention-agent", memory="lstm:16")
    controller = sum(p.numel() for p in high_level.memory.parameters())
    assert 2 * (147 * 4 + 4) + controller == 3667 - (3 * 16 + 3)  # the authors' file and head
    hidden = 10 * 16 + 10  # ours has 10 tanh units before its three outputs, as all high levels
    assert sum(p.numel() for p in high_level.parameters()) == 3667 - (3 * 16) + hidden + 3 * 10
