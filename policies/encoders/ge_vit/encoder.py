"""GE-ViT, the group equivariant vision transformer (arXiv 2306.06722)."""

from __future__ import annotations

from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import (
    require_heads,
    require_positive,
    require_tiling,
)
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.ge_vit.group_attention import Attention, GroupAttention
from pixelgait.policies.encoders.ge_vit.groups import Encoding, Group
from pixelgait.policies.encoders.maps import even_and_odd, odd_size

MAP_CHANNELS = 4  # of the equivariant features, per patch


class Block(nn.Module):
    """Group attention, then a perceptron of half the width, each with a skip connection around it.

    The order of norms and activations is that of the authors' code.
    """

    def __init__(self, options: Attention) -> None:
        super().__init__()
        dim = options.dim
        self.before = nn.Sequential(nn.LayerNorm(dim), nn.SiLU())
        self.attention = GroupAttention(options)
        self.after = nn.Sequential(nn.LayerNorm(dim), nn.SiLU())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, dim // 2), nn.SiLU(), nn.Linear(dim // 2, dim)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (B, h, P, d) to maps of the same shape, and attention (B, P)."""
        out, attention = self.attention(self.before(x))
        x = x + self.after(out)
        return x + self.perceptron(x), attention


class GEViT(Encoder):
    """Lifting attention to a group, group attention, and two read-outs.

    The first `dim` features are invariant to the group: the maximum over its elements, averaged
    over the image (section 5.3). The others are a map over the patches, which transforms with the
    image. Groups other than `flip` need a square image. The symmetry of C8 is exact for rotations
    by 90 degrees, and approximate on a pixel grid for the others.

    `flip` is the symmetry of a forward camera. Its map is split into even and odd parts: a
    left-right mirror image negates the last `odd` features and keeps all others.

    A patch is the average of its pixels; otherwise its pixels would have to be lifted too.

    Args:
        height, width, channels: of the images; 3 for RGB, 1 for depth, 4 for RGB-D.
        patch: side of a patch [pixels].
        dim, heads: features per patch and element, and heads which share them.
        window: side of the square of patches that attend to each other.
        layers: of group attention, after the lifting layer.
        group: "flip", "C4", "C8" or "D4".
        encoding: "ge-vit", or "gsa-net" for that of its predecessor (arXiv 2010.00977), which is
            not equivariant.

    Raises:
        ValueError: if sizes do not fit, or an option does not exist.
    """

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 4,
        dim: int = 32,
        heads: int = 4,
        window: int = 5,
        layers: int = 2,
        group: Group = "flip",
        encoding: Encoding = "ge-vit",
    ) -> None:
        super().__init__()
        require_tiling(height, width, channels, patch)
        require_heads(dim, heads)
        require_positive(layers=layers)
        _check(height, width, window, group, encoding)
        self.patch, self.rows, self.columns = patch, height // patch, width // patch
        options = Attention(dim, heads, self.rows, self.columns, window, group, encoding)
        self.embed = nn.Linear(channels, dim)
        self.lifting = GroupAttention(options, lifting=True)
        self.lifted = nn.Sequential(nn.LayerNorm(dim), nn.SiLU())
        self.blocks = nn.ModuleList(Block(options) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.map_head = nn.Sequential(nn.Linear(dim, 16), nn.SiLU(), nn.Linear(16, MAP_CHANNELS))
        self.features = dim + self.rows * self.columns * MAP_CHANNELS
        self.image_shape = (height, width, channels)
        self.split = group == "flip"
        equivariant = self.split and encoding == "ge-vit"
        self.odd = odd_size(self.rows, self.columns, MAP_CHANNELS) if equivariant else 0
        self.flip_blind = self.split and self.columns == 1  # a map that is its own mirror image

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and attention (B, H / patch, W / patch).

        Attention is what patches receive in the last layer, scaled to a maximum of 1.
        """
        lifted, attention = self.maps(image)
        invariant = lifted.amax(1).mean(1)
        grid = self.map_head(lifted).mean(1).unflatten(1, (self.rows, self.columns))
        equivariant = even_and_odd(grid) if self.split else grid.flatten(1)
        seen = attention.unflatten(1, (self.rows, self.columns))
        return torch.cat([invariant, equivariant], 1), seen / seen.amax((1, 2), keepdim=True)

    def maps(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """The last layer's maps (B, h, P, d) of uint8 images (B, H, W, C), and attention (B, P)."""
        colours = F.avg_pool2d(image.permute(0, 3, 1, 2).float() / 255.0, self.patch)
        x, attention = self.lifting(self.embed(colours.flatten(2).transpose(1, 2)).unsqueeze(1))
        x = self.lifted(x)
        for block in self.blocks:
            x, attention = block(x)
        return self.norm(x), attention


def _check(height: int, width: int, window: int, group: str, encoding: str) -> None:
    for name, value, known in (("group", group, Group), ("encoding", encoding, Encoding)):
        if value not in get_args(known):
            raise ValueError(f"unknown {name} '{value}', choose from {', '.join(get_args(known))}")
    if window < 3 or window % 2 == 0:
        raise ValueError(f"window is {window}, expected an odd number of at least 3")
    if group != "flip" and height != width:
        raise ValueError(f"group '{group}' needs a square image, not {height} x {width}")
