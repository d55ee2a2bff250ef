"""The networks: parameter totals of the paper, attention against its definition, selection."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pixelgait.policies.encoders.cnn import CNNEncoder
from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.encoders.iap.kernels import RELU_EPSILON
from pixelgait.policies.encoders.iap.patches import patches
from pixelgait.policies.high_level import (
    Architecture,
    HighLevelNetwork,
    flat_weights,
    make_high_level,
)
from pixelgait.policies.training.fitting import Lessons, fit, has_gradient
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS


@pytest.mark.parametrize(("encoder", "total"), [("iap", 1786), ("cnn", 14954)])
def test_totals_are_those_of_the_paper(encoder: str, total: int) -> None:
    high_level = sum(p.numel() for p in HighLevelNetwork(encoder).parameters())
    assert LOW_LEVEL_WEIGHTS == 399
    assert high_level + LOW_LEVEL_WEIGHTS == total


def random_images(size: int, count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (4, 2), (4, 4), (8, 8)])
def test_scores_equal_the_explicit_attention_matrix(patch: int, stride: int) -> None:
    encoder = IAPEncoder(16, 16, patch=patch, stride=stride, selected=2)
    images = random_images(16)
    x = patches(images.float() / 255.0, patch, stride).transpose(1, 2)
    assert x.shape == (3, encoder.rows * encoder.columns, patch * patch * 3)
    q = torch.relu(x @ encoder.query.weight.T + encoder.query.bias) + RELU_EPSILON
    k = torch.relu(x @ encoder.key.weight.T + encoder.key.bias) + RELU_EPSILON
    attention = q @ k.transpose(1, 2)  # (B, L, L), A_ij: query i, key j
    expected = attention.sum(1)  # r^T A with r = 1
    torch.testing.assert_close(encoder.scores(images), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (4, 2), (3, 3), (3, 5)])
def test_a_patch_holds_its_rows_columns_and_channels(patch: int, stride: int) -> None:
    images = random_images(17)
    starts = range(0, 17 - patch + 1, stride)
    expected = [
        images[:, row : row + patch, column : column + patch].flatten(1)
        for row in starts
        for column in starts
    ]
    assert torch.equal(patches(images, patch, stride), torch.stack(expected, 2))


def test_positions_are_the_best_patches_first() -> None:
    torch.manual_seed(1)
    encoder = IAPEncoder(selected=5)
    images = random_images(32, count=1)
    features, attention = encoder(images)
    scores = encoder.scores(images)[0].detach().numpy()
    best = np.argsort(-scores, kind="stable")[:5]
    rows, columns = best // 32, best % 32
    expected = np.stack([rows, columns], 1) / 15.5 - 1.0
    np.testing.assert_allclose(features.reshape(5, 2).detach(), expected, atol=1e-6)
    assert set(np.flatnonzero(attention.numpy())) == set(best)


def test_equal_patches_are_taken_in_reading_order() -> None:
    torch.manual_seed(2)
    encoder = IAPEncoder(selected=64)
    flat = torch.full((1, 32, 32, 3), 77, dtype=torch.uint8)
    _, attention = encoder(flat)
    np.testing.assert_array_equal(np.flatnonzero(attention.numpy()), np.arange(64))


def test_decisions_stay_in_their_ranges_and_depend_on_the_image() -> None:
    for encoder in ("iap", "cnn", "strided"):
        torch.manual_seed(3)
        high_level = HighLevelNetwork(encoder)
        torch.nn.init.normal_(high_level.output.weight, std=3.0)
        decisions = [high_level.decide(image.numpy()) for image in random_images(32, count=20)]
        for decision in decisions:
            assert 10 <= decision.duration_steps <= 800
            assert np.abs(decision.latent).max() <= 1.0
        assert len({tuple(d.latent) for d in decisions}) > 1


@pytest.mark.parametrize("encoder", ["ge-vit", "gsa-net", "latformer", "attention-neuron"])
@pytest.mark.parametrize("memory", ["", "gru:4"])
def test_encoders_with_a_gradient_are_fitted_with_their_head(encoder: str, memory: str) -> None:
    high_level = make_high_level(Architecture(encoder, mirror=True, memory=memory), seed=0)
    before = flat_weights(high_level)
    images, starts = random_images(32, count=4), torch.tensor([True, False, False, False])
    lessons = Lessons(images, torch.zeros(4, 2), torch.tensor([[1.0, 0.5]]).expand(4, 2), starts)
    assert has_gradient(high_level)
    assert np.isfinite(fit(high_level, lessons, steps=1, batch=4, seed=0))
    moved = flat_weights(high_level) != before
    count = sum(p.numel() for p in high_level.encoder.parameters())
    assert moved[:count].mean() > 0.5
    assert moved[count:].mean() > 0.5


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IAPEncoder(8, 8, patch=9), "larger than the image"),
        (lambda: IAPEncoder(8, 8, selected=65), "exceeds the 64 patches"),
        (lambda: CNNEncoder(4, 4), "too small"),
        (lambda: HighLevelNetwork("retina"), "unknown encoder 'retina'"),
    ],
)
def test_impossible_configurations_are_refused(build, message: str) -> None:  # noqa: ANN001
    with pytest.raises(ValueError, match=message):
        build()
