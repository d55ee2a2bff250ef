"""Periodic random fields for patterns and backdrops."""

from __future__ import annotations

from functools import cache

import numpy as np

from pixelgait.robot.spec import Array

PIXELS = 64  # a side of a pattern


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
