"""The high level: an image encoder and the head that turns features into a decision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.cnn import CNNEncoder
from pixelgait.policies.iap import IAPEncoder
from pixelgait.policies.sit import SiT
from pixelgait.policies.vit import ViT
from pixelgait.robot.controller import Decision

ENCODERS: dict[str, Callable[..., IAPEncoder | CNNEncoder | SiT | ViT]] = {
    "iap": IAPEncoder,
    "cnn": CNNEncoder,
    "sit": SiT,
    "sit-star": partial(SiT, variant="sit-star"),
    "set": partial(SiT, variant="set"),
    "siet": partial(SiT, variant="siet"),
    "vit": ViT,
}
SHORTEST_STEPS, LONGEST_STEPS = 10, 800  # duration of a decision (IAP paper, section 5.3)


class HighLevel(nn.Module):
    """Encoder, then 10 tanh units, then 3 outputs clipped to [-1, 1].

    The first output sets the duration, the other two are the latent command.
    """

    def __init__(self, encoder: str, **options: Any) -> None:
        super().__init__()
        if encoder not in ENCODERS:
            raise ValueError(f"unknown encoder '{encoder}', choose from {', '.join(ENCODERS)}")
        self.encoder = ENCODERS[encoder](**options)
        self.hidden = nn.Linear(self.encoder.features, 10)
        self.output = nn.Linear(10, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Latent (B, 2), duration (B, 1) [control steps], attention (B, H', W')."""
        features, attention = self.encoder(image)
        out = self.output(torch.tanh(self.hidden(features))).clamp(-1.0, 1.0)
        span = LONGEST_STEPS - SHORTEST_STEPS
        duration = torch.round(SHORTEST_STEPS + (out[:, :1] + 1.0) / 2.0 * span)
        return out[:, 1:], duration, attention

    @torch.no_grad()
    def decide(self, image: NDArray[np.uint8]) -> Decision:
        """The controller's high level: one image (H, W, C) to one decision."""
        latent, duration, attention = self(torch.from_numpy(image)[None])
        return Decision(latent[0].double().numpy(), int(duration), attention[0].numpy())
