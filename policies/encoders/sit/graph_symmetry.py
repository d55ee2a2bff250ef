"""Weights shared by the symmetries of a grid (SiT, ICML 2024, section 3 and appendices A, C, E).

A graph matrix G (P, P) joins the P vertices of a grid; edges that a symmetry maps onto each other
share a weight. It commutes with the symmetry, so what is computed with it is equivariant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

# Figure 2: (a) left-right flip, (b) both flips, (c) rotations by 90 degrees.
Graph = Literal["flip", "flips", "rotation"]
Integers = NDArray[np.int64]

# The symmetries of each graph as they act on images (..., H, W). The graph of figure 2 (c) also
# has both flips; triangles or `lifted` weights leave it these rotations.
GROUPS: dict[Graph, tuple[Callable[[Tensor], Tensor], ...]] = {
    "flip": (lambda x: x, lambda x: x.flip(-1)),
    "flips": (lambda x: x, lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.flip(-2, -1)),
    "rotation": (
        lambda x: x,
        lambda x: x.rot90(1, (-2, -1)),
        lambda x: x.rot90(2, (-2, -1)),
        lambda x: x.rot90(3, (-2, -1)),
    ),
}


def lifted(weights: Tensor, graph: Graph) -> Tensor:
    """Free weights (..., s, s) under all symmetries of a graph (g, ..., s, s).

    What they read from an image moves among the g copies when the image is transformed.
    """
    return torch.stack([transform(weights) for transform in GROUPS[graph]])


def edge_labels(rows: Integers, columns: Integers, graph: Graph) -> Tensor:
    """Labels of edges (dr, dc), equal where the graph of figure 2 shares a weight.

    Figure 2 (a) keeps above and below apart, so that its matrix is not symmetric.
    """
    if graph == "rotation":
        key = rows**2 + columns**2
    else:
        key = (rows if graph == "flip" else abs(rows)) * 10_000 + abs(columns)
    labels = np.unique(key, return_inverse=True)[1]
    return torch.from_numpy(labels.reshape(key.shape))


def kernel_labels(reach: int, graph: Graph) -> Tensor:
    """Labels (2 r + 1, 2 r + 1) of the edges from a vertex to those at most r steps away."""
    rows, columns = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return edge_labels(rows, columns, graph)


def window_labels(side: int, graph: Graph) -> Tensor:
    """Labels (s, s) of the edges from a window's centre to its pixels."""
    rows, columns = 2 * np.mgrid[:side, :side] - (side - 1)
    return edge_labels(rows, columns, graph)


def shared_weights(channels: int, labels: Tensor) -> nn.Parameter:
    """One weight per channel and label (channels, labels), Kaiming-uniform."""
    count = int(labels.max()) + 1
    return nn.Parameter(torch.empty(channels, count).uniform_(-1.0, 1.0) / count**0.5)


class GraphMatrix(nn.Module):
    """A graph matrix per channel, applied as a depth-wise convolution (listing 4).

    Edges longer than `reach` rows or columns have weight zero. In training, graph-symmetric
    dropout (section 4) zeroes shared weights, so that the symmetry holds under dropout.
    """

    labels: Tensor

    def __init__(self, channels: int, reach: int, graph: Graph, dropout: float = 0.0) -> None:
        super().__init__()
        self.reach, self.dropout = reach, dropout
        self.register_buffer("labels", kernel_labels(reach, graph), persistent=False)
        self.weights = shared_weights(channels, self.labels)

    def kernel(self) -> Tensor:
        """The convolution's kernel (channels, 1, 2 r + 1, 2 r + 1)."""
        weights = F.dropout(self.weights, self.dropout, self.training)
        return weights[:, self.labels].unsqueeze(1)

    def matrix(self, rows: int, columns: int) -> Tensor:
        """The graph matrix as an explicit G (channels, P, P) of a grid with P vertices."""
        size = 2 * self.reach + 1
        row, column = (axis.ravel() for axis in np.mgrid[:rows, :columns])
        dr = row[None] - row[:, None] + self.reach
        dc = column[None] - column[:, None] + self.reach
        far = (np.minimum(dr, dc) < 0) | (np.maximum(dr, dc) >= size)
        index = torch.from_numpy(np.where(far, size**2, dr * size + dc))
        return F.pad(self.kernel().flatten(1), (0, 1))[:, index]

    def forward(self, x: Tensor) -> Tensor:
        """G x for maps (B, channels, H, W)."""
        return F.conv2d(x, self.kernel(), padding=self.reach, groups=x.shape[1])


