"""Elevation map around the robot: what its depth camera has seen, kept by odometry.

Cells lie in a ring buffer along the axes of the odometry's frame, see `ring`. `Surroundings` are
read in the heading frame.

A cell is 5 cm: a foot is 4 cm wide, and at 1.8 m the rows of a picture of 240 are 5 cm apart on the
ground. Smaller cells would have gaps there, larger ones blur a kerb's edge.

* **Ground**: the lower quartile of a cell's heights, or their median where they agree, filtered by
  a variance that grows with the distance. A frame as a whole is first put on the ground that is
  known: the base's height drifts more than its place.
* **Top**: the highest thing that the body would hit. It is believed when seen twice, and cleared
  when the camera sees through it.
* **Camera's tilt**: what its mount and the IMU are off by together, from the plane of near ground.
* **Feet**: what the ground under them is off by is taken off all that is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.mapping.depth_view import DepthView, Floats, unmixed
from pixelgait.robot.mapping.ring import (
    BITS,
    MASK,
    SIDE,
    Corner,
    around,
    cells_at,
    clear,
    corner_at,
)
from pixelgait.robot.rotation import Vector
from pixelgait.robot.spec import Array

CELL_M = 0.05
# Extent of `Surroundings`: at any heading it fits into a ring of 6.4 m.
AHEAD_M, BEHIND_M, ASIDE_M = 2.2, 1.0, 1.6
ROWS, COLUMNS = round((AHEAD_M + BEHIND_M) / CELL_M), round(2.0 * ASIDE_M / CELL_M)
# Assumptions, measured on simulated robots: docs/robot/map.md.
NEAREST_M, FARTHEST_M = 0.12, 3.0  # of depth that is used
CEILING_M, PIT_M = 0.55, 0.6  # above and below the feet: higher than a robot's back is no obstacle
KEPT_S = 30.0
FLAT_M = 0.04  # heights in a cell that agree so well are one surface
ANOTHER_M = 0.06  # heights that differ by more are another surface
SIGMA_M, SIGMA_PER_M = 0.004, 0.006  # of a height at a distance r: SIGMA_M + SIGMA_PER_M r^2
NOISES = np.float32(2.0)  # standard deviations that are noise
LEAST_GAIN = 0.15
LEVEL_RAD, LEAST_TILT_GAIN = 0.1, 0.003  # of the camera's tilt
CODE_PER_M, CODE_BITS = 2000.0, 12  # heights while sorting: 0.5 mm
STEP_M = 0.07  # more above the lowest ground within `STEP_CELLS` is an obstacle; kerbs of 5 cm pass
STEP_CELLS = 2


class Surroundings(NamedTuple):
    """The map in the heading frame, (ROWS, COLUMNS) float32: first row ahead, first column left.

    Heights are above the ground under the feet [m]; NaN: unseen.
    """

    time_s: float
    ground: Floats
    top: Floats
    age_s: Floats  # since a cell was seen
    nearest: Floats  # distance that it was seen from [m]
    place: tuple[float, float, float]  # of the base: x, y [m], heading [rad] in odometry's frame

    def obstacles(self) -> NDArray[np.bool_]:
        """Cells with something that rises by more than `STEP_M`, and the noise, above ground
        beside it.
        """
        size = 2 * STEP_CELLS + 1
        known = np.where(np.isnan(self.ground), np.float32(9.0), self.ground)
        lowest = cv2.erode(known, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
        least = np.float32(STEP_M) + NOISES * _sigma_m(self.nearest)
        return np.asarray(self.top - lowest > least)


class LocalMap:
    """The map. `step` moves it with the robot, `add` fuses a depth image."""

    def __init__(self) -> None:
        self._layers = np.empty((5, SIDE * SIDE), np.float32)
        self.ground, self.top, self.seen_s, self._nearest, self._candidate = self._layers
        self._steps, self._middles = np.ones((3, 3), np.uint8), _heading_cells()
        self.forget()

    def forget(self) -> None:
        """Start anew: nothing is seen."""
        self._layers[:] = np.nan
        self._corner: Corner | None = None
        self._shift_m = 0.0  # from the given heights to the map's, by the ground in frames
        self._sole_m = 0.0  # how much higher the soles are than the map's ground under them
        self._below_m = 0.0  # height of the base above its two lowest soles
        self.tilt_rad, self._tilts = np.zeros(2), 0  # of the camera: roll, pitch; images for it
        self._began_s: float | None = None  # `seen_s` counts from here: float32 keeps 10 us
        self._filled: Floats | None = None  # (SIDE, SIDE) of `height_scan`

    @property
    def begun(self) -> bool:
        """Whether the ground is known anywhere."""
        return self._corner is not None

    def step(self, time_s: float, position: Vector, soles: Sequence[Vector]) -> None:
        """The base is at this position [m]; its lowest soles are there, relative to it [m].

        All along the axes of the odometry's frame.
        """
        if self._began_s is None:
            self._began_s = time_s
        x, y, z = position
        self._scroll(x, y)
        self._below_m = -sum(sole[2] for sole in soles) / len(soles)
        for dx, dy, dz in soles:
            cell = self._cell(x + dx, y + dy)
            sole_m, ground_m = z + dz + self._shift_m, float(self.ground[cell])
            if math.isnan(ground_m):
                self.ground[cell] = self.top[cell] = sole_m
                self.seen_s[cell], self._nearest[cell] = time_s - self._began_s, 0.0
            elif abs(sole_m - ground_m) < 2.0 * FLAT_M:
                self._sole_m += 0.02 * (sole_m - ground_m - self._sole_m)  # 0.5 s

    def _cell(self, x: float, y: float) -> int:
        return (math.floor(x / CELL_M) & MASK) << BITS | (math.floor(y / CELL_M) & MASK)

    def _scroll(self, x: float, y: float) -> None:
        """Forget what is out of reach of a robot at (x, y) [m]."""
        corner = corner_at(x, y, CELL_M)
        if corner == self._corner:
            return
        clear(self._layers.reshape(-1, SIDE, SIDE), self._corner or corner, corner, np.nan)
        self._corner, self._filled = corner, None

    def add(
        self, time_s: float, depth: Floats, view: DepthView, position: Vector, rotation: Array
    ) -> bool:
        """Fuse the used depth (h, w) [m] of a view, taken at a pose of the base; NaN is a hole.

        Returns whether it shows anything that the map has a place for.
        """
        if self._corner is None or self._began_s is None:
            return False
        time_s -= self._began_s
        roll, pitch = self.tilt_rad.tolist()
        rotation = rotation @ np.array(((1, 0, pitch), (0, 1, -roll), (-pitch, roll, 1)))
        axes = rotation.astype(np.float32)
        x, y, z = position
        eye = np.array((x, y, z + self._shift_m)) + axes @ view.position
        found = self._cells(unmixed(depth), view, axes, eye, z + self._shift_m - self._below_m)
        if found is None:
            return False
        cell, low, middle, top = found
        ahead, left = self._from(eye, cell)
        distance = np.sqrt(ahead * ahead + left * left)
        flat = top - low < np.float32(FLAT_M) + NOISES * _sigma_m(distance)
        low, top = np.where(flat, middle, low), np.where(flat, middle, top)
        known = self.seen_s[cell] > time_s - KEPT_S  # false for what was not seen
        old, old_top = self.ground[cell], self.top[cell]
        same = known & flat & (old_top - old < FLAT_M) & (distance < 2.0)
        if np.count_nonzero(same) > 15:
            off_m = 0.7 * float(np.clip(np.median(old[same] - low[same]), -0.03, 0.03))
            low, top = low + np.float32(off_m), top + np.float32(off_m)
            self._shift_m += off_m
        self._find_tilt(flat & (distance < 1.8), ahead, left, low, rotation, z)
        self._fuse(cell, low, top, flat, distance, known, time_s)
        self._clear(depth, view, axes, eye)
        self._filled = None
        return True

    def _cells(
        self, depth: Floats, view: DepthView, axes: Floats, eye: Array, feet_m: float
    ) -> tuple[NDArray[np.int32], Floats, Floats, Floats] | None:
        """Cells in the image, and the lower quartile, median and highest of their heights [m]."""
        assert self._corner is not None
        flat = depth.ravel()
        used = (flat > NEAREST_M) & (flat < FARTHEST_M)
        points = axes @ view.rays
        points *= np.where(used, flat, np.float32(0.0))
        base_m = feet_m - PIT_M
        height = points[2] + np.float32(eye[2] - base_m)
        used &= (height > 0.0) & (height < np.float32(PIT_M + CEILING_M))
        code = (height * np.float32(CODE_PER_M)).astype(np.int32)
        # Cells from the corner, and a map's width: positive, and in the map if its bit is set.
        to_x, to_y = (eye[:2] / CELL_M - self._corner + SIDE).tolist()
        i = (points[0] * np.float32(1.0 / CELL_M) + np.float32(to_x)).astype(np.int32)
        j = (points[1] * np.float32(1.0 / CELL_M) + np.float32(to_y)).astype(np.int32)
        used &= (i & j & SIDE) != 0
        i += self._corner[0] & MASK
        j += self._corner[1] & MASK
        key = (((i & MASK) << BITS | (j & MASK)) << CODE_BITS | code)[used]
        if key.size < 20:  # no ground: nothing to be put on
            return None
        key.sort()  # one sort ranks the heights of every cell
        cell = key >> CODE_BITS
        begins = np.flatnonzero(cell[1:] != cell[:-1])
        first, last = np.append(0, begins + 1), np.append(begins, cell.size - 1)
        count = last - first + 1
        ranks = first + (count - 1) // 4, (first + last) // 2, last - (count >= 4)  # one may be off
        heights = [
            (key[rank] & ((1 << CODE_BITS) - 1)) * np.float32(1.0 / CODE_PER_M) + np.float32(base_m)
            for rank in ranks
        ]
        return cell[first], heights[0], heights[1], heights[2]

    def _from(self, eye: Array, cell: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Middles of cells from a place [m], along the axes of the odometry's frame."""
        assert self._corner is not None
        found = []
        for corner, index, at in zip(
            self._corner, (cell >> BITS, cell & MASK), eye.tolist(), strict=False
        ):
            steps = (index - corner) & MASK
            found.append(steps * np.float32(CELL_M) + np.float32((corner + 0.5) * CELL_M - at))
        return found[0], found[1]

    def _fuse(
        self,
        cell: NDArray[np.int32],
        low: Floats,
        top: Floats,
        flat: NDArray[np.bool_],
        distance: Floats,
        known: NDArray[np.bool_],
        time_s: float,
    ) -> None:
        """Update cells with a frame's ground and top [m], seen from a distance [m]."""
        old, old_top = self.ground[cell], self.top[cell]
        nearest = np.where(known, self._nearest[cell], np.float32(9.0))
        sigma = _sigma_m(distance)
        ratio = sigma / _sigma_m(nearest)
        another = np.float32(ANOTHER_M) + NOISES * sigma
        gain = np.maximum(1.0 / (1.0 + ratio * ratio), np.float32(LEAST_GAIN))
        # Another surface: a lower one is believed, a higher one is the top.
        change = low - old
        gain = np.where(change < -another, np.float32(0.7), gain)
        gain = np.where(change > another, np.float32(0.0), gain)
        ground = np.where(known, old + gain * change, low)
        before = np.where(known, old_top, low)
        rises = top > before + another
        again = np.abs(self._candidate[cell] - top) < 0.1
        self._candidate[cell] = np.where(rises, top, np.float32(np.nan))
        # The highest of several is believed sooner than one that agrees with the others.
        up = np.where(flat, gain, np.maximum(gain, np.float32(0.6))) * (top - before)
        level = np.where(before - ground < another, gain * (top - before), np.float32(0.0))
        new_top = before + np.where(top > before, up, level)
        new_top = np.where(rises, np.where(again, top, before), new_top)
        new_top = np.where(known | rises, new_top, top)
        self.ground[cell] = ground
        self.top[cell] = np.maximum(new_top, ground)
        self._nearest[cell] = np.minimum(nearest, distance)
        self.seen_s[cell] = time_s

    def _clear(self, depth: Floats, view: DepthView, axes: Floats, eye: Array) -> None:
        """Tops that the camera sees through are gone."""
        cell = np.flatnonzero(self.top - self.ground > 0.05)
        if not cell.size:
            return
        x, y = self._from(eye, cell.astype(np.int32))
        seen = (axes @ view.axes).T @ np.stack((x, y, self.top[cell] - np.float32(eye[2] + 0.02)))
        away = np.maximum(seen[0], np.float32(0.2))
        lens, (rows, columns) = view.lens, depth.shape
        u = (seen[1] / away * np.float32(lens.fx) + np.float32(lens.cx + 0.5)).astype(np.int32)
        v = (seen[2] / away * np.float32(lens.fy) + np.float32(lens.cy + 0.5)).astype(np.int32)
        inside = (seen[0] > 0.2) & (away < 2.5) & (u >= 1) & (v >= 1)
        inside &= (u < columns - 1) & (v < rows - 1)
        cell, u, v, away = cell[inside], u[inside], v[inside], away[inside]
        # The nearest of 3 x 3, holes being nearest: nothing is seen through a bar one pixel thick.
        nearest = cv2.erode(np.where(np.isnan(depth), np.float32(0.0), depth), self._steps)
        gone = cell[nearest[v, u] > np.float32(0.12) + np.float32(1.05) * away]
        self.top[gone] = self.ground[gone]

    def _find_tilt(
        self,
        used: NDArray[np.bool_],
        x: Floats,
        y: Floats,
        low: Floats,
        rotation: Array,
        base_m: float,
    ) -> None:
        """Near ground, which is level on average, says what the camera is off by.

        The mean of all images at first, later that of tens of seconds: ramps come and go.
        """
        if np.abs(rotation[2, :2]).max() > LEVEL_RAD:  # the robot is on a ramp
            return
        height = low - np.float32(base_m + self._shift_m - self._below_m)
        cos, sin = rotation[:2, 0] / math.hypot(*rotation[:2, 0])
        ahead, left = cos * x + sin * y, cos * y - sin * x
        used = used & (ahead > 0.1) & (np.abs(height) < 0.04 + 0.1 * np.abs(ahead))
        if np.count_nonzero(used) < 40:
            return
        ahead, left, height = ahead[used], left[used], height[used]
        columns = np.stack((np.ones_like(ahead), ahead, left))
        plane = np.linalg.solve(columns @ columns.T + 1e-6 * np.eye(3), columns @ height)
        if np.abs(plane @ columns - height).mean() < 0.015:  # else a step or a heap
            off = np.clip((-plane[2], plane[1]), -0.1, 0.1)
            self._tilts += 1
            gain = max(LEAST_TILT_GAIN, 1.0 / (3.0 + self._tilts))
            self.tilt_rad = np.clip(self.tilt_rad + gain * off, -0.12, 0.12)

    def surroundings(self, time_s: float, position: Vector, heading_rad: float) -> Surroundings:
        """The map around a base at this position [m] and heading."""
        x, y, z = position
        cell = cells_at(*around(self._middles, x, y, heading_rad), CELL_M)
        age_s = np.float32(time_s - (self._began_s or 0.0)) - self.seen_s[cell]
        age_s[age_s > KEPT_S] = np.nan
        gone = np.isnan(age_s)
        feet_m = np.float32(z + self._shift_m - self._below_m - self._sole_m)
        ground, top = self.ground[cell] - feet_m, self.top[cell] - feet_m
        ground[gone] = top[gone] = np.nan
        place = x, y, heading_rad
        return Surroundings(time_s, ground, top, age_s, self._nearest[cell], place)

    def height_scan(self, position: Vector, heading_rad: float, points: Array) -> Floats:
        """How far the ground is below the base (n,) [m], at points (n, 2) in the heading frame.

        Unseen ground is filled from around it.
        """
        x, y, z = position
        cos, sin = math.cos(heading_rad), math.sin(heading_rad)
        places = np.array((x, y)) + points @ np.array(((cos, sin), (-sin, cos)))
        i, j = np.floor(places / CELL_M).astype(np.int32).T & MASK
        base_m = np.float32(z + self._shift_m - self._sole_m)
        return np.asarray(base_m - self._filled_ground()[i, j])

    def _filled_ground(self) -> Floats:
        """Ground (SIDE, SIDE), in the ring's order, with unseen cells as the mean around them."""
        if self._filled is not None:
            return self._filled
        assert self._corner is not None
        first, second = (corner & MASK for corner in self._corner)
        grid = np.roll(self.ground.reshape(SIDE, SIDE), (-first, -second), (0, 1))
        known = (~np.isnan(grid)).astype(np.float32)
        heights = np.nan_to_num(grid, nan=0.0)
        for cells in (5, 15, 45, 2 * SIDE + 1):
            if not np.isnan(grid).any():
                break
            size = cells, cells
            share = cv2.blur(known, size, borderType=cv2.BORDER_CONSTANT)
            mean = cv2.blur(heights, size, borderType=cv2.BORDER_CONSTANT)
            missing = np.isnan(grid) & (share > 1e-6)
            grid[missing] = mean[missing] / share[missing]
        self._filled = np.roll(grid, (first, second), (0, 1))
        return self._filled


def _sigma_m(distance: Floats) -> Floats:
    """Standard deviation of heights at a distance (n,) [m]."""
    return np.float32(SIGMA_M) + np.float32(SIGMA_PER_M) * distance * distance


def _heading_cells() -> Floats:
    """Middles of the cells of `Surroundings` (2, ROWS, COLUMNS): ahead and left of the base [m]."""
    ahead = AHEAD_M - (np.arange(ROWS, dtype=np.float32) + np.float32(0.5)) * np.float32(CELL_M)
    left = ASIDE_M - (np.arange(COLUMNS, dtype=np.float32) + np.float32(0.5)) * np.float32(CELL_M)
    return np.stack(np.meshgrid(ahead, left, indexing="ij"))
