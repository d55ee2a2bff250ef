"""Selection of IAP's patches in machine code, for many images at once: a tenth of torch's time.

For imitation, which encodes each image once for every student. Importance is that of `ReLUKernel`
within rounding; its sums have a fixed order, so that equal patches are equally important.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.world.compiled import compiled

Floats = NDArray[np.float32]
ZERO, WHITE = np.float32(0.0), np.float32(255.0)


@compiled
def select(
    images: NDArray[np.uint8],
    query: Floats,
    key: Floats,
    epsilon: np.float32,
    best: NDArray[np.int64],
    mirrored: NDArray[np.int64],
) -> None:
    """The most important pixels of images, best first; among equals the first one, row by row.

    Args:
        images: (n, H, W, C)
        query: (d, C + 1) weights of pixels in [0, 1], and bias.
        key: (d, C + 1)
        epsilon: added to the features of queries and keys.
        best: (n, l) written: indices of pixels.
        mirrored: (n, l) written: those of the image that is mirrored left to right; or (0, l).
    """
    n, height, width, channels = images.shape
    count = height * width
    pixels = np.empty((channels, count), np.float32)
    row, scores, flipped = (
        np.empty(count, np.float32),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
    )
    sorted_scores = np.empty(best.shape[1], np.float32)
    for i in range(n):
        flat = images[i].reshape(count, channels)
        for c in range(channels):
            plane = pixels[c]
            for j in range(count):
                plane[j] = np.float32(flat[j, c]) / WHITE
        scores[:] = ZERO
        for d in range(len(query)):
            _feature(pixels, query[d], epsilon, row)
            total = _sum(row)
            _feature(pixels, key[d], epsilon, row)
            for j in range(count):
                scores[j] += total * row[j]
        _highest(scores, best[i], sorted_scores)
        if len(mirrored):
            for line in range(0, count, width):
                for j in range(width):
                    flipped[line + j] = scores[line + width - 1 - j]
            _highest(flipped, mirrored[i], sorted_scores)


@compiled
def _feature(pixels: Floats, weights: Floats, epsilon: np.float32, row: Floats) -> None:
    """One feature of all pixels (C, L), written to `row` (L,): relu(w x + b) + epsilon."""
    channels = len(pixels)
    row[:] = weights[channels]
    for c in range(channels):
        plane, weight = pixels[c], weights[c]
        for j in range(len(row)):
            row[j] += weight * plane[j]
    for j in range(len(row)):
        row[j] = (row[j] if row[j] > ZERO else ZERO) + epsilon


@compiled
def _sum(row: Floats) -> np.float32:
    """Sum of a row by halves, which overwrites it."""
    count = len(row)
    while count > 1:
        half, odd = count // 2, count % 2
        near, far = row[:half], row[half + odd : count]
        for j in range(half):
            near[j] += far[j]
        count = half + odd
    total: np.float32 = row[0]
    return total


@compiled
def _highest(scores: Floats, best: NDArray[np.int64], kept: Floats) -> None:
    """Indices of the highest scores, best first, written to `best` (l,); `kept` (l,) is scratch."""
    size = len(best)
    least = np.partition(scores, len(scores) - size)[len(scores) - size]
    equal, found = size, 0
    for j in range(len(scores)):
        equal -= scores[j] > least
    for j in range(len(scores)):
        score = scores[j]
        if score < least or (score == least and equal == 0):
            continue
        equal -= score == least
        at = found
        while at > 0 and kept[at - 1] < score:
            kept[at], best[at] = kept[at - 1], best[at - 1]
            at -= 1
        kept[at], best[at] = score, j
        found += 1
