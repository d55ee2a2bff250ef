"""ViT, the vision transformer: the baseline of SiT (ICML 2024, table 1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import (
    require_at_least,
    require_heads,
    require_positive,
    require_tiling,
)
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.tiles import tiles


class Block(nn.Module):
    """Attention, then a perceptron, each with layer norm before and a skip connection around it."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        hidden = mlp_ratio * dim
        self.perceptron = (
            nn.Sequential(
                nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim)
            )
            if hidden
            else None
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (B, n, d) to tokens (B, n, d) and attention (B, heads, n, n)."""
        qkv = self.query_key_value(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, n, d / heads)
        attention = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1)
        x = x + self.project((attention @ v).transpose(1, 2).flatten(2))
        if self.perceptron is not None:
            x = x + self.perceptron(x)
        return x, attention


class ViT(Encoder):
    """Patches with position embeddings and a class token, whose last state are the features.

    The image need not be square. `mlp_ratio` 0 leaves out the perceptrons (appendix F).

    Raises:
        ValueError: if sizes do not fit.
    """

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 8,
        dim: int = 64,
        heads: int = 8,
        layers: int = 4,
        mlp_ratio: int = 4,
    ) -> None:
        super().__init__()
        require_tiling(height, width, channels, patch)
        require_heads(dim, heads)
        require_positive(layers=layers)
        require_at_least(0, mlp_ratio=mlp_ratio)
        self.patch, self.rows, self.columns = patch, height // patch, width // patch
        self.embed = nn.Linear(patch * patch * channels, dim)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + self.rows * self.columns, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.features = dim
        self.image_shape = (height, width, channels)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and attention (B, H / patch, W / patch).

        Attention is that of the class token in the last layer; its largest value is 1.
        """
        x = F.linear(tiles(image.float(), self.patch), self.embed.weight / 255.0, self.embed.bias)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x, attention = block(x)
        seen = attention[:, :, 0, 1:].mean(1).unflatten(1, (self.rows, self.columns))
        return self.norm(x[:, 0]), seen / seen.amax((1, 2), keepdim=True)
