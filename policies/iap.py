"""IAP, Implicit Attention for Pixels (arXiv 2102.04353, sections 3 and 4), as an image encoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RELU_EPSILON = 1e-3  # Performer's deterministic ReLU features: relu(z) + 0.001


def patches(image: Tensor, size: int, stride: int) -> Tensor:
    """Cut images (B, H, W, C) into flat patches (B, L, size * size * C), row by row."""
    if size == stride == 1:  # every pixel is a patch; unfold would export as Pad + Gather
        return image.flatten(1, 2)
    return F.unfold(image.permute(0, 3, 1, 2), size, stride=stride).transpose(1, 2)


def patch_centres(height: int, width: int, size: int, stride: int) -> Tensor:
    """Centres (L, 2) as (row, column), scaled so that the image spans [-1, 1]."""
    rows = torch.arange(0, height - size + 1, stride) + (size - 1) / 2
    columns = torch.arange(0, width - size + 1, stride) + (size - 1) / 2
    grid = torch.cartesian_prod(2 * rows / (height - 1) - 1, 2 * columns / (width - 1) - 1)
    return grid.float()


class Projection(nn.Linear):
    """A linear layer that gives equal rows bit-equal results.

    A matrix product does not: its vectorised kernels treat the last rows differently, and equal
    patches (flat surfaces are full of them) would be ranked by rounding errors.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        return (x.unsqueeze(-2) * self.weight).sum(-1) + self.bias


class IAPEncoder(nn.Module):
    """Selects the l patches that all patches attend to most and returns where they are.

    Scores are r^T Q' (K')^T with r = 1 (eq. 3): queries are summed first, so the L x L attention
    matrix never exists. Selection has no gradient; train with ES.

    Learned: W_Q, W_K with biases, 2 (c d + d) weights for patches of c values.

    Raises:
        ValueError: the patch does not fit into the image, or `selected` exceeds the patch count.
    """

    centres: Tensor

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 1,
        stride: int = 1,
        dim: int = 8,
        selected: int = 64,
    ) -> None:
        super().__init__()
        if patch > min(height, width):
            raise ValueError(f"patch {patch} is larger than the image ({height} x {width})")
        self.patch, self.stride, self.selected = patch, stride, selected
        self.rows = (height - patch) // stride + 1
        self.columns = (width - patch) // stride + 1
        if selected > self.rows * self.columns:
            raise ValueError(
                f"selected {selected} exceeds the {self.rows * self.columns} patches of the image"
            )
        self.query = Projection(patch * patch * channels, dim)
        self.key = Projection(patch * patch * channels, dim)
        centres = patch_centres(height, width, patch, stride)
        self.register_buffer("centres", centres, persistent=False)
        self.features = 2 * selected

    def scores(self, image: Tensor) -> Tensor:
        """Importance (B, L) of every patch of uint8 images (B, H, W, C)."""
        x = patches(image.float() / 255.0, self.patch, self.stride)
        q = F.relu(self.query(x)) + RELU_EPSILON  # (B, L, d)
        k = F.relu(self.key(x)) + RELU_EPSILON
        return (k * q.sum(1, keepdim=True)).sum(-1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (B, 2 l), best first, and a map (B, H', W') that is 1 on selected patches."""
        scores = self.scores(image)
        # Stable: among equal patches the first in reading order wins, as in ONNX TopK.
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, : self.selected]
        chosen = torch.zeros_like(scores).scatter(1, best, 1.0)
        attention = chosen.reshape(-1, self.rows, self.columns)
        return self.centres[best].flatten(1), attention
