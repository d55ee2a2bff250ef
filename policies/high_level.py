"""The high level: an image encoder and the head that turns features into a decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.encoder_registry import ENCODERS, make_encoder
from pixelgait.robot.controller import LONGEST_STEPS, SHORTEST_STEPS, Decision
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.spec import Array

MIRRORED = (1.0, 1.0, -1.0)  # duration, speed and yaw rate of a mirrored decision


class Decider(nn.Module):
    """From an image to latent (B, 2), duration (B, 1) [control steps], attention (B, H', W').

    `image_shape` (H, W, C) says what camera it needs: C is 1 for depth, 3 for RGB, 4 for RGB-D.
    """

    image_shape: tuple[int, int, int]

    @torch.no_grad()
    def decide(self, image: NDArray[np.uint8]) -> Decision:
        """The controller's high level: one image (H, W, C) to one decision."""
        latent, duration, attention = self(torch.from_numpy(image)[None])
        return Decision(latent[0].double().numpy(), int(duration), attention[0].numpy())


class StraightAhead(Decider):
    """No eyes: full speed, straight ahead. What a low level is shipped with on its own."""

    DURATION_STEPS = 100.0
    image_shape = (32, 32, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same latent (B, 2), duration (B, 1) and empty attention (B, H, W) for every image."""
        attention = torch.zeros_like(image[..., 0], dtype=torch.float32)
        latent = torch.tensor([[1.0, 0.0]]).expand(len(image), 2)
        return latent, torch.full((len(image), 1), self.DURATION_STEPS), attention


class HighLevelNetwork(Decider):
    """Encoder, then 10 tanh units, then 3 outputs clipped to [-1, 1].

    The first output sets the duration, the other two are the latent command. With `mirror` the
    network is averaged over the image and its mirror image, so that mirroring the image negates the
    steering and keeps speed and duration, bit for bit. The weights are the same in number. Where
    an encoder's features are even or odd already (`SiT` with a mirror graph), the mirror image need
    not be looked at: the symmetry is then as exact as theirs.

    Raises:
        ValueError: there is no such encoder, or its options make no sense; see `make_encoder`.
    """

    def __init__(self, encoder: str, mirror: bool = False, **options: Any) -> None:
        super().__init__()
        self.mirror = mirror
        self.encoder = make_encoder(encoder, **options)
        self.image_shape = self.encoder.image_shape
        self.hidden = nn.Linear(self.encoder.features, 10)
        self.output = nn.Linear(10, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Latent (B, 2), duration (B, 1) [control steps], attention (B, H', W')."""
        views, attention = self.views(image)
        out = self.outputs([self.head(view).clamp(-1.0, 1.0) for view in views])
        span = LONGEST_STEPS - SHORTEST_STEPS
        duration = torch.round(SHORTEST_STEPS + (out[:, :1] + 1.0) / 2.0 * span)
        return out[:, 1:], duration, attention

    def head(self, features: Tensor) -> Tensor:
        """Outputs (B, 3) from features (B, F), before they are clipped."""
        out: Tensor = self.output(torch.tanh(self.hidden(features)))
        return out

    def views(self, image: Tensor) -> tuple[list[Tensor], Tensor]:
        """Features (B, F) of the image, with `mirror` also of its mirror image; attention."""
        features, attention = self.encoder(image)
        if not self.mirror:
            return [features], attention
        if odd := getattr(self.encoder, "odd", 0):
            even = features.shape[1] - odd
            signs = torch.cat([torch.ones(even), -torch.ones(odd)])
            return [features, features * signs], attention
        # Two passes, not one batch: rounding may depend on the place in a batch.
        return [features, self.encoder(image.flip(2))[0]], attention

    def outputs(self, heads: list[Tensor]) -> Tensor:
        """Duration, speed and turn (B, 3) from what the head says to every view."""
        if not self.mirror:
            return heads[0]
        one, other = heads
        return (one + other * torch.tensor(MIRRORED)) / 2.0


def make_high_level(encoder: str, seed: int, mirror: bool = False) -> HighLevelNetwork:
    """A fresh high level that starts with short durations: with long ones it learns to be blind."""
    torch.manual_seed(seed)
    high_level = HighLevelNetwork(encoder, mirror)
    with torch.no_grad():
        high_level.output.bias[0] = -0.95  # 30 steps, on the scale of 10..800
    return high_level


def flat_weights(high_level: HighLevelNetwork) -> Array:
    """All weights of a high level as one vector."""
    vector = torch.nn.utils.parameters_to_vector(high_level.parameters())
    return vector.detach().double().numpy()


def set_weights(high_level: HighLevelNetwork, weights: Array) -> None:
    """Put a vector from `flat_weights` back."""
    vector = torch.tensor(weights, dtype=torch.float32)
    torch.nn.utils.vector_to_parameters(vector, high_level.parameters())


def encoder_table() -> str:
    """All encoders with the weights of a whole policy on 32 x 32 RGB images, low level included."""
    lines = [f"{'encoder':<14}{'encoder weights':>16}{'whole policy':>14}"]
    for name in ENCODERS:
        high_level = HighLevelNetwork(name)
        counts = [sum(p.numel() for p in m.parameters()) for m in (high_level.encoder, high_level)]
        lines.append(f"{name:<14}{counts[0]:>16}{counts[1] + LOW_LEVEL_WEIGHTS:>14}")
    return "\n".join(lines)
