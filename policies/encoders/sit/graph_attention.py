"""Graph Symmetric Attention (SiT, ICML 2024, section 3 and appendices A and F.4).

    GSA(K, V, Q) = softmax(Gamma / sqrt(d)) G_v V,
    Gamma = symmetric((G_q Q [G_k K]^T) o G)                                    (eq. 3)

and, if wanted, another softmax of the same with symmetric(M) = M + M^T replaced by M - M^T (eq. 6).
The graph matrices give attention the symmetries of the grid instead of position embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.sit.graph_symmetry import Graph, GraphMatrix, TriangleAttention


@dataclass(frozen=True, slots=True)
class Attention:
    """Options that all layers of an encoder share."""

    dim: int
    heads: int
    graph: Graph
    matrices: str  # which graph matrices are learned, of "q", "k", "v" and "g" (G itself)
    triangles: int  # triangle layers on the scores, 0 to 2
    dropout: float  # graph-symmetric
    antisymmetric: bool = False  # a second softmax, of anti-symmetric scores (eq. 6)

    def matrix(self, name: str, reach: int) -> nn.Module:
        """G_q, G_k or G_v for all channels, or the identity."""
        if name not in self.matrices:
            return nn.Identity()
        return GraphMatrix(self.dim, reach, self.graph, self.dropout)


class GraphAttention(nn.Module):
    """Scores, softmax and output projection of one layer over a grid of P = rows * columns."""

    def __init__(self, options: Attention, rows: int, columns: int, token: bool = False) -> None:
        super().__init__()
        self.heads, self.rows, self.columns, self.token = options.heads, rows, columns, token
        self.scale = (options.dim // options.heads) ** -0.5
        self.signs = (1.0, -1.0) if options.antisymmetric else (1.0,)
        reach = max(rows, columns) - 1
        self.hadamard = (
            GraphMatrix(options.heads, reach, options.graph, options.dropout)
            if "g" in options.matrices
            else None
        )
        self.triangles = nn.ModuleList(
            TriangleAttention(options.heads, rows, token) for _ in range(options.triangles)
        )
        self.project = nn.Linear(options.dim, options.dim)

    def scores(self, q: Tensor, k: Tensor, sign: float = 1.0) -> Tensor:
        """Queries, keys (N, heads, n, d) to Gamma / sqrt(d) of eq. 3 and 4 (N, heads, n, n).

        Symmetric before the triangles, with sign -1 anti-symmetric.
        """
        gamma: Tensor = (q * self.scale) @ k.transpose(-2, -1)
        if self.hadamard is not None:
            graph = self.hadamard.matrix(self.rows, self.columns)
            gamma = gamma * (F.pad(graph, (1, 0, 1, 0), value=1.0) if self.token else graph)
        gamma = gamma + sign * gamma.transpose(-2, -1)
        for index, layer in enumerate(self.triangles):
            # SiT*: a second sum over triangles, of the activated scores.
            gamma = layer(gamma) if index == 0 else layer(F.gelu(gamma)) - gamma
        return gamma

    def token_scores(self, q: Tensor, k: Tensor, sign: float = 1.0) -> Tensor:
        """The first row of `scores` (N, heads, 1, n): the token's, which is in no triangle."""
        asked, was_asked = (a[:, :, :1] @ b.transpose(-2, -1) for a, b in ((q, k), (k, q)))
        gamma: Tensor = (asked + sign * was_asked) * self.scale
        return F.gelu(gamma) - gamma if len(self.triangles) == 2 else gamma

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, token_only: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Queries, keys, values (N, heads, n, d) to their sums and attention (N, heads, n, n).

        With `token_only`, only the first row of both.
        """
        rate = self.token_scores if token_only else self.scores
        attention = reduce(torch.add, [rate(q, k, sign).softmax(-1) for sign in self.signs])
        return attention @ v, attention


class LocalGSA(nn.Module):
    """x + GSA(x) within windows of s x s pixels.

    The graph matrices reach one window further on all sides (section 4: the enlarged local window,
    which breaks the symmetry of a single window softly and leaves that of the whole image exact).
    """

    order: Tensor
    inverse: Tensor

    def __init__(self, options: Attention, side: int, rows: int, columns: int) -> None:
        super().__init__()
        dim = options.dim
        self.graph_q, self.graph_k, self.graph_v = (options.matrix(name, side) for name in "qkv")
        self.query = nn.Conv2d(dim, dim, 1, bias=False)
        self.key = nn.Conv2d(dim, dim, 1, bias=False)
        self.norm = nn.LayerNorm(3 * dim)
        self.attention = GraphAttention(options, side, side)
        self.width = dim // options.heads
        pixels = torch.arange(rows * columns * side * side)
        windows = pixels.reshape(rows, side, columns, side).transpose(1, 2).reshape(-1, 1, side**2)
        heads = torch.arange(options.heads).unsqueeze(-1)
        own = windows * options.heads + heads  # (windows, heads, n): a row per pixel and head
        order = [(3 * windows + part) * options.heads + heads for part in range(3)]
        self.register_buffer("order", torch.stack(order).flatten(1), persistent=False)
        self.register_buffer("inverse", own.flatten().argsort(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, d, H, W) to maps of the same shape."""
        q, k = self.query(self.graph_q(x)), self.key(self.graph_k(x))
        qkv = self.norm(torch.cat([q, k, self.graph_v(x)], 1).permute(0, 2, 3, 1))
        rows = qkv.reshape(len(x), -1, self.width)
        q, k, v = (self._windows(rows.index_select(1, order)) for order in self.order)
        out, _ = self.attention(q, k, v)
        rows = out.reshape(len(x), -1, self.width).index_select(1, self.inverse)
        out = rows.reshape(len(x), *x.shape[2:], -1).permute(0, 3, 1, 2)
        project = self.attention.project
        return x + F.conv2d(out, project.weight[:, :, None, None], project.bias)

    def _windows(self, rows: Tensor) -> Tensor:
        """Rows (B, L * heads * s * s, d) by window and head (B * L, heads, s * s, d)."""
        size = self.attention.rows * self.attention.columns
        return rows.reshape(-1, self.attention.heads, size, self.width)


