"""Strided convolutions: image features on a grid that is coarser by a power of two.

Strides replace pooling (Springenberg et al. 2015, arXiv 1412.6806). The number of groups of group
normalisation (Wu and He 2018, arXiv 1803.08494) is an assumption.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.robot.control.observation import COLOURS

WHITE = 255.0
FLATTEST = 0.02 * WHITE  # standard deviation of an image that shows camera noise only
# Standard deviation of standardised colours beside depth: larger colours drown the depth of an
# obstacle. Assumption: the error of turns, learned from 41235 decisions with --appearance, is 0.066
# with 1, 0.055 with 0.1, 0.064 with 0.02, and 0.050 without colours.
BESIDE_DEPTH = 0.1
GROUPS = 4  # of channels, normalised separately; fewer if there are few channels
SMALLEST_GROUP = 4  # a single channel would lose its level, and depth its metres


class StridedConvolutions(nn.Module):
    """3 x 3 convolutions with stride 2, each with a ReLU.

    Args:
        image_shape: H, W, C.
        widths: channels of each convolution.
        standardise: give every colour channel of an image mean 0 and standard deviation 1, beside
            depth 0.1, so that the light's colour and the exposure do not count. Depth keeps its
            metres.
        normalise: group normalisation after every convolution, which learns faster.

    Raises:
        ValueError: if a side is no multiple of 2 ** len(widths), or there are no colours to
            standardise.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        widths: Sequence[int],
        standardise: bool,
        normalise: bool,
    ) -> None:
        super().__init__()
        height, width, channels = image_shape
        shrinks = 2 ** len(widths)  # factor between the sides of image and grid
        if height % shrinks or width % shrinks:
            raise ValueError(f"image {height} x {width}: sides must be multiples of {shrinks}")
        if standardise and channels < COLOURS:
            raise ValueError("standardise has no effect: depth images have no colours")
        self.standardise = standardise
        self.deviation = 1.0 if channels == COLOURS else BESIDE_DEPTH  # of standardised colours
        self.shape = (height // shrinks, width // shrinks, widths[-1])
        sizes = zip((channels, *widths), widths, strict=False)
        self.convolutions = nn.ModuleList(_convolution(i, o, normalise) for i, o in sizes)
        norms = (_norm(each) if normalise else nn.Identity() for each in widths)
        self.norms = nn.ModuleList(norms)

    def forward(self, image: Tensor) -> Tensor:
        """Maps (B, C', H', W'), see `shape`, of uint8 images (B, H, W, C)."""
        x = image.permute(0, 3, 1, 2).float()
        if self.standardise:
            colours, depth = x[:, :COLOURS], x[:, COLOURS:]
            x = torch.cat([self.deviation * _standard(colours), depth / WHITE], 1)
        else:
            x = x / WHITE
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(norm(convolution(x)))
        return x


def _convolution(inputs: int, outputs: int, normalised: bool) -> nn.Conv2d:
    """A convolution initialised as in He et al. 2015 (arXiv 1502.01852).

    With torch's initialisation the features of two images of a course differ by 0.003 on average
    and have to grow: with two of three seeds (1 and 2 at difficulty 1) that saturated a memory's
    units in the first round, for good. A normalised output has the right size anyway, and needs
    torch's biases to keep its level.
    """
    convolution = nn.Conv2d(inputs, outputs, 3, 2, padding=1)
    if not normalised:
        assert convolution.bias is not None
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        nn.init.zeros_(convolution.bias)
    return convolution


class _GroupNorm(nn.GroupNorm):
    """Group normalisation of inputs that are centred first.

    Libraries subtract the mean and divide by the standard deviation in one step. A mean much larger
    than the deviation then causes rounding errors, which differ between runtimes. Together with
    `_standard` this makes the difference of ONNX and torch five times smaller.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, C, H, W), each group of channels with mean 0 and deviation 1, then scaled."""
        groups = x.reshape(len(x), self.num_groups, -1)
        centred = groups - groups.mean(2, keepdim=True)
        return super().forward(centred.reshape(x.shape))


def _norm(channels: int) -> nn.GroupNorm:
    most = max(1, min(GROUPS, channels // SMALLEST_GROUP))
    groups = next(count for count in range(most, 0, -1) if channels % count == 0)
    return _GroupNorm(groups, channels)


def _standard(x: Tensor) -> Tensor:
    """Channels of bytes (B, C, H, W) with mean 0 and, unless they are flat, deviation 1.

    Sums of bytes are exact, in any order, up to 256 x 256 pixels.
    """
    centred = x - x.mean((2, 3), keepdim=True)
    return centred / (centred.square().mean((2, 3), keepdim=True) + FLATTEST**2).sqrt()
