"""The convolutional baseline of the IAP paper (arXiv 2102.04353, section 5.3)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_image
from pixelgait.policies.encoders.encoder import Encoder

SMALLEST_IMAGE = 8  # three valid 3 x 3 convolutions and one pooling


class CNNEncoder(Encoder):
    """Three valid 3 x 3 convolutions (4, 8, 8 channels, ReLU), then 2 x 2 max pooling.

    Raises:
        ValueError: if the image is too small for the convolutions, or channels are not 1, 3 or 4.
    """

    def __init__(self, height: int = 32, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        require_image(height, width, channels)
        if min(height, width) < SMALLEST_IMAGE:
            raise ValueError(
                f"image {height} x {width} is too small, needs {SMALLEST_IMAGE} pixels"
            )
        self.image_shape = (height, width, channels)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(i, o, 3) for i, o in ((channels, 4), (4, 8), (8, 8))
        )
        self.features = 8 * ((height - 6) // 2) * ((width - 6) // 2)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and the mean activation (B, H', W')."""
        x = image.permute(0, 3, 1, 2).float() / 255.0
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        x = F.max_pool2d(x, 2)
        return x.flatten(1), x.mean(1)
