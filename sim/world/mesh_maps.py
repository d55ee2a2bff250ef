"""Maps of meshes: where a robot can walk on triangles, and whether a mesh fits a given map."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.traversability import PIXEL_M
from pixelgait.sim.world.triangles import split

# A floor is what is within `FLOOR_M` of its height and less steep than 45 degrees; an obstacle is
# what is higher than a robot's step and lower than its back (A1: 0.3 m, and a margin).
FLOOR_M, STEP_M, BACK_M = 0.05, 0.06, 0.55
LEVEL_COSINE, FLAT_COSINE = 0.7, 0.95
HOLES_PIXELS = 9  # holes and cracks of a floor up to this width are closed
SMALLEST_M2 = 1.0  # of an area on the map: smaller ones are insides of furniture
# Floors: bins of heights [m], least area [m2], its least share of the largest one, and headroom.
BIN_M, LEAST_M2, LEAST_SHARE, HEADROOM_M = 0.02, 2.0, 0.2, 1.2
COVERED_SHARE, CEILING_SHARE = 0.5, 0.3
COARSE_M = 0.05  # pixel of comparisons

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a mesh fits a map, each from 0 to 1."""

    floor: float  # share of the white area with a floor and nothing on it
    edge: float  # share of its border with a wall, an obstacle, or the end of the floor

    @property
    def least(self) -> float:
        return min(self.floor, self.edge)


def drawn(corners: Array, half_m: float, pixel_m: float) -> Mask:
    """Pixels (N, N) that triangles (n, 3, 3) touch from above; the world's origin is the middle."""
    size = round(2.0 * half_m / pixel_m)
    image = np.zeros((size, size), np.uint8)
    for axis in (0, 1):  # beyond the map, coordinates may exceed what OpenCV can draw
        corners, _ = split(corners, axis, half_m)
        _, corners = split(corners, axis, -half_m)
    points = (corners[:, :, :2] + half_m) / pixel_m
    is_small = np.ptp(points, axis=1).max(axis=1, initial=0.0) < 1.0
    columns, rows = points[is_small].reshape(-1, 2).astype(int).clip(0, size - 1).T
    image[rows, columns] = 1
    for triangle in np.round(16.0 * (points[~is_small] - 0.5)).astype(np.int32):
        cv2.fillConvexPoly(image, triangle, 1, cv2.LINE_8, 4)  # with its edges
    return image.astype(bool)


def between(corners: Array, low_m: float, high_m: float) -> Array:
    """The part of triangles (n, 3, 3) between two heights."""
    below, _ = split(_near(corners, low_m, high_m), 2, high_m)
    return split(below, 2, low_m)[1]


def _near(corners: Array, low_m: float, high_m: float) -> Array:
    heights = corners[:, :, 2]
    near: Array = corners[(heights.max(axis=1) >= low_m) & (heights.min(axis=1) <= high_m)]
    return near


def _level(corners: Array, cosine: float) -> Array:
    """Triangles whose normals are that upright, whichever side they show."""
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    level: Array = corners[np.abs(normals[:, 2]) >= cosine * np.linalg.norm(normals, axis=1)]
    return level


def _floor(corners: Array, floor_m: float, tolerance_m: float) -> Array:
    """Triangles of a floor, cut at its tolerance; exactly level ones are on neither side of it."""
    near = _near(_level(corners, LEVEL_COSINE), floor_m - tolerance_m, floor_m + tolerance_m)
    return between(near, floor_m - tolerance_m, floor_m + tolerance_m)


def traversable(corners: Array, floor_m: float, half_m: float) -> NDArray[np.uint8]:
    """Map (N, N) of a floor at a height [m] in Gibson's format, 255 where a robot can walk."""
    floor = drawn(_floor(corners, floor_m, FLOOR_M), half_m, PIXEL_M).astype(np.uint8)
    blocked = drawn(between(corners, floor_m + STEP_M, floor_m + BACK_M), half_m, PIXEL_M)
    closed = cv2.morphologyEx(floor, cv2.MORPH_CLOSE, np.ones((HOLES_PIXELS, HOLES_PIXELS)))
    wide = cv2.dilate(blocked.astype(np.uint8), np.ones((3, 3)))
    return _without_specks(np.where((closed > 0) & (wide == 0), 255, 0).astype(np.uint8))


