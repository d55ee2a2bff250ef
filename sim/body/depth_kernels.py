"""Errors of a stereo camera's depth in machine code; see `sensors.apply_stereo`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_SAMPLES, LENS_M, THIN_PER_M, THIN_SAMPLES
from pixelgait.robot.spec import Array
from pixelgait.sim.world.compiled import compiled

Floats = NDArray[np.float32]
ONE = np.float32(1.0)


@compiled
def measure(
    depth: Array,
    draws: Array,
    patchy: Array,
    holes: float,
    patches: float,
    baseline_pixels_m: float,
    edge_per_m: float,
    flying: float,
    error_per_m: float,
    step_per_m: float,
    nearest_m: float,
    range_m: float,
    cuts: bool,
    measured: Floats,
) -> None:
    """Measured depth of a true one.

    Args:
        depth: (H, W) true depth [m].
        draws: (4, H, W) uniform numbers: noise, loss, flying, share between neighbours.
        patchy: (n, n) uniform numbers on a coarse grid.
        holes: probability of a single hole.
        patches: probability of a hole on the coarse grid.
        baseline_pixels_m: focal length [pixels] times the distance of the imagers [m].
        edge_per_m: least step of inverse depth at an edge [1/m].
        flying: share of the pixels at edges that lie between near and far.
        error_per_m: standard deviation of inverse depth [1/m].
        step_per_m: resolution of inverse depth [1/m]; 0: none.
        nearest_m: least depth.
        range_m: greatest depth.
        cuts: whether depth beyond the range is not measured.
        measured: (H, W) written: depth [m], NaN where there is none.
    """
    height, width = depth.shape
    n = len(patchy)
    inverse, edge = np.empty(width), np.empty(width, np.bool_)
    for row in range(height):
        for i in range(width):
            inverse[i] = 1.0 / max(depth[row, i], 1e-3)
            edge[i] = False
        for i in range(width - 1):
            if abs(inverse[i + 1] - inverse[i]) > edge_per_m:
                edge[i] = edge[i + 1] = True
        leftmost = math.inf  # edge of all pixels further right, in the right imager
        patch = row * n // height
        for i in range(width - 1, -1, -1):
            in_right = i - baseline_pixels_m * inverse[i]
            # Assumption: three times as many at the far end as nearby: the projector fades.
            far_share = 0.5 + min(depth[row, i], range_m) / range_m
            gone = draws[1, row, i] < holes * far_share
            gone |= patchy[patch, i * n // width] < patches
            gone |= in_right > leftmost
            leftmost = min(leftmost, in_right - 0.5)
            value = inverse[i]
            if edge[i] and draws[2, row, i] < flying:
                left, right = inverse[max(i - 1, 0)], inverse[min(i + 1, width - 1)]
                value = left + draws[3, row, i] * (right - left)
            # Errors of disparity are uniform in inverse depth, so depth errs by its square.
            # Assumption: a uniform distribution.
            value += error_per_m * math.sqrt(12.0) * (draws[0, row, i] - 0.5)
            if step_per_m != 0.0:
                value = np.rint(value / step_per_m) * step_per_m
            seen = 1.0 / max(value, 1e-6)
            gone |= (cuts and value <= 1.0 / range_m) or seen < nearest_m
            measured[row, i] = np.nan if gone else seen


@compiled
def fill(depth: Floats) -> None:
    """Fill holes in place as `observation.fill_holes` does, (H, W) [m]."""
    height, width = depth.shape
    hole = np.isnan(depth)
    nothing = np.float32(np.nan)
    right = np.full((height, width), nothing, np.float32)
    below = np.full((height, width), nothing, np.float32)
    for row in range(height - 1, -1, -1):
        last = nothing
        for i in range(width - 1, -1, -1):
            right[row, i] = last
            if row + 1 < height:
                below[row, i] = below[row + 1, i] if hole[row + 1, i] else depth[row + 1, i]
            last = last if hole[row, i] else depth[row, i]
    above = np.full(width, nothing, np.float32)
    for row in range(height):
        left = nothing
        for i in range(width):
            if not hole[row, i]:
                left = above[i] = depth[row, i]
                continue
            beside = _greater(left, right[row, i])
            leads_on = math.isnan(beside) or below[row, i] > beside
            if math.isnan(above[i]) and leads_on:
                depth[row, i] = np.inf
            else:
                depth[row, i] = _greater(beside, _greater(above[i], below[row, i]))


@compiled
def _greater(a: np.float32, b: np.float32) -> np.float32:
    """The greater number, or the one that is not NaN."""
    if math.isnan(a):
        return b
    return a if math.isnan(b) or a > b else b


@compiled
def nearest(rays: Floats, depth: Floats) -> None:
    """The median of each 3 x 3 rays (3 H, 3 W) [m], or a thin thing in front of it, into (H, W).

    The same arithmetic as of a robot's images, see `robot/runtime/camera_images.py`.
    """
    per_m, lens = np.float32(THIN_PER_M), np.float32(LENS_M)
    ranked = np.empty(DEPTH_SAMPLES * DEPTH_SAMPLES, np.float32)
    middle = (len(ranked) - 1) // 2
    for row in range(depth.shape[0]):
        for column in range(depth.shape[1]):
            count = 0
            for i in range(DEPTH_SAMPLES * row, DEPTH_SAMPLES * (row + 1)):
                for j in range(DEPTH_SAMPLES * column, DEPTH_SAMPLES * (column + 1)):
                    at = count
                    while at > 0 and ranked[at - 1] > rays[i, j]:
                        ranked[at] = ranked[at - 1]
                        at -= 1
                    ranked[at] = rays[i, j]
                    count += 1
            thing = ranked[THIN_SAMPLES - 1]
            first, this = ONE / max(ranked[0], lens), ONE / max(thing, lens)
            agree = this - ONE / max(ranked[middle], lens) > per_m and first - this < per_m
            depth[row, column] = thing if agree else ranked[middle]