def triangle_table(side: int) -> tuple[Tensor, Tensor]:
    """Directed triangles i -> j -> k of a square grid (appendix A): edges and labels (3, P, P).

    From i to j, then right to the nearest vertex k. Entry (i, j) of `edges` are the flat indices
    of (j, k), (k, i) and (i, j); equal angles have equal labels. Where k is off the grid or i = j
    the triangle collapses to three times (i, j), with the label of angle 1/3.
    """
    place = np.stack([axis.ravel() for axis in np.mgrid[:side, :side]], -1)  # (P, 2)
    count = len(place)
    edge = np.broadcast_to(place[None] - place[:, None], (count, count, 2))
    right = np.stack([edge[..., 1], -edge[..., 0]], -1)
    step = _nearest_step(right)
    third = place[None] + step
    collapsed = (third < 0).any(-1) | (third >= side).any(-1) | ~edge.any(-1)
    i, j = np.mgrid[:count, :count]
    k = np.where(collapsed, 0, third[..., 0] * side + third[..., 1])
    back = place[:, None] - third  # k -> i
    first, second = _angle(right, back) / 2.0, _angle(edge, back) / 2.0
    angles = np.where(collapsed, 1.0 / 3.0, np.stack([first, second, 1.0 - first - second]))
    edges = np.where(
        collapsed, i * count + j, np.stack([j * count + k, k * count + i, i * count + j])
    )
    labels = np.unique(np.round(1e5 * angles), return_inverse=True)[1].reshape(angles.shape)
    return torch.from_numpy(edges), torch.from_numpy(labels)


def _nearest_step(direction: Integers) -> Integers:
    """The unit step (..., 2) along an axis that is nearest to a direction; diagonals turn on."""
    length = np.linalg.norm(direction, axis=-1, keepdims=True)
    step: Integers = np.round(direction / np.maximum(length, 1.0)).astype(np.int64)
    row, column = step[..., 0], step[..., 1]
    diagonal = (row != 0) & (column != 0)
    step[..., 0] = np.where(diagonal & (row != column), 0, row)
    step[..., 1] = np.where(diagonal & (row == column), 0, column)
    return step


def _angle(a: Integers, b: Integers) -> NDArray[np.float64]:
    """Angle between vectors (..., 2) in units of pi, 0 for null vectors."""
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosine = (a * b).sum(-1) / np.maximum(lengths, 1.0)
    angle: NDArray[np.float64] = np.arccos(np.clip(cosine, -1.0, 1.0)) / np.pi
    return angle


class TriangleAttention(nn.Module):
    """The layer that keeps rotations and breaks flips (eq. 4 and 8).

    Adds to every score those of the two other edges of its directed triangle, with weights shared
    by angle. A class token, vertex 0 if there is one, belongs to no triangle.
    """

    edges: Tensor
    labels: Tensor

    def __init__(self, heads: int, side: int, token: bool) -> None:
        super().__init__()
        edges, labels = triangle_table(side)
        self.weights = shared_weights(heads, labels)
        count = self.weights.shape[1]  # labels count and count + 1 stand for constants 0 and 1
        size = side**2 + token
        if token:
            own = torch.arange(size**2).reshape(size, size)
            edges = own[1:, 1:].flatten()[edges]
            edges = torch.stack([_around(e, own) for e in edges])
            labels = torch.stack(
                [
                    _around(part, torch.full_like(own, count + last))
                    for part, last in zip(labels, (0, 0, 1), strict=True)
                ]
            )
        # The third edge is (i, j) itself: it needs no index.
        self.register_buffer("edges", edges[:2].flatten(1), persistent=False)
        self.register_buffer("labels", labels.flatten(1), persistent=False)

    def forward(self, scores: Tensor) -> Tensor:
        """Scores (N, heads, n, n) of all pairs to scores of the same shape."""
        constants = self.weights.new_tensor([0.0, 1.0]).expand(len(self.weights), 2)
        weights = torch.cat([self.weights, constants], 1)[:, self.labels]  # (heads, 3, n * n)
        pairs = scores.flatten(2)
        jk, ki = (pairs.gather(2, edge.expand_as(pairs)) for edge in self.edges)
        pairs = weights[:, 0] * jk + weights[:, 1] * ki + weights[:, 2] * pairs
        return pairs.reshape(scores.shape)


def _around(inner: Tensor, outer: Tensor) -> Tensor:
    """A matrix (n, n) whose first row and column come from `outer`, the rest from `inner`."""
    result = outer.clone()
    result[1:, 1:] = inner
    return result
