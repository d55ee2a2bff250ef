"""Finite groups of rotations and reflections of the image plane (GE-ViT, arXiv 2306.06722).

Elements are matrices on (row, column), in float64 and with exact zeros and ones; the identity is
element 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

# The left-right mirror image alone, 4 and 8 rotations, 4 rotations with their reflections.
Group = Literal["flip", "C4", "C8", "D4"]
# Positional encoding of a key's element against a query's: eq. 18 (GE-ViT) or eq. 15 (GSA-Nets).
Encoding = Literal["ge-vit", "gsa-net"]
ROTATIONS: dict[Group, int] = {"flip": 1, "C4": 4, "C8": 8, "D4": 4}
Integers = NDArray[np.int64]
Matrices = NDArray[np.float64]


def elements(group: Group) -> Matrices:
    """Matrices (h, 2, 2) of all elements: rotations, then rotations of the mirror image."""
    angles = 2.0 * np.pi * np.arange(ROTATIONS[group]) / ROTATIONS[group]
    # Rounded: sine and cosine of 45 degrees become equal, and zeros exact.
    cosine, sine = np.cos(angles).round(14), np.sin(angles).round(14)
    rotations: Matrices = np.stack([cosine, -sine, sine, cosine], -1).reshape(-1, 2, 2)
    if group in ("C4", "C8"):
        return rotations
    return np.concatenate([rotations, rotations @ np.diag([1.0, -1.0])])


def product_table(group: Group) -> Integers:
    """Index (h, h) of the product of two elements."""
    matrices = elements(group)
    products = matrices[:, None] @ matrices
    distance = np.abs(products[:, :, None] - matrices).sum((-2, -1))
    nearest: Integers = distance.argmin(-1)
    return nearest


def inverses(group: Group) -> Integers:
    """Index (h,) of the inverse of each element."""
    index: Integers = product_table(group).argmin(1)
    return index


def encoded_elements(group: Group, encoding: Encoding) -> Integers:
    """Encoded element (v, g, m) of output v for a query g and a key m.

    That of eq. 18, v^-1 (g m^-1 g), is the same for (k v, k g, k m) with any k. That of eq. 15,
    v^-1 (g^-1 m), is not: with it group attention is not equivariant.
    """
    product, inverse = product_table(group), inverses(group)
    v, g, m = np.ogrid[: len(inverse), : len(inverse), : len(inverse)]
    encoded = {"ge-vit": product[product[g, inverse[m]], g], "gsa-net": product[inverse[g], m]}
    relative: Integers = product[inverse[v], encoded[encoding]]
    return relative
