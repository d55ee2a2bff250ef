"""LatFormer (arXiv 2306.03175): attention masks that transform the whole image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_positive, require_tiling
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.latformer.experts import EXPERTS, Lattice, MaskExpert
from pixelgait.policies.encoders.tiles import tiles

MAP_CHANNELS = 4  # of the features, per patch
CLOSED = -2.0  # logit of gates before training: masks begin near the identity
NEVER = -1e9  # score of a masked entry
SMALLEST = 1e-30  # least entry of a mask to take the logarithm of


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Softmax attention (B, n, d) rescaled by a mask (B, n, n) of [0, 1] (section 3.1).

    softmax(S + log M) is softmax(S) M with rows that sum to 1, but without 0 / 0 where the softmax
    vanishes, or in rows without any 1, which give zeros.
    """
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    scores = torch.where(mask > 0.0, scores + mask.clamp_min(SMALLEST).log(), NEVER)
    return (scores.softmax(-1) * (mask.amax(-1, keepdim=True) > 0.0)) @ v


class LatFormerLayer(nn.Module):
    """f(g X, X), where g is a transformation of the lattice that depends on X (section 2).

    g X is masked attention with projections initialised to the identity; f adds a perceptron that
    is initialised to zero. A layer so begins as g X. Gates are a linear layer of the mean
    over all cells, whose weights fit lattices of any size.

    With `hard`, gates are 0 or 1 (section 4.1, at inference) and have no gradient.
    """

    def __init__(self, lattice: Lattice, dim: int, hard: bool = False) -> None:
        super().__init__()
        self.hard = hard
        self.expert = MaskExpert(lattice)
        self.gate = nn.Linear(dim, self.expert.gates)
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.perceptron = nn.Sequential(
            nn.Linear(2 * dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )
        nn.init.constant_(self.gate.bias, CLOSED)
        for projection in (self.query, self.key, self.value):
            nn.init.eye_(projection.weight)
            nn.init.zeros_(projection.bias)
        for parameter in self.perceptron[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cells (B, n, d) to cells (B, n, d), gates (B, L) in [0, 1] and mask (B, n, n)."""
        gates = torch.sigmoid(self.gate(x.mean(1)))
        gates = gates.round() if self.hard else gates
        mask = self.expert(gates)
        moved = masked_attention(self.query(x), self.key(x), self.value(x), mask)
        return moved + self.perceptron(torch.cat([moved, x], -1)), gates, mask


class LatFormer(Encoder):
    """Patches through layers that transform their lattice; features are a map, and the gates.

    Training smooths no masks (section 4.2), since it makes one prediction per image.

    Args:
        height, width, channels: of the images; 3 for RGB, 1 for depth, 4 for RGB-D.
        patch: side of a patch [pixels].
        dim: features per patch.
        layers: number of layers, each with its own transformation.
        experts: parts of the transformations, out of "translation", "reflection", "scaling" and
            "rotation", joined by +. Rotation needs a square image.
        hard: make gates 0 or 1, without gradient.

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
        layers: int = 1,
        experts: str = "+".join(EXPERTS),
        hard: bool = False,
    ) -> None:
        super().__init__()
        require_tiling(height, width, channels, patch)
        require_positive(dim=dim, layers=layers)
        self.patch, self.rows, self.columns = patch, height // patch, width // patch
        cells = self.rows * self.columns
        powers = (max(self.rows, self.columns) - 1).bit_length()
        lattice = Lattice(self.rows, self.columns, tuple(experts.split("+")), powers)
        self.embed = nn.Linear(patch * patch * channels, dim)
        stack = [LatFormerLayer(lattice, dim, hard) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        self.map_head = nn.Linear(dim, MAP_CHANNELS)
        self.features = cells * MAP_CHANNELS + sum(layer.expert.gates for layer in stack)
        self.image_shape = (height, width, channels)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and attention (B, H / patch, W / patch).

        Attention is the last mask, summed over rows and scaled to a maximum of 1.
        """
        x = self.embed(tiles(image.float() / 255.0, self.patch))
        all_gates = []
        for layer in self.layers:
            x, gates, mask = layer(x)
            all_gates.append(gates)
        seen = mask.sum(1).unflatten(1, (self.rows, self.columns))
        features = torch.cat([torch.tanh(self.map_head(x)).flatten(1), *all_gates], 1)
        return features, seen / seen.amax((1, 2), keepdim=True)
