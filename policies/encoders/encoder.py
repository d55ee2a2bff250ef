"""Image encoder: the base class."""

from __future__ import annotations

from torch import nn


class Encoder(nn.Module):
    """Turns images (B, H, W, C) uint8 into features (B, F) and an attention map (B, H', W').

    Attributes:
        features: F, the number of features.
        image_shape: H, W and C of the images.
        odd: number of features, the last ones, that a left-right mirror image negates while it
            keeps all others; 0: unknown, so the mirror image has to be encoded as well.
        flip_blind: whether an image and its mirror image have equal features: it cannot steer.
        drawn: whether the selection has no gradient, even if its values have one, and so stays as
            drawn at random.
    """

    features: int
    image_shape: tuple[int, int, int]
    odd: int = 0
    flip_blind: bool = False
    drawn: bool = False
