"""Geometry of a scene as arrays: poses and bounds of its shapes, and pinhole views of them.

Arrays of points and directions are (3, n) float32: three long rows are fast to compute with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.world.scene import (
    AWAY,
    Box,
    HeightField,
    Layout,
    Mesh,
    Plane,
    Pose,
    Scene,
    Shape,
)

Floats = NDArray[np.float32]
SKY, FOREIGN = -1, -2  # no shape; a shape that is not of the scene, such as a robot's leg
PADDING_M = 0.01  # above and below a height field, so that rays end within its bounds
PLANE = ((0.0, 0.0, -0.5), (1000.0, 1000.0, 0.5))  # a plane as a box: middle and halves [m]


class View(NamedTuple):
    """A pinhole camera in the world with n pixels and a range of `far_m` ahead."""

    eye: Floats  # (3,) [m]
    forward: Floats  # (3,)
    rays: Floats  # (3, n) unit vectors
    ahead: Floats  # (n,) their components along `forward`
    pixel_rad: float  # width of a pixel
    far_m: float


class Hits(NamedTuple):
    """The shape in each of the n pixels of an image."""

    shapes: NDArray[np.intp]  # (n,) of the scene, fixed ones first, or SKY or FOREIGN
    distances: Floats  # (n,) [m] from the eye; undefined in the sky


class Geometry:
    """Bounding boxes of K shapes: of boxes, planes and height fields; meshes have none."""

    def __init__(self, scene: Scene) -> None:
        self.shapes: Sequence[Shape] = (*scene.fixed, *scene.movable)
        self.first_movable = len(scene.fixed)
        count = len(self.shapes)
        self.half = np.zeros((count, 3), np.float32)
        self.middle = np.zeros((count, 3), np.float32)  # of the box
        self.axes = np.tile(np.eye(3, dtype=np.float32), (count, 1, 1))  # rows: x, y, z of a box
        self.away = np.zeros(count, bool)  # shapes that a mixture does not use
        self._lift = np.zeros(count)  # of the box's middle above the shape's origin
        for i, shape in enumerate(self.shapes):
            self._add(i, shape)
        seen = np.array([not isinstance(s, Box) or s.visible for s in self.shapes], bool)
        self.solid = seen & [isinstance(s, Box | Plane) for s in self.shapes]
        self.radius = np.linalg.norm(self.half, axis=1)
        self.has_mesh = any(isinstance(shape, Mesh) for shape in self.shapes)

    def lay_out(self, layout: Layout) -> None:
        """Put the movable shapes at their poses in an episode."""
        for i, pose in enumerate(layout.movable):
            self.place(i, pose)

    def place(self, movable: int, pose: Pose) -> None:
        """Put a movable shape at a pose."""
        self._place(self.first_movable + movable, pose)

    def table(self) -> Floats:
        """(8, K): middles, halves, and cosine and sine of the yaw."""
        return np.concatenate((self.middle.T, self.half.T, self.axes[:, 0, :2].T))

    def _place(self, i: int, pose: Pose) -> None:
        self.middle[i] = pose.x, pose.y, pose.z + self._lift[i]
        self.away[i] = pose == AWAY
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        self.axes[i, :2, :2] = (cos, sin), (-sin, cos)

    def _add(self, i: int, shape: Shape) -> None:
        if isinstance(shape, Plane):
            self.middle[i], self.half[i] = PLANE
        elif isinstance(shape, Box):
            self.half[i] = shape.half_m
            self._place(i, shape.pose)
        elif isinstance(shape, HeightField):
            low, high = float(shape.heights_m.min()), float(shape.heights_m.max())
            rows, columns = (n - 1 for n in shape.heights_m.shape)
            sides = rows * shape.cell_m, columns * shape.cell_m, high - low
            self.half[i] = np.array(sides) / 2.0 + (0.0, 0.0, PADDING_M)
            self._lift[i] = (low + high) / 2.0
            self._place(i, shape.pose)


def within(view: View, middle: Floats, radius: Floats) -> NDArray[np.bool_]:
    """Which spheres around points (K, 3), relative to the eye, intersect the cone of a view."""
    half_angle = math.acos(min(1.0, float(view.ahead.min())))
    distance = np.maximum(np.linalg.norm(middle, axis=1), 1e-6)
    cosine = np.clip((middle @ view.forward) / distance, -1.0, 1.0)
    widened = half_angle + np.arcsin(np.minimum(radius / distance, 1.0))
    reached = np.arccos(cosine) < widened
    return np.asarray((distance <= radius) | (reached & (distance - radius < view.far_m * 1.5)))


def slabs(axes: Floats, middle: Floats, half: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """Distances (k, n) [m] at which rays (3, n) from the origin enter and leave k boxes.

    Slab method (Kay and Kajiya 1986): a ray is in a box between all three pairs of its faces.
    """
    k = len(axes)
    along = axes.transpose(1, 0, 2).reshape(-1, 3) @ directions  # (3 k, n)
    along[along == 0.0] = 1e-9
    inverse = np.reciprocal(along, out=along)
    centre = np.einsum("kij,kj->ik", axes, middle).reshape(-1, 1) * inverse
    reach = half.T.reshape(-1, 1) * np.abs(inverse)
    x, y, z = (centre - reach).reshape(3, k, -1)
    centre += reach
    u, v, w = centre.reshape(3, k, -1)
    return np.maximum(np.maximum(x, y), z), np.minimum(np.minimum(u, v), w)
