"""SiT, the Symmetry-Invariant Transformer (ICML 2024, section 4 and appendix F)."""

from __future__ import annotations

from typing import Literal, get_args

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
from pixelgait.policies.encoders.maps import even_and_odd, odd_size
from pixelgait.policies.encoders.sit.graph_attention import Attention, GlobalGSA, LocalGSA
from pixelgait.policies.encoders.sit.graph_symmetry import (
    GROUPS,
    Graph,
    GraphMatrix,
    lifted,
    shared_weights,
    window_labels,
)

Variant = Literal["sit", "sit-star", "set", "siet"]
TRIANGLES: dict[Variant, int] = {"sit": 1, "sit-star": 2, "set": 0, "siet": 0}
STEM_REACH = 2  # 5 x 5 pixels
POOLING = 2
MAP_CHANNELS = 4  # of the equivariant features, per patch


class Stem(nn.Module):
    """Pixel embedding, graph matrix, mixing, ReLU, 2 x 2 max pooling (appendix F.4).

    Everything before the ReLU is linear and runs as one convolution; pixels outside are black.
    Pooling comes before the ReLU: equal maxima, with a quarter of the values to rectify.
    """

    def __init__(self, channels: int, options: Attention) -> None:
        super().__init__()
        self.embed = nn.Linear(channels, options.dim)
        self.graph = GraphMatrix(options.dim, STEM_REACH, options.graph, options.dropout)
        self.mix = nn.Linear(options.dim, options.dim, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        """Images (B, H, W, C) of values 0 to 255 to maps (B, d, H / 2, W / 2)."""
        graph = self.graph.kernel()  # (d, 1, 5, 5)
        kernel = self.embed.weight[:, :, None, None] * graph  # (d, C, 5, 5)
        kernel = (self.mix.weight @ kernel.flatten(1)).reshape(kernel.shape) / 255.0
        bias = self.mix.weight @ (self.embed.bias * graph.sum((1, 2, 3)))
        x = F.conv2d(image.permute(0, 3, 1, 2).to(kernel.dtype), kernel, bias, padding=STEM_REACH)
        return F.relu(F.max_pool2d(x, POOLING))


class Readout(nn.Module):
    """Windows to patches: sums of GELU(x) over each window (appendix F.4), invariant or lifted.

    Invariant weights are shared along the graph of the window: a patch moves with the image but
    does not change. Lifted weights are free and applied once per symmetry: the copies are permuted
    as well. Both keep the symmetry exact; flattening the window would not.
    """

    labels: Tensor

    def __init__(self, options: Attention, side: int, invariant: bool, equivariant: bool) -> None:
        super().__init__()
        dim, self.side, self.graph = options.dim, side, options.graph
        self.copies = len(GROUPS[options.graph]) if equivariant else 1
        self.register_buffer("labels", window_labels(side, options.graph), persistent=False)
        self.shared = shared_weights(dim, self.labels) if invariant else None
        free = torch.empty(dim, side, side).uniform_(-1.0, 1.0) / side
        self.free = nn.Parameter(free) if equivariant else None
        both = invariant and equivariant
        self.narrow = nn.ModuleList(nn.Linear(dim, dim // 2) for _ in range(2 * both))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, d, H, W) to patches (B * copies, P, d)."""
        x = F.gelu(x)
        parts = []
        if self.shared is not None:
            patches = self._sum(x, self.shared[:, self.labels])
            parts.append(patches.expand(-1, self.copies, -1, -1))
        if self.free is not None:
            copies = [self._sum(x, weights) for weights in lifted(self.free, self.graph)]
            parts.append(torch.cat(copies, 1))
        if self.narrow:
            parts = [layer(part) for layer, part in zip(self.narrow, parts, strict=True)]
        return torch.cat(parts, -1).flatten(0, 1)

    def _sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums (B, 1, P, d) over windows, with weights (d, s, s)."""
        sums = F.conv2d(x, weights.unsqueeze(1), stride=self.side, groups=x.shape[1])
        return sums.flatten(2).transpose(1, 2).unsqueeze(1)


class SiT(Encoder):
    """Local, then global layers of graph symmetric attention, in four variants.

    `sit` and `sit-star` return the class token, which is invariant to the graph's symmetries; with
    the rotation graph their triangles (once or twice) distinguish flips. `set` returns a map over
    the patches that transforms with the image, `siet` the token and the map.

    With the graphs `flip` and `flips`, which need no square image, the map is split into even and
    odd parts: a left-right mirror image negates the last `odd` features and keeps all others.

    Args:
        height, width, channels: of the images; 3 for RGB, 1 for depth, 4 for RGB-D.
        patch: side of a patch [pixels], which is a window of local attention.
        dim, heads: features per pixel and patch, and heads which share them.
        variant, graph: see above.
        matrices: which graph matrices are learned, letters of "qkvg": G_q, G_k, G_v, and G itself.
        dropout: of entries of graph matrices, equal for all that share a weight.
        local_layers, global_layers: 2 and 2 in tables 1 and 2; 0 to 4, and 1 to 8 in others.
        antisymmetric: a second softmax, of anti-symmetric scores (eq. 6).

    Raises:
        ValueError: if sizes do not fit, or an option does not exist.
    """

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 8,
        dim: int = 64,
        heads: int = 8,
        variant: Variant = "sit",
        graph: Graph = "rotation",
        matrices: str = "qk",
        dropout: float = 0.0,
        local_layers: int = 2,
        global_layers: int = 2,
        antisymmetric: bool = False,
    ) -> None:
        super().__init__()
        _check_names(variant, graph, matrices)
        _check_sizes(height, width, channels, patch, graph)
        require_heads(dim, heads)
        if variant == "siet" and dim % 2:
            raise ValueError(f"dim is {dim}, expected an even number for siet")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout is {dropout}, expected at least 0 and below 1")
        require_at_least(0, local_layers=local_layers)
        require_positive(global_layers=global_layers)
        triangles = TRIANGLES[variant] if graph == "rotation" else 0
        options = Attention(dim, heads, graph, matrices, triangles, dropout, antisymmetric)
        side, self.rows, self.columns = patch // POOLING, height // patch, width // patch
        self.token_read, self.map_read = variant != "set", variant in ("set", "siet")
        self.stem = Stem(channels, options)
        self.local_layers = nn.ModuleList(
            LocalGSA(options, side, self.rows, self.columns) for _ in range(local_layers)
        )
        self.readout = Readout(options, side, variant != "set", self.map_read)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, dim))
        self.global_layers = nn.ModuleList(
            GlobalGSA(options, self.rows, self.columns) for _ in range(global_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.map_head = (
            nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, MAP_CHANNELS))
            if self.map_read
            else None
        )
        size = self.rows * self.columns * MAP_CHANNELS * self.map_read
        self.features = dim * self.token_read + size
        self.image_shape = (height, width, channels)
        flips = graph != "rotation"
        self.split, self.flip_blind = flips and self.map_read, flips and not self.map_read
        # The class token is in no triangle. Where it alone is read, and by the only layer, nothing
        # distinguishes left from right.
        self.flip_blind |= not (flips or self.map_read or local_layers) and global_layers == 1
        self.odd = odd_size(self.rows, self.columns, MAP_CHANNELS) if self.split else 0
        self.flip_blind |= self.split and self.columns == 1  # a map that is its own mirror image
        # A single patch has no triangles either; the map's read-out turns with it.
        self.flip_blind |= not (local_layers or self.map_read) and self.rows * self.columns == 1

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and attention (B, H / patch, W / patch).

        Attention is that of the class token, for `set` the mean over all patches; its largest
        value is 1.
        """
        x = self.stem(image)
        for layer in self.local_layers:
            x = layer(x)
        x = self.readout(x)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        for layer in self.global_layers[:-1]:
            x, _ = layer(x)
        x, attention = self.global_layers[-1](x, token_only=self.map_head is None)
        rows = attention[:, :, :1] if self.token_read else attention[:, :, 1:]
        # Symmetries permute the copies, which does not change their mean.
        x = self._over_copies(self.norm(x))
        seen = self._over_copies(rows[..., 1:].mean((1, 2))).unflatten(1, (self.rows, self.columns))
        parts = [x[:, 0]] if self.token_read else []
        if self.map_head is not None:
            grid = x[:, 1:].unflatten(1, (self.rows, self.columns))
            grid = self.map_head(grid)
            parts.append(even_and_odd(grid) if self.split else grid.flatten(1))
        return torch.cat(parts, 1), seen / seen.amax((1, 2), keepdim=True)

    def _over_copies(self, x: Tensor) -> Tensor:
        """Mean (B, ...) over the copies of (B * copies, ...)."""
        copies: Tensor = x.unflatten(0, (-1, self.readout.copies))
        return copies.mean(1)


def _check_names(variant: str, graph: str, matrices: str) -> None:
    for name, value, known in (("variant", variant, Variant), ("graph", graph, Graph)):
        if value not in get_args(known):
            raise ValueError(f"unknown {name} '{value}', choose from {', '.join(get_args(known))}")
    if set(matrices) - set("qkvg"):
        raise ValueError(f"graph matrices '{matrices}': choose from the letters q, k, v and g")
    if variant == "sit-star" and graph != "rotation":
        raise ValueError(f"sit-star needs graph 'rotation', its triangles break graph '{graph}'")


def _check_sizes(height: int, width: int, channels: int, patch: int, graph: str) -> None:
    require_tiling(height, width, channels, patch)
    if patch < 2 * POOLING or patch % POOLING:
        raise ValueError(f"patch {patch} must be even and at least {2 * POOLING}")
    if graph == "rotation" and height != width:
        raise ValueError(f"graph 'rotation' needs a square image, not {height} x {width}")
