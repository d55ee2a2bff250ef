"""Depth errors of a stereo camera: noise, quantisation, occlusion, holes and flying pixels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

# Assumptions. Neighbours whose inverse depths [1/m] differ by more have an edge between them:
# 0.11 m beyond 1 m, 1.3 m beyond 3 m.
EDGE_STEP = 0.1
PATCHES = 8  # side of the grid on which shiny and dark patches are drawn


@dataclass(frozen=True, slots=True)
class Stereo:
    """A stereo camera, ideal by default."""

    error_per_m: float = 0.0  # standard deviation of depth over its square [1/m]
    step_per_m: float = 0.0  # quantisation of inverse depth [1/m]
    nearest_m: float = 0.0
    furthest_m: float = 100.0  # farther than anything
    holes: float = 0.0  # share of the pixels without a match; more of them far away
    patches: float = 0.0  # share of the picture that is too shiny or dark
    flying: float = 0.0  # share of the pixels at edges that lie between front and back
    baseline_m: float = 0.0  # between its imagers; points visible to one of them alone are holes
    cuts: bool = True  # whether depth beyond furthest_m is not measured


def apply_stereo(
    depth: Array, stereo: Stereo, focal_pixels: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Measured depth (H, W) [m] of a true one, NaN where there is none; inf is an empty pixel."""
    inverse = 1.0 / np.maximum(depth.astype(np.float64), 1e-3)
    noise, lost, fly, mix = (rng.random(depth.shape) for _ in range(4))
    patchy = cv2.resize(rng.random((PATCHES, PATCHES)), depth.shape[::-1], interpolation=0)
    furthest_m = max(stereo.furthest_m, 1e-3)
    # Assumption: three times as many single holes at the far end as nearby: the projector fades.
    gone = lost < stereo.holes * (0.5 + np.minimum(depth, furthest_m) / furthest_m)
    gone |= patchy < stereo.patches
    gone |= _occluded(inverse, focal_pixels * stereo.baseline_m)
    flying = _at_edges(inverse) & (fly < stereo.flying)
    inverse = np.where(flying, _between_neighbours(inverse, mix), inverse)
    # Errors of disparity are uniform in inverse depth, so depth errs by its square [m]. Assumption:
    # a uniform distribution.
    inverse = inverse + stereo.error_per_m * np.sqrt(12.0) * (noise - 0.5)
    if stereo.step_per_m:
        inverse = np.rint(inverse / stereo.step_per_m) * stereo.step_per_m
    far = stereo.cuts & (inverse <= 1.0 / furthest_m)
    seen = 1.0 / np.maximum(inverse, 1e-6)
    gone |= far | (seen < stereo.nearest_m)
    return np.where(gone, np.nan, seen).astype(np.float32)


def _occluded(inverse: Array, pixels_m: float) -> NDArray[np.bool_]:
    """Pixels of the left imager that are occluded for the right one by something nearer.

    They are bands on the left of near surfaces, as wide as the difference of the disparities.
    """
    columns = np.arange(inverse.shape[1])
    in_right = columns - pixels_m * inverse
    leftmost = np.full_like(in_right, np.inf)  # edge of all pixels further right
    leftmost[:, :-1] = np.minimum.accumulate(in_right[:, :0:-1], axis=1)[:, ::-1] - 0.5
    return np.asarray(in_right > leftmost)


def _at_edges(inverse: Array) -> NDArray[np.bool_]:
    """Pixels with a right or left neighbour that is much nearer or further."""
    step = np.abs(np.diff(inverse, axis=1)) > EDGE_STEP
    edges = np.zeros(inverse.shape, bool)
    edges[:, 1:] |= step
    edges[:, :-1] |= step
    return edges


def _between_neighbours(inverse: Array, share: Array) -> Array:
    """Inverse depth between the left and the right neighbour, at a share (H, W)."""
    left, right = np.roll(inverse, 1, axis=1), np.roll(inverse, -1, axis=1)
    left[:, 0], right[:, -1] = inverse[:, 0], inverse[:, -1]
    return np.asarray(left + share * (right - left))
