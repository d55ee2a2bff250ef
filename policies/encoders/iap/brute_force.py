"""Brute-force softmax attention, which IAP replaces (AttentionAgent, arXiv 2003.08165)."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from pixelgait.policies.encoders.iap.ordered import whole_vectors
from pixelgait.policies.encoders.iap.patches import PatchSelector

LARGEST_BLOCK = 1 << 24  # entries of the attention matrix held at a time (64 MiB)


class BruteForceEncoder(PatchSelector):
    """Rates patches by softmax(Q K^T / sqrt(d)), summed over queries; quadratic in their number.

    Options are those of `PatchSelector`. Queries are taken in blocks, so memory stays bounded.
    """

    def rate(self, x: Tensor) -> Tensor:
        """Importance (B, L) of the first L = `count` of patches (B, c, L or more); it sums to L."""
        keys = self.key(x, self.count)
        queries = self.query(x, self.count).transpose(1, 2) * keys.shape[1] ** -0.5
        blocks = queries.split(max(1, LARGEST_BLOCK // self.count), 1)
        sums = [
            whole_vectors(torch.softmax(block @ keys, -1)).sum(1)[:, : self.count]
            for block in blocks
        ]
        return reduce(torch.add, sums)
