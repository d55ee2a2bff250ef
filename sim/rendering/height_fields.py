"""Height fields as they are seen: where a ray meets one, and which way it faces there."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.rendering.geometry import Floats
from pixelgait.sim.world.scene import HeightField

STEPS, HALVINGS = 20, 5  # along a ray between the field's lowest and highest point


class FieldSurface:
    """A height field in its own frame, the middle of its bounds being the origin."""

    def __init__(self, field: HeightField) -> None:
        heights = field.heights_m.astype(np.float32)
        self._shape = heights.shape
        self._heights = (heights - (heights.min() + heights.max()) / 2.0).ravel()
        self._cell_m = field.cell_m
        slopes = np.gradient(heights, field.cell_m)
        normals = np.stack((-slopes[0], -slopes[1], np.ones_like(heights))).reshape(3, -1)
        self._normals = normals / np.linalg.norm(normals, axis=0)

    def meet(self, eye: Floats, rays: Floats, enters: Floats, leaves: Floats) -> Floats:
        """How far along rays (3, n) from an eye (3,) it is, between two distances (n,); or inf."""
        found = np.full(rays.shape[1], np.inf, np.float32)
        which = np.flatnonzero(enters < leaves)
        start, end, along = enters[which], leaves[which], rays[:, which]
        steps = np.linspace(0.0, 1.0, STEPS, dtype=np.float32)[:, None]
        distances = start + (end - start) * steps
        below = self._above(eye, along, distances) <= 0.0
        columns = np.flatnonzero(below.any(axis=0))
        at = below[:, columns].argmax(axis=0)
        low, high = distances[np.maximum(at - 1, 0), columns], distances[at, columns]
        for _ in range(HALVINGS):
            middle = np.float32(0.5) * (low + high)
            under = self._above(eye, along[:, columns], middle) <= 0.0
            low, high = np.where(under, low, middle), np.where(under, middle, high)
        found[which[columns]] = high
        return found

    def normals(self, local: Floats) -> Floats:
        """Which way it faces at points (3, n)."""
        rows, columns = self._shape
        row = np.clip(np.rint(local[0] / self._cell_m + (rows - 1) / 2), 0, rows - 1)
        column = np.clip(np.rint(local[1] / self._cell_m + (columns - 1) / 2), 0, columns - 1)
        return np.asarray(self._normals[:, (row * columns + column).astype(np.intp)])

    def _above(self, eye: Floats, along: Floats, distances: Floats) -> Floats:
        """How high points at distances (..., n) on rays (3, n) are above it."""
        rows, columns = self._shape
        x = (eye[0] + distances * along[0]) / self._cell_m + (rows - 1) / 2
        y = (eye[1] + distances * along[1]) / self._cell_m + (columns - 1) / 2
        row = np.clip(x.astype(np.int32), 0, rows - 2)
        column = np.clip(y.astype(np.int32), 0, columns - 2)
        u, v = x - row, y - column
        at = row * columns + column
        heights = self._heights
        near, far = heights[at], heights[at + columns]
        near = near + v * (heights[at + 1] - near)
        far = far + v * (heights[at + columns + 1] - far)
        return np.asarray(eye[2] + distances * along[2] - near - u * (far - near), np.float32)
