"""Strided convolutional encoder: more channels at fewer places than the CNN, three times as fast.

The channels are an assumption.
"""

from __future__ import annotations

from torch import Tensor

from pixelgait.policies.encoders.checks import require_image
from pixelgait.policies.encoders.convolutions import StridedConvolutions
from pixelgait.policies.encoders.encoder import Encoder

CHANNELS = (16, 32, 32, 32)
WIDTHS = (0.25, 64.0)  # 1500 weights and 94 million


class StridedEncoder(Encoder):
    """Four 3 x 3 convolutions with stride 2 (16, 32, 32, 32 channels times `wide`, ReLU).

    `standardise` and `normalise` are those of `StridedConvolutions`.

    Raises:
        ValueError: if a side is no multiple of 16, channels are not 1, 3 or 4, `wide` is no
            multiple of 0.25 up to 64, or there are no colours to standardise.
    """

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        wide: float = 1.0,
        standardise: bool = False,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        require_image(height, width, channels)
        if not WIDTHS[0] <= wide <= WIDTHS[1] or wide % WIDTHS[0]:
            raise ValueError(f"wide is {wide:g}, expected 0.25, 0.5 and so on to {WIDTHS[1]:g}")
        self.image_shape = (height, width, channels)
        widths = [round(wide * each) for each in CHANNELS]
        self.layers = StridedConvolutions(self.image_shape, widths, standardise, normalise)
        rows, columns, outputs = self.layers.shape
        self.features = rows * columns * outputs

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and the mean activation (B, H', W')."""
        x: Tensor = self.layers(image)
        return x.flatten(1), x.mean(1)
