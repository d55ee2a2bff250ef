"""Ray casting at boxes, planes and height fields: images without a simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.rendering.geometry import SKY, Floats, Geometry, Hits, View, slabs, within
from pixelgait.sim.world.scene import HeightField

STEPS, HALVINGS = 20, 5  # along a ray between a height field's lowest and highest point
AT_ONCE = 16  # boxes, so that their arrays stay in the processor's cache


def cast(geometry: Geometry, fields: Mapping[int, FieldSurface], view: View) -> Hits:
    """The first shape of a scene without meshes that each ray of a view hits."""
    middle = geometry.middle - view.eye
    near = geometry.solid
    if len(near) > AT_ONCE or fields:
        near = within(view, middle, geometry.radius)
    axes, half = geometry.axes, geometry.half
    nearest = view.far_m / view.ahead
    shapes = np.full(len(nearest), SKY, dtype=np.intp)
    for some in portions((near & geometry.solid).nonzero()[0]):
        enters, leaves = slabs(axes[some], middle[some], half[some], view.rays)
        for box, enter, leave in zip(some.tolist(), enters, leaves, strict=True):
            _keep(nearest, shapes, enter, leave, box)
    for i, field in fields.items():
        if near[i]:
            enters, leaves = slabs(axes[[i]], middle[[i]], half[[i]], view.rays)
            local = axes[i] @ -middle[i], axes[i] @ view.rays
            ends = np.minimum(leaves[0], nearest)
            distance = field.meet(*local, np.maximum(enters[0], 0.0), ends)
            _keep(nearest, shapes, distance, np.full_like(distance, np.inf), i)
    return Hits(shapes, nearest)


def portions(boxes: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Indices of boxes, `AT_ONCE` at a time."""
    return (boxes[i : i + AT_ONCE] for i in range(0, len(boxes), AT_ONCE))


def _keep(
    nearest: Floats, shapes: NDArray[np.intp], enters: Floats, leaves: Floats, which: int
) -> None:
    """Replace the nearest hits where rays enter another shape earlier."""
    closer = enters < nearest
    closer &= enters < leaves
    closer &= enters > 0.0
    np.copyto(nearest, enters, where=closer)
    np.copyto(shapes, which, where=closer)


class FieldSurface:
    """A height field in its own frame, with the middle of its bounds as the origin."""

    def __init__(self, field: HeightField) -> None:
        heights = field.heights_m.astype(np.float32)
        self._shape = heights.shape
        self._heights = (heights - (heights.min() + heights.max()) / 2.0).ravel()
        self._cell_m = field.cell_m
        slopes = np.gradient(heights, field.cell_m)
        normals = np.stack((-slopes[0], -slopes[1], np.ones_like(heights))).reshape(3, -1)
        self._normals = normals / np.linalg.norm(normals, axis=0)

    def meet(self, eye: Floats, rays: Floats, enters: Floats, leaves: Floats) -> Floats:
        """Distances (n,) along rays (3, n) from an eye (3,) to the first hit in a range, or inf."""
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
        """Unit normals (3, n) at points (3, n)."""
        rows, columns = self._shape
        row = np.clip(np.rint(local[0] / self._cell_m + (rows - 1) / 2), 0, rows - 1)
        column = np.clip(np.rint(local[1] / self._cell_m + (columns - 1) / 2), 0, columns - 1)
        return np.asarray(self._normals[:, (row * columns + column).astype(np.intp)])

    def _above(self, eye: Floats, along: Floats, distances: Floats) -> Floats:
        """Heights [m] above the field of points at distances (..., n) on rays (3, n)."""
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
