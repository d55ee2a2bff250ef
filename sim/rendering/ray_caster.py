"""Rays of a camera against boxes, planes and height fields: images without a simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.rendering.geometry import SKY, Floats, Geometry, Hits, View, slabs, within
from pixelgait.sim.rendering.height_fields import FieldSurface

AT_ONCE = 16  # boxes: what they need stays in the processor's cache


def cast(geometry: Geometry, fields: Mapping[int, FieldSurface], view: View) -> Hits:
    """What the rays meet of a scene without a mesh; nothing further ahead than the view goes."""
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
    """All of them, some at once."""
    return (boxes[i : i + AT_ONCE] for i in range(0, len(boxes), AT_ONCE))


def _keep(
    nearest: Floats, shapes: NDArray[np.intp], enters: Floats, leaves: Floats, which: int
) -> None:
    """Where rays enter something before what they have met so far, they meet it instead."""
    closer = enters < nearest
    closer &= enters < leaves
    closer &= enters > 0.0
    np.copyto(nearest, enters, where=closer)
    np.copyto(shapes, which, where=closer)
