"""Surface patterns for training; none of them is in `heldout_patterns`.

A pattern (PIXELS, PIXELS) is periodic, with values from 0 to 2: 0, 1 and 2 are the first, second
and third colour of a surface.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.noise import PIXELS, cells, chance, grid, smooth

Pattern = Callable[[np.random.Generator], Array]


def plain(rng: np.random.Generator) -> Array:
    """Paint with faint stains."""
    return np.asarray(0.1 * np.abs(smooth(rng, 1.5)))


def clouded(rng: np.random.Generator) -> Array:
    """Concrete, plaster, soil: noise on all scales."""
    return np.asarray(1.0 + 0.5 * smooth(rng, rng.uniform(0.8, 2.0)))


def granite(rng: np.random.Generator) -> Array:
    """Grains of three colours."""
    grains = smooth(rng, rng.uniform(0.1, 0.6))
    return np.asarray(np.digitize(grains, (-0.7, 0.9)).astype(float))


def stripes(rng: np.random.Generator) -> Array:
    """Stripes along v."""
    _, u = grid()
    n, share = int(rng.integers(1, 9)), rng.uniform(0.2, 0.8)
    third = (np.floor(n * u) % 2) * float(chance(rng, 0.3))
    return np.asarray(np.where((n * u) % 1 < share, 0.0, 1.0 + third))


def bricks(rng: np.random.Generator) -> Array:
    """Courses with mortar between them."""
    v, u = grid()
    rows, columns = 2 * int(rng.integers(2, 7)), int(rng.integers(2, 6))
    row = np.floor(rows * v)
    shifted = (columns * u + rng.uniform(0.2, 0.5) * (row % 2)) % columns
    mortar = ((rows * v) % 1 < rng.uniform(0.08, 0.2)) | (shifted % 1 < 0.08)
    shade = rng.uniform(0.0, rng.uniform(0.2, 1.0), (rows, columns))
    return np.asarray(np.where(mortar, 2.0, shade[row.astype(int), shifted.astype(int)]))


def tiles(rng: np.random.Generator) -> Array:
    """Squares with grout between them."""
    v, u = grid()
    n, grout = int(rng.integers(1, 6)), rng.uniform(0.03, 0.12)
    seam = ((n * v) % 1 < grout) | ((n * u) % 1 < grout)
    shade = rng.uniform(0.0, rng.uniform(0.0, 0.8), (n, n))
    return np.asarray(np.where(seam, 2.0, shade[(n * v).astype(int), (n * u).astype(int)]))


def planks(rng: np.random.Generator) -> Array:
    """Boards with their grain along v."""
    _, u = grid()
    n = int(rng.integers(2, 9))
    grain = 0.25 * smooth(rng, 1.0, 6.0)
    board = rng.uniform(0.0, 1.0, n)[(n * u).astype(int)]
    return np.asarray(np.where((n * u) % 1 < 0.06, 2.0, board + grain))


def checkers(rng: np.random.Generator) -> Array:
    """Squares of two colours."""
    v, u = grid()
    n = 2 * int(rng.integers(1, 6))
    return np.asarray((np.floor(n * v) + np.floor(n * u)) % 2)


def gradient(rng: np.random.Generator) -> Array:
    """From one colour to the next and back."""
    v, _ = grid()
    return np.asarray(2.0 * (1.0 - np.abs(2.0 * v - 1.0)) ** rng.uniform(0.6, 1.6))


def blots(rng: np.random.Generator) -> Array:
    """Islands in islands."""
    return np.asarray(np.digitize(smooth(rng, rng.uniform(1.8, 3.0)), (0.3, 1.0)).astype(float))


def posters(rng: np.random.Generator) -> Array:
    """Textured rectangles on a plain wall."""
    wall = plain(rng)
    for _ in range(int(rng.integers(2, 8))):
        height, width = rng.integers(8, 30, 2).tolist()
        row, column = rng.integers(0, PIXELS - np.array((height, width))).tolist()
        inside = np.s_[row : row + height, column : column + width]
        wall[inside] = rng.uniform(0.0, 2.0) + 0.4 * smooth(rng, 1.8)[inside]
    return wall


def gravel(rng: np.random.Generator) -> Array:
    """Stones of all shades."""
    count = int(rng.integers(20, 90))
    nearest, _, _ = cells(rng, count)
    return np.asarray(rng.uniform(0.0, 2.0, count)[nearest])


def grass(rng: np.random.Generator) -> Array:
    """Streaks: grass, carpet, brushed metal."""
    return np.asarray(1.0 + 0.5 * smooth(rng, rng.uniform(0.3, 1.0), 0.15))


def corrugated(rng: np.random.Generator) -> Array:
    """Waves of sheet metal."""
    _, u = grid()
    waves = np.sin(2.0 * np.pi * int(rng.integers(3, 14)) * u)
    return np.asarray(0.6 + 0.5 * waves + 0.1 * smooth(rng, 1.5))


TRAINING_PATTERNS: tuple[Pattern, ...] = (
    plain, clouded, granite, stripes, bricks, tiles, planks, checkers, gradient, blots, posters,
    gravel, grass, corrugated,
)  # fmt: skip
