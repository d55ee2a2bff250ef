"""Patch selection by importance (IAP, arXiv 2102.04353, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_at_least, require_image, require_positive
from pixelgait.policies.encoders.convolutions import StridedConvolutions
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.iap.ordered import Projection, whole_vectors
from pixelgait.policies.encoders.selection import first_best
from pixelgait.robot.control.observation import COLOURS

SOFTNESS = 0.1  # temperature of soft sorting, in units of the mean importance; assumption


def patches(image: Tensor, size: int, stride: int) -> Tensor:
    """Cut images (B, H, W, C), or maps, into patches (B, L, size * size * C), row by row.

    Values of a patch are ordered as in the image: row, column, channel.
    """
    batch, height, width, channels = image.shape
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    if size == stride:  # nothing overlaps: whole lines of a patch are moved at once
        tiles = (
            image[:, : rows * size, : columns * size]
            .reshape(batch, rows, size, columns, size * channels)
            .transpose(2, 3)
        )
    else:
        tiles = image.unfold(1, size, stride).unfold(2, size, stride).permute(0, 1, 2, 4, 5, 3)
    return tiles.reshape(batch, rows * columns, size * size * channels)


def patch_centres(height: int, width: int, size: int, stride: int) -> Tensor:
    """Centres (L, 2) as (row, column), scaled so that the image spans [-1, 1]."""
    rows = torch.arange(0, height - size + 1, stride) + (size - 1) / 2
    columns = torch.arange(0, width - size + 1, stride) + (size - 1) / 2
    last_row, last_column = max(1, height - 1), max(1, width - 1)
    grid = torch.cartesian_prod(2 * rows / last_row - 1, 2 * columns / last_column - 1)
    return grid.float()


class PatchSelector(Encoder, ABC):
    """Selects the l most important patches and returns their centres, or learned values.

    Selection has no gradient: train with ES. Three options, not in the paper, give it one. `gated`
    values are multiplied by their patch's share of the importance (as the outputs of experts in
    Shazeer et al. 2017, arXiv 1701.06538). `sparse` values are multiplied by how far that share
    exceeds the one of the best patch left out (a soft threshold, Donoho 1995); they stay at their
    patches' places, where all others are 0, so nothing jumps when two patches change ranks.
    `straight` gives centres the gradient of soft sorting (SoftSort, Prillo and Eisenschlos 2020,
    arXiv 2006.16038) while the forward pass stays the paper's (straight-through, Bengio et al.
    2013, arXiv 1308.3432).

    Learned: the stem, if there is one; W_Q, W_K with biases, 2 (c d + d) weights for patches of c
    values; then W_V.

    Args:
        height, width, channels: of the images; 3 for RGB, 1 for depth, 4 for RGB-D.
        patch, stride: side of a patch and distance between patches [pixels].
        dim: length d of queries and keys.
        selected: number l of patches.
        values: length of learned values W_V x; 0 for patch centres as (row, column).
        placed: return the centres beside the values.
        gated: weight values by importance.
        sparse: weight values by importance, each at its place.
        straight: give centres without values a gradient in fitting; ties are broken by a shuffled
            order, not by position.
        stem: channels of two strided convolutions that patches are cut from, the first with half
            as many channels; standardises colours (Xiao et al. 2021, arXiv 2106.14881). A "pixel"
            of a patch then covers 4 x 4 pixels. 0: patches of the image itself.

    Raises:
        ValueError: if the patch is larger than the image, `selected` exceeds the number of patches,
            an option has no effect, or with a stem a side is no multiple of 4.
    """

    centres: Tensor
    order: Tensor | None

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 1,
        stride: int = 1,
        dim: int = 8,
        selected: int = 64,
        values: int = 0,
        placed: bool = False,
        gated: bool = False,
        sparse: bool = False,
        straight: bool = False,
        stem: int = 0,
    ) -> None:
        super().__init__()
        require_image(height, width, channels)
        require_positive(patch=patch, stride=stride, dim=dim, selected=selected)
        require_at_least(0, values=values, stem=stem)
        _require_use(values, placed, gated, sparse, straight)
        self.image_shape = (height, width, channels)
        self.stem = _stem(self.image_shape, stem) if stem else None
        height, width, channels = self.stem.shape if self.stem else self.image_shape
        if patch > min(height, width):
            raise ValueError(
                f"patch {patch} is larger than the {'map' if stem else 'image'} "
                f"({height} x {width}), expected at most {min(height, width)}"
            )
        self.placed, self.gated, self.sparse, self.straight = placed, gated, sparse, straight
        self.drawn = not (gated or sparse or straight)
        self.patch, self.stride, self.selected = patch, stride, selected
        self.rows = (height - patch) // stride + 1
        self.columns = (width - patch) // stride + 1
        self.count = self.rows * self.columns
        if selected > self.count - sparse:
            others = "others of" if sparse else "patches of"
            raise ValueError(
                f"selected {selected} exceeds the {self.count - sparse} {others} the image"
            )
        size = patch * patch * channels
        self.query, self.key = Projection(size, dim), Projection(size, dim)
        self.value = nn.Linear(size, values) if values else None
        centres = patch_centres(height, width, patch, stride)
        self.register_buffer("centres", centres, persistent=False)
        # Patches of one colour tie with a camera without noise, while noise shuffles them as in
        # training: with an ideal camera 91 of 100 hard courses, but 65 with ties by position.
        mixed = np.random.default_rng(0).permutation
        order = torch.tensor(mixed(self.count)) if straight else None
        self.register_buffer("order", order, persistent=False)
        size = values + 2 * (placed or not values)  # features of a patch
        self.features = self.count * values if sparse else selected * size

    @abstractmethod
    def rate(self, x: Tensor) -> Tensor:
        """Importance (B, L) of the first L = `count` of patches (B, c, L or more)."""

    def columns_of(self, image: Tensor) -> Tensor:
        """Patches (B, c, L or more) of uint8 images (B, H, W, C), pixels in [0, 1].

        Black patches pad them to whole vectors.
        """
        if image.shape[1:] != self.image_shape:
            raise ValueError(f"image is {tuple(image.shape[1:])}, expected {self.image_shape}")
        if self.stem is not None:
            return self._columns(self.stem(image).permute(0, 2, 3, 1))
        return self._columns(image).float() / 255.0

    def _columns(self, image: Tensor) -> Tensor:
        """Patches (B, c, L or more) of images or maps (B, H, W, C)."""
        cut = whole_vectors(patches(image, self.patch, self.stride), -2)
        # Contiguous: a product with a transposed view would sum some columns in another order.
        return cut.transpose(1, 2).contiguous()

    def scores(self, image: Tensor) -> Tensor:
        """Importance (B, L) of every patch of uint8 images (B, H, W, C)."""
        return self.rate(self.columns_of(image))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F), best patch first, and a map (B, H', W') that is 1 on selected patches.

        Sparse values are in the order of places, and the map holds their weights.
        """
        x = self.columns_of(image)
        scores = self.rate(x)
        if self.sparse:
            features, chosen = self._in_place(x, scores)
        else:
            best = self._best(scores)
            features = self._ranked(x, scores, best)
            chosen = torch.zeros_like(scores).scatter(1, best, 1.0)
        return features.flatten(1), chosen.reshape(-1, self.rows, self.columns)

    def _best(self, scores: Tensor) -> Tensor:
        """Indices (B, l) of the most important patches; among equals the first in `order`."""
        if self.order is None:
            return first_best(scores, self.selected)
        return self.order[first_best(scores[:, self.order], self.selected)]

    def _in_place(self, x: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted values (B, L, d_V) of all patches, and their weights (B, L), most of them 0."""
        assert self.value is not None
        shares = self._shares(scores)
        left_out = first_best(scores, self.selected + 1)[:, self.selected :]
        weights = torch.relu(shares - shares.gather(1, left_out))
        values: Tensor = self.value(x[..., : self.count].transpose(1, 2))
        return values * weights.unsqueeze(2), weights

    def _ranked(self, x: Tensor, scores: Tensor, best: Tensor) -> Tensor:
        """Rows of V (B, l, d_V) for the indices `best` (B, l) of patches rated (B, L)."""
        if self.value is None:
            centres = self.centres[best]
            fitted = self.straight and scores.requires_grad and not torch.compiler.is_exporting()
            return centres + self._zero(scores, best) if fitted else centres
        picked = x.gather(2, best.unsqueeze(1).expand(-1, x.shape[1], -1))
        values: Tensor = self.value(picked.transpose(1, 2))
        if self.gated:
            values = values * self._shares(scores).gather(1, best).unsqueeze(2)
        return torch.cat([values, self.centres[best]], 2) if self.placed else values

    def _zero(self, scores: Tensor, best: Tensor) -> Tensor:
        """Zeros (B, l, 2) with the gradient of softly sorted centres."""
        shares = self._shares(scores)
        apart = (shares.gather(1, best)[:, :, None] - shares[:, None]).abs()  # (B, l, L)
        soft = torch.softmax(-apart / SOFTNESS, 2) @ self.centres
        return soft - soft.detach()

    def _shares(self, scores: Tensor) -> Tensor:
        """Importance (B, L) in units of its mean."""
        return scores / scores.sum(1, keepdim=True) * scores.shape[1]


def _require_use(values: int, placed: bool, gated: bool, sparse: bool, straight: bool) -> None:
    """Raises ValueError for an option without effect."""
    if not values and (placed or gated or sparse):
        raise ValueError("placed, gated and sparse have no effect with values 0")
    if sparse and (placed or gated):
        raise ValueError("placed and gated have no effect with sparse, which includes both")
    if straight and values:
        raise ValueError(f"straight has no effect with values {values}")


def _stem(image_shape: tuple[int, int, int], channels: int) -> StridedConvolutions:
    coloured = image_shape[2] >= COLOURS
    widths = (max(1, channels // 2), channels)
    return StridedConvolutions(image_shape, widths, coloured, normalise=True)
