"""Depth as a stereo camera measures it: where both its eyes see something, and how well."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

# Both are ours. Neighbours whose inverse depths [1/m] differ by more have an edge between them:
# 0.11 m beyond 1 m, 1.3 m beyond 3 m.
EDGE_STEP = 0.1
PATCHES = 8  # a side of the grid that shiny and dark surfaces are drawn on: no single pixels


@dataclass(frozen=True, slots=True)
class Stereo:
    """A stereo camera; as it stands here, an ideal one."""

    error_per_m: float = 0.0  # standard deviation of depth over its square [1/m]
    step_per_m: float = 0.0  # of inverse depth between two values [1/m]
    nearest_m: float = 0.0
    furthest_m: float = 100.0  # farther than anything
    holes: float = 0.0  # share of the pixels that found no match; more of them far away
    patches: float = 0.0  # share of surfaces that shine or are too dark, in patches
    flying: float = 0.0  # share of the pixels at edges that lie between front and back
    baseline_m: float = 0.0  # between its eyes; what only one of them sees is a hole
    cuts: bool = True  # off what is beyond furthest_m; or else it is said to be there, badly


def apply_stereo(
    depth: Array, stereo: Stereo, focal_pixels: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """True depth (H, W) [m] as it is measured, NaN where it is not; inf is nothing at all."""
    inverse = 1.0 / np.maximum(depth.astype(np.float64), 1e-3)
    noise, lost, fly, mix = (rng.random(depth.shape) for _ in range(4))
    patchy = cv2.resize(rng.random((PATCHES, PATCHES)), depth.shape[::-1], interpolation=0)
    furthest_m = max(stereo.furthest_m, 1e-3)
    # Ours: three times as many single holes at the far end as right ahead, as its projector fades.
    gone = lost < stereo.holes * (0.5 + np.minimum(depth, furthest_m) / furthest_m)
    gone |= patchy < stereo.patches
    gone |= _seen_by_one(inverse, focal_pixels * stereo.baseline_m)
    flying = _at_edges(inverse) & (fly < stereo.flying)
    inverse = np.where(flying, _between_neighbours(inverse, mix), inverse)
    # Matching errs in disparity, evenly in inverse depth: so by the square of depth [m]. That the
    # error has bounds, a uniform one, is ours.
    inverse = inverse + stereo.error_per_m * np.sqrt(12.0) * (noise - 0.5)
    if stereo.step_per_m:
        inverse = np.rint(inverse / stereo.step_per_m) * stereo.step_per_m
    far = stereo.cuts & (inverse <= 1.0 / furthest_m)
    seen = 1.0 / np.maximum(inverse, 1e-6)
    gone |= far | (seen < stereo.nearest_m)
    return np.where(gone, np.nan, seen).astype(np.float32)


def _seen_by_one(inverse: Array, pixels_m: float) -> NDArray[np.bool_]:
    """What the right eye does not see, for something nearer to the right of it stands in between.

    Depth is the left eye's picture: a band on the left of whatever is near, as wide as the
    difference of the disparities.
    """
    columns = np.arange(inverse.shape[1])
    in_right = columns - pixels_m * inverse
    leftmost = np.full_like(in_right, np.inf)  # of all that is further right, its pixels' edges
    leftmost[:, :-1] = np.minimum.accumulate(in_right[:, :0:-1], axis=1)[:, ::-1] - 0.5
    return np.asarray(in_right > leftmost)


def _at_edges(inverse: Array) -> NDArray[np.bool_]:
    """Pixels whose right or left neighbour is much nearer or further."""
    step = np.abs(np.diff(inverse, axis=1)) > EDGE_STEP
    edges = np.zeros(inverse.shape, bool)
    edges[:, 1:] |= step
    edges[:, :-1] |= step
    return edges


def _between_neighbours(inverse: Array, share: Array) -> Array:
    """Something between the left and the right neighbour."""
    left, right = np.roll(inverse, 1, axis=1), np.roll(inverse, -1, axis=1)
    left[:, 0], right[:, -1] = inverse[:, 0], inverse[:, -1]
    return np.asarray(left + share * (right - left))
