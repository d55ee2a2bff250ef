"""AttentionNeuron (arXiv 2109.02869): features that do not depend on the order of patches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_at_least, require_positive, require_tiling
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.selection import first_best
from pixelgait.policies.encoders.tiles import tiles

POSITIONS = 8  # numbers per row of Q, as in the authors' code
# Factor on the initial weights of the layers that select, which get no gradient; assumption. With
# the usual weights all queries see the mean of the image, and rounding decides the selection.
SHARPER = 3.0
VOTING = 4  # length of AttentionAgent's queries and keys


def sinusoids(rows: int) -> Tensor:
    """Position embeddings (rows, POSITIONS) of the Transformer (arXiv 1706.03762, section 3.5)."""
    rates = 10_000.0 ** (-torch.arange(0, POSITIONS, 2) / POSITIONS)
    angles = torch.arange(rows)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class AttentionNeuron(Encoder):
    """The same sensory neuron reads every patch; fixed queries attend to all patches.

        m = softmax(Q W_q (K W_k)^T / sqrt(d)) V W_v                               (eq. 2)

    then ReLU and layer norm. Neither the order of patches nor their number changes the shape of
    the code m, and the order changes its values by rounding errors alone. Positions are thus known
    inside patches only: small patches cannot steer.

    Keys come from one image; the paper's from the differences of four and the last action. The
    past is left to the memory, which gets an invariant code and so is invariant too.

    With `selected` the codes, on a square grid, vote for each other as AttentionAgent's patches do
    (arXiv 2003.08165), and the places of those with the most votes are the features. The selection
    has no gradient: train with ES.

    Args:
        height, width, channels: of the images; 3 for RGB, 1 for depth, 4 for RGB-D.
        patch: side of a patch [pixels].
        dim: length d of queries and keys.
        rows: number of queries; a square number for `selected`.
        message: length of a value.
        selected: number of codes whose places are the features; 0 for the code itself.

    Raises:
        ValueError: if sizes do not fit.
    """

    questions: Tensor
    places: Tensor

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 8,
        dim: int = 16,
        rows: int = 64,
        message: int = 8,
        selected: int = 0,
    ) -> None:
        super().__init__()
        require_tiling(height, width, channels, patch)
        require_positive(dim=dim, rows=rows)
        require_at_least(2, message=message)  # layer norm turns a single value into 0
        side = int(rows**0.5)
        if not 0 <= selected <= rows:
            raise ValueError(f"selected is {selected}, expected 0 to the {rows} rows")
        if selected and side * side != rows:
            raise ValueError(f"rows is {rows}, expected a square number to select from")
        self.patch, self.rows, self.columns = patch, height // patch, width // patch
        size = patch * patch * channels
        self.query, self.key = nn.Linear(POSITIONS, dim), nn.Linear(size, dim)
        self.value = nn.Linear(size, message)
        self.norm = nn.LayerNorm(message)
        self.selected = selected
        self.votes = nn.Linear(message, 2 * VOTING) if selected else None
        if self.votes is not None:
            with torch.no_grad():
                for layer in (self.query, self.key, self.votes):
                    layer.weight *= SHARPER
        centres = (2.0 * torch.arange(side) + 1.0) / side - 1.0  # the grid spans [-1, 1]
        self.register_buffer("places", torch.cartesian_prod(centres, centres), persistent=False)
        self.register_buffer("questions", sinusoids(rows), persistent=False)
        self.features = 2 * selected if selected else rows * message
        self.image_shape = (height, width, channels)
        self.flip_blind = patch == 1  # the position of a patch is unknown

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F) of uint8 images (B, H, W, C), and attention (B, H / patch, W / patch).

        Attention of a patch is summed over queries; its largest value is 1.
        """
        code, weights = self.code(tiles(image.float() / 255.0, self.patch))
        seen = weights.sum(1).unflatten(1, (self.rows, self.columns))
        features = code.flatten(1) if self.votes is None else self._selected(code)
        return features, seen / seen.amax((1, 2), keepdim=True)

    def code(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Code (B, rows, message) of N patches (B, N, c), and weights (B, rows, N)."""
        q, k = self.query(self.questions), self.key(x)
        weights = (q @ k.transpose(1, 2) * q.shape[1] ** -0.5).softmax(-1)
        values = self.value(F.layer_norm(x, x.shape[-1:]))
        return self.norm(F.relu(weights @ values)), weights

    def _selected(self, code: Tensor) -> Tensor:
        """Grid positions (B, 2 selected), as (row, column), of the codes with most votes."""
        assert self.votes is not None
        q, k = self.votes(code).chunk(2, -1)
        votes = (q @ k.transpose(1, 2) * VOTING**-0.5).softmax(-1).sum(1)
        return self.places[first_best(votes, self.selected)].flatten(1)
