"""Behaviour cloning: a high level is fitted to decisions by gradient, as far down as there is one.

A selection of patches has no gradient: for IAP only the head is fitted, to features computed once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.sim.tasks.teacher import HOLD_STEPS

CHUNK = 512  # images encoded at once
# Rates of Adam, falling to 0 along half a cosine. At 0.01 one in three CNNs dies at once.
HEAD_RATE, NETWORK_RATE = 0.01, 0.003
HEAD_STEPS = 3  # a step of the head alone costs less than a tenth: it takes more
LOSS_WEIGHTS = (0.1, 0.3, 1.0)  # of errors in duration, speed and turn: it is the turns that matter
SHORT = 2.0 * (HOLD_STEPS - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS) - 1.0  # the output


def has_gradient(high_level: HighLevelNetwork) -> bool:
    """Whether gradients reach the encoder's weights."""
    image = torch.zeros(1, *high_level.image_shape, dtype=torch.uint8)
    return encode(high_level, image).requires_grad


def encode(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """Features (B, views, F) of images (B, H, W, C)."""
    return torch.stack(high_level.views(images)[0], 1)


@torch.no_grad()
def encode_all(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """Features (n, views, F) of many images (n, H, W, C)."""
    return torch.cat([encode(high_level, chunk) for chunk in images.split(CHUNK)])


def outputs(high_level: HighLevelNetwork, features: Tensor) -> Tensor:
    """Duration, speed and turn (B, 3) from features (B, views, F), before they are clipped."""
    return high_level.outputs([high_level.head(view) for view in features.unbind(1)])


def fit(
    high_level: HighLevelNetwork, seen: Tensor, latents: Tensor, steps: int, batch: int, seed: int
) -> None:
    """Fit to latents (n, 2) that belong to images (n, H, W, C) or features (n, views, F).

    Images train the whole network, features its head alone.
    """
    whole = seen.dtype == torch.uint8
    head = [*high_level.hidden.parameters(), *high_level.output.parameters()]
    parameters, rate = (high_level.parameters(), NETWORK_RATE) if whole else (head, HEAD_RATE)
    steps = steps if whole else HEAD_STEPS * steps
    optimiser = torch.optim.Adam(parameters, lr=rate)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    batches = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        drawn = torch.randint(len(seen), (batch,), generator=batches)
        features = encode(high_level, seen[drawn]) if whole else seen[drawn]
        loss = _loss(outputs(high_level, features), latents[drawn])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        cooling.step()


def _loss(out: Tensor, latents: Tensor) -> Tensor:
    """Weighted squared error of outputs (B, 3); durations shall be as short as the teacher's."""
    wanted = torch.cat([torch.full_like(latents[:, :1], SHORT), latents], 1)
    return (torch.tensor(LOSS_WEIGHTS) * (out - wanted) ** 2).sum(1).mean()
