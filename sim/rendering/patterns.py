"""Surface patterns for training, and held-out ones for testing only; no pattern is in both sets.

A pattern (PIXELS, PIXELS) is periodic, with values from 0 to 2: 0, 1 and 2 are the first, second
and third colour of a surface.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import cv2
import numpy as np

from pixelgait.robot.spec import Array

PIXELS = 64  # a side of a pattern
Pattern = Callable[[np.random.Generator], Array]
LETTERS = np.array(list("ABCDEFGHKLMNPRSTUXZ0123456789"))


@cache
def grid() -> tuple[Array, Array]:
    """Coordinates up and along from 0 to 1, (PIXELS, PIXELS) each."""
    v, u = (np.mgrid[:PIXELS, :PIXELS] + 0.5) / PIXELS
    return v, u


@cache
def _frequencies(rows: int, columns: int, stretch: float) -> Array:
    up, along = np.fft.fftfreq(rows) * rows, np.fft.rfftfreq(columns) * columns
    return np.asarray(np.maximum(np.hypot(stretch * up[:, None], along), 1.0))


def smooth(
    rng: np.random.Generator,
    exponent: float,
    stretch: float = 1.0,
    shape: tuple[int, int] = (PIXELS, PIXELS),
) -> Array:
    """Noise of mean 0 and standard deviation 1; amplitudes fall with frequency to the `exponent`.

    A `stretch` above 1 draws it out along the rows' axis.
    """
    spectrum = np.fft.rfft2(rng.standard_normal(shape))
    spectrum /= _frequencies(*shape, stretch) ** exponent
    spectrum[0, 0] = 0.0
    field = np.fft.irfft2(spectrum, shape)
    return np.asarray(field / field.std())


def cells(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """Index of the nearest random point, distances to it and to the second, (P, P) each."""
    v, u = (axis.ravel()[:, None] for axis in grid())
    points = rng.uniform(0.0, 1.0, (count, 2))
    away = [np.abs(axis - points[:, i]) for i, axis in enumerate((v, u))]
    wrapped = [np.minimum(each, 1.0 - each) for each in away]
    squared = wrapped[0] ** 2 + wrapped[1] ** 2
    nearest = squared.argmin(axis=1)
    two = np.sqrt(np.partition(squared, 1, axis=1)[:, :2])
    side = (PIXELS, PIXELS)
    return nearest.reshape(side), two[:, 0].reshape(side), two[:, 1].reshape(side)


def chance(rng: np.random.Generator, share: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < share)


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


def herringbone(rng: np.random.Generator) -> Array:
    """Parquet: short boards, aslant the other way in every second column."""
    v, u = grid()
    n = int(rng.integers(1, 3))
    side = np.where(np.floor(2 * n * u) % 2 < 1, 1.0, -1.0)
    along = 8 * n * v + side * 4 * n * u
    boards = rng.uniform(0.0, 1.0, 16 * n)[np.floor(along).astype(int) % (8 * n)]
    seams = (along % 1 < 0.14) | ((2 * n * u) % 1 < 0.06)
    return np.asarray(np.where(seams, 2.0, boards))


def hexagons(rng: np.random.Generator) -> Array:
    """Honeycombs with joints."""
    v, u = grid()
    rows, columns = 2 * int(rng.integers(2, 5)), int(rng.integers(3, 7))
    best, second, shade = np.full_like(u, 9.0), np.full_like(u, 9.0), np.zeros_like(u)
    tints = rng.uniform(0.0, 0.8, (rows, columns))
    for i in range(-1, rows + 1):
        for j in range(-1, columns + 1):
            away = np.hypot(rows * v - i - 0.5, 1.15 * (columns * u - j - 0.25 - 0.5 * (i % 2)))
            shade = np.where(away < best, tints[i % rows, j % columns], shade)
            second = np.minimum(second, np.maximum(best, away))
            best = np.minimum(best, away)
    return np.asarray(np.where(second - best < 0.12, 2.0, shade))


def dots(rng: np.random.Generator) -> Array:
    """Round dots in rows."""
    v, u = grid()
    n, radius = int(rng.integers(2, 7)), rng.uniform(0.2, 0.42)
    return np.asarray(np.hypot(n * v % 1 - 0.5, n * u % 1 - 0.5) < radius, dtype=float)


def marble(rng: np.random.Generator) -> Array:
    """Veins along a direction that noise bends."""
    v, u = grid()
    waves = rng.integers(0, 3), rng.integers(1, 3)
    bent = 2.0 * np.pi * (waves[0] * v + waves[1] * u) + rng.uniform(1.0, 3.0) * smooth(rng, 2.0)
    return np.asarray(2.0 * np.abs(np.sin(bent)) ** rng.uniform(0.3, 0.8))


def weave(rng: np.random.Generator) -> Array:
    """Baskets and mats: strands over and under each other."""
    v, u = grid()
    n = 2 * int(rng.integers(1, 5))
    over = (np.floor(n * v) + np.floor(n * u)) % 2 < 1
    strand = np.where(over, n * v, n * u) % 1
    return np.asarray(np.sin(np.pi * strand) + 0.4 * over)


def chevrons(rng: np.random.Generator) -> Array:
    """Zigzag bands."""
    v, u = grid()
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    zigzag = np.abs((m * u) % 1 - 0.5)
    return np.asarray(np.floor(2 * (n * v + zigzag * 2)) % 2)


def plaid(rng: np.random.Generator) -> Array:
    """Tartan: bands across bands."""
    bands = rng.uniform(0.0, 1.0, int(rng.integers(3, 9)))
    sett = np.repeat(bands, -(-PIXELS // len(bands)))[:PIXELS]
    return np.asarray(sett[:, None] + sett)


def paving(rng: np.random.Generator) -> Array:
    """Irregular slabs with joints."""
    count = int(rng.integers(6, 24))
    nearest, first, second = cells(rng, count)
    slabs = rng.uniform(0.0, 0.9, count)[nearest]
    return np.asarray(np.where(second - first < 0.025, 2.0, slabs))


def contours(rng: np.random.Generator) -> Array:
    """Lines of equal height, as on maps and cut wood."""
    height = rng.uniform(0.6, 1.6) * smooth(rng, 2.8)
    return np.asarray(2.0 * np.abs(height % 1 - 0.5) + 0.5)


def lettering(rng: np.random.Generator) -> Array:
    """Writing on a wall."""
    wall = np.zeros((PIXELS, PIXELS), np.uint8)
    for _ in range(int(rng.integers(2, 6))):
        word = "".join(rng.choice(LETTERS, int(rng.integers(1, 5))))
        place = rng.integers((0, 16), (30, PIXELS)).tolist()
        size, value = rng.uniform(0.4, 1.6), int(rng.integers(100, 256))
        cv2.putText(wall, word, place, cv2.FONT_HERSHEY_DUPLEX, size, value, 2)
    return np.asarray(wall[::-1] / 127.5)  # rows are upwards


def lattice(rng: np.random.Generator) -> Array:
    """Fences, nets, diamonds."""
    v, u = grid()
    n, m = rng.integers(2, 7, 2).tolist()
    width = rng.uniform(0.1, 0.3)
    wires = ((n * v + m * u) % 1 < width) | ((n * v - m * u) % 1 < width)
    return np.asarray(2.0 * wires)


def panels(rng: np.random.Generator) -> Array:
    """Large plates with rivets and seams, streaked by rain."""
    v, u = grid()
    seam = (v % 1 < 0.03) | ((2 * u) % 1 < 0.05)
    rivets = np.hypot(8 * v % 1 - 0.5, 8 * ((2 * u + 0.06) % 1) - 0.9) < 0.25
    rain = 0.15 * np.abs(smooth(rng, 1.2, 0.2))
    return np.asarray(np.where(seam | rivets, 1.5, rain))


def shelves(rng: np.random.Generator) -> Array:
    """Books of all widths, heights and colours."""
    wall = np.full((PIXELS, PIXELS), 0.2)
    rows = int(rng.integers(2, 5))
    for row in range(rows):
        low, high = row * PIXELS // rows, (row + 1) * PIXELS // rows
        column = 0
        while column < PIXELS:
            width = int(rng.integers(2, 7))
            tall = low + int((high - low) * rng.uniform(0.6, 0.95))
            wall[low + 1 : tall, column : column + width] = rng.uniform(0.0, 2.0)
            column += width
    return wall


def leaves(rng: np.random.Generator) -> Array:
    """Ellipses, one over the other."""
    wall = np.zeros((PIXELS, PIXELS), np.uint8)
    for _ in range(int(rng.integers(12, 40))):
        middle, axes = rng.integers(0, PIXELS, 2).tolist(), rng.integers((4, 2), (12, 5)).tolist()
        value, angle = int(rng.integers(60, 256)), float(rng.uniform(0.0, 180.0))
        for dx in (-PIXELS, 0, PIXELS):
            for dy in (-PIXELS, 0, PIXELS):
                place = (middle[0] + dx, middle[1] + dy)
                cv2.ellipse(wall, place, axes, angle, 0, 360, value, -1)
    return np.asarray(wall / 127.5)


UNSEEN_PATTERNS: tuple[Pattern, ...] = (
    herringbone, hexagons, dots, marble, weave, chevrons, plaid, paving, contours, lettering,
    lattice, panels, shelves, leaves,
)  # fmt: skip
