"""What every image encoder is."""

from __future__ import annotations

from torch import nn


class Encoder(nn.Module):
    """Turns images (B, H, W, C) uint8 into features (B, F) and an attention map (B, H', W').

    Attributes:
        features: F, how many features there are.
        image_shape: H, W and C of the images it takes.
        odd: how many features, the last ones, a mirror image (left-right) negates, while it leaves
            all others as they are; 0: none is known to, so its mirror image has to be looked at.
        flip_blind: whether an image and its mirror image are the same to it: it cannot steer.
        drawn: whether what it selects has no gradient, even if its values have one: it stays as it
            was drawn.
    """

    features: int
    image_shape: tuple[int, int, int]
    odd: int = 0
    flip_blind: bool = False
    drawn: bool = False