def _without_specks(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(image, connectivity=4)
    is_large = statistics[:, cv2.CC_STAT_AREA] * PIXEL_M**2 >= SMALLEST_M2
    is_large[0] = False  # the background
    return np.where(is_large[labels], 255, 0).astype(np.uint8)


def floor_heights(corners: Array) -> list[float]:
    """Heights [m] of the floors of a building, ascending; none if nothing is level.

    A floor is a large level area with headroom above. All but the lowest have a ceiling, so that
    roofs are none.
    """
    half_m = float(np.abs(corners[:, :, :2]).max())
    floors: dict[float, float] = {}  # heights and areas
    for height, area in _levels(corners):
        ground = drawn(_floor(corners, height, 2 * BIN_M), half_m, 2 * COARSE_M)
        near = _level_between(corners, height + 2 * BIN_M, height + HEADROOM_M)
        high = _level_between(corners, height + HEADROOM_M, np.inf)
        low, ceiling = (drawn(each, half_m, 2 * COARSE_M) for each in (near, high))
        is_free = (ground & ~low).sum() > COVERED_SHARE * ground.sum()
        is_roofed = (ground & ceiling).sum() > CEILING_SHARE * ground.sum()
        if not is_free or not (is_roofed or not floors):
            continue
        last = max(floors, default=-np.inf)
        if height - last < HEADROOM_M and area > floors[last]:
            del floors[last]
        if height - max(floors, default=-np.inf) >= HEADROOM_M:
            floors[height] = area
    return [round(height, 3) + 0.0 for height in floors]


def _level_between(corners: Array, low_m: float, high_m: float) -> Array:
    middle = corners[:, :, 2].mean(axis=1)
    return _level(corners[(middle > low_m) & (middle <= high_m)], LEVEL_COSINE)


def level_area(corners: Array) -> float:
    """Area of the largest level [square of the triangles' unit], within a hundredth of the size."""
    level = _level(corners, FLAT_COSINE)
    if not len(level):
        return 0.0
    heights, size = level[:, :, 2].mean(axis=1), np.ptp(corners, axis=(0, 1)).max()
    bins = np.round((heights - heights.min()) / (size / 100.0)).astype(int)
    return float(np.bincount(bins, plan_areas(level)).max())


def _levels(corners: Array) -> list[tuple[float, float]]:
    """Heights [m] with a large level area, ascending, and their areas [m2]."""
    level = _level(corners, FLAT_COSINE)
    if not len(level):
        return []
    heights, areas = level[:, :, 2].mean(axis=1), plan_areas(level)
    bins = np.round((heights - heights.min()) / BIN_M).astype(int)
    total = np.convolve(np.bincount(bins, areas), np.ones(3), "same")  # with both neighbours
    moment = np.convolve(np.bincount(bins, areas * heights), np.ones(3), "same")
    before, after = np.r_[0.0, total[:-1]], np.r_[total[1:], 0.0]
    is_peak = (total >= max(LEAST_M2, LEAST_SHARE * total.max())) & (total >= before)
    chosen = np.flatnonzero(is_peak & (total > after))
    return list(zip((moment[chosen] / total[chosen]).tolist(), total[chosen].tolist(), strict=True))


def plan_areas(corners: Array) -> Array:
    """Areas (n,) [m2] of triangles as seen from above."""
    a, b = (corners[:, i, :2] - corners[:, 0, :2] for i in (1, 2))
    return np.asarray(np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2.0)


def fit(corners: Array, image: NDArray[np.uint8], floor_m: float) -> Fit:
    """How well triangles (n, 3, 3) fit a map (N, N) of a floor at a height [m]."""
    half_m = len(image) * PIXEL_M / 2.0
    every = round(COARSE_M / PIXEL_M)
    white = image[every // 2 :: every, every // 2 :: every] == 255
    half_m = len(white) * COARSE_M / 2.0
    near = between(corners, floor_m - 0.15, floor_m + 1.0)
    floor = drawn(_floor(near, floor_m, 0.15), half_m, COARSE_M)
    blocked = drawn(between(near, floor_m + 0.15, floor_m + 1.0), half_m, COARSE_M)
    border = _wider(white) & ~white
    explained = _wider(blocked | ~floor)
    return Fit(_share(_wider(floor & ~blocked), white), _share(explained, border))


def _wider(mask: Mask) -> Mask:
    return cv2.dilate(mask.astype(np.uint8), np.ones((3, 3))).astype(bool)


def _share(mask: Mask, of: Mask) -> float:
    return float(mask[of].mean()) if of.any() else 1.0
