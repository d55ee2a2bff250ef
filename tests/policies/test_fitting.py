"""Fitting of a head alone: gradients against autograd."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pixelgait.policies.high_level import HighLevelNetwork, flat_weights
from pixelgait.policies.training.fitting import Lessons, _gradients, _head_gradients, fit
from pixelgait.policies.training.plan import DAggerConfig

DECISIONS = 200


@pytest.mark.parametrize("goal", [False, True])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("huber", [0.0, 0.1])
def test_gradients_of_a_head_are_those_of_autograd(mirror: bool, goal: bool, huber: float) -> None:
    torch.manual_seed(0)
    high_level = HighLevelNetwork("iap", mirror, goal)
    seen = torch.rand(DECISIONS, 1 + mirror, high_level.encoder.features)
    goals, latents = 3.0 * torch.rand(DECISIONS, 2), 2.0 * torch.rand(DECISIONS, 2) - 1.0
    lessons = Lessons(seen, goals, latents, torch.arange(DECISIONS) % 20 == 0)
    config = replace(DAggerConfig(), batch=32, huber=huber)
    learned = torch.arange(DECISIONS)
    head = [*high_level.hidden.parameters(), *high_level.output.parameters()]
    wanted = _gradients(high_level, lessons, learned, config, 7, head, 1)
    found = _head_gradients(high_level, lessons, learned, config, 7)
    for _ in range(3):
        for one, other in zip(next(found), next(wanted), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_the_learning_rate_decays_from_round_to_round() -> None:
    """A first step of Adam is as long as its rate."""
    torch.manual_seed(0)
    config = DAggerConfig(steps=1, rate=0.004, decay=0.5, held_out=0.0)
    moved = []
    for number in (1, 3):
        high_level = HighLevelNetwork("strided:height=16,width=16,channels=1")
        images = torch.randint(0, 256, (40, 16, 16, 1), dtype=torch.uint8)
        lessons = Lessons(images, torch.zeros(40, 2), torch.ones(40, 2), torch.arange(40) == 0)
        before = flat_weights(high_level)
        fit(high_level, lessons, config.in_round(number), 1)
        moved.append(abs(flat_weights(high_level) - before).max())
    assert moved[0] == pytest.approx(4.0 * moved[1], rel=0.01)