class GlobalGSA(nn.Module):
    """x + GSA(x) over all patches of the image and a class token, which no graph weight touches.

    The graph matrices reach half the grid, the triangles the patches only.
    """

    def __init__(self, options: Attention, rows: int, columns: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        reach = max(rows, columns) // 2
        self.norm = nn.LayerNorm(options.dim)
        self.query_key = nn.Linear(options.dim, 2 * options.dim)
        self.graph_q, self.graph_k, self.graph_v = (options.matrix(name, reach) for name in "qkv")
        self.attention = GraphAttention(options, rows, columns, token=True)

    def forward(self, x: Tensor, token_only: bool = False) -> tuple[Tensor, Tensor]:
        """Token and patches (B, n, d) to the same, and attention (B, heads, n, n), n = 1 + P.

        With `token_only`, only the first row of both.
        """
        v = self.norm(x)
        q, k = self.query_key(v).chunk(2, -1)
        q, k, v = (
            self._on_patches(graph, part)
            for graph, part in ((self.graph_q, q), (self.graph_k, k), (self.graph_v, v))
        )
        heads = self.attention.heads
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q, k, v))
        out, attention = self.attention(q, k, v, token_only)
        out = self.attention.project(out.transpose(1, 2).flatten(2))
        return (x[:, :1] if token_only else x) + out, attention

    def _on_patches(self, graph: nn.Module, x: Tensor) -> Tensor:
        if isinstance(graph, nn.Identity):
            return x
        grid = x[:, 1:].transpose(1, 2).unflatten(2, (self.rows, self.columns))
        return torch.cat([x[:, :1], graph(grid).flatten(2).transpose(1, 2)], 1)
