"""Geometry of a scene as arrays: poses and bounds of its shapes, and pinhole views of them.

Arrays of points and directions are (3, n) float32: three long rows are fast to compute with.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.sim.world.motions import placed
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
    is_in_use,
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
    axes: Floats  # (3, 3) forward, right and up
    size: tuple[int, int]  # height and width, of which n is the product


class Hits(NamedTuple):
    """The shape in each of the n pixels of an image."""

    shapes: NDArray[np.intp]  # (n,) of the scene, fixed ones first, or SKY or FOREIGN
    distances: Floats  # (n,) [m] from the eye; undefined in the sky


class Geometry:
    """Upright boxes around K shapes: boxes, planes and height fields; meshes have none."""

    def __init__(self, scene: Scene) -> None:
        self.shapes: list[Shape] = [*scene.fixed, *scene.movable]  # in the last layout
        self.first_movable = len(scene.fixed)
        self._own = scene.movable
        self._other: set[int] = set()  # movable shapes that the last layout has replaced
        count = len(self.shapes)
        # Middle x, y, z, halves x, y, z [m], cosine and sine of the yaw.
        self.boxes = np.zeros((8, count), np.float32)
        self.boxes[6] = 1.0
        self.middle, self.half = self.boxes[:3].T, self.boxes[3:6].T
        self.axes = np.tile(np.eye(3, dtype=np.float32), (count, 1, 1))  # rows: x, y, z of a box
        self.away = np.zeros(count, bool)  # shapes that a mixture does not use
        self.seen = np.zeros(count, bool)  # those that rays can hit
        # Height fields: first index in `heights`, rows, columns, distance of their points [m].
        self.fields = np.zeros((count, 4))
        self.heights = np.zeros(0, np.float32)  # of all fields' points over their middles [m]
        self._lift = np.zeros(count)  # of the box's middle above the shape's origin
        self._shown = np.array([not isinstance(s, Box) or s.visible for s in self.shapes], bool)
        for i, shape in enumerate(self.shapes):
            self._add(i, shape)
        self.solid = self._shown & [isinstance(s, Box | Plane) for s in self.shapes]
        self.radius = np.linalg.norm(self.half, axis=1)
        self.has_mesh = any(isinstance(shape, Mesh) for shape in self.shapes)

    def lay_out(self, layout: Layout) -> None:
        """Put the movable shapes, with their sizes in an episode, at their poses."""
        if layout.boxes or self._other:
            self._reshape(layout)
        for i, pose in enumerate(placed(layout)):
            self.place(i, pose)

    def place(self, movable: int, pose: Pose) -> None:
        """Put a movable shape at a pose."""
        self._place(self.first_movable + movable, pose)

    def _reshape(self, layout: Layout) -> None:
        """Give movable shapes their sizes in an episode; height fields stay as they are."""
        for movable in self._other | layout.boxes.keys():
            box, i = layout.boxes.get(movable, self._own[movable]), self.first_movable + movable
            assert isinstance(box, Box)
            self.shapes[i], self.half[i] = box, box.half_m
            self.solid[i] = self._shown[i] = box.visible
            self.radius[i] = math.sqrt(sum(half * half for half in box.half_m))
        self._other = set(layout.boxes)

    def _place(self, i: int, pose: Pose) -> None:
        self.middle[i] = pose.x, pose.y, pose.z + self._lift[i]
        self.away[i] = pose == AWAY
        self.seen[i] = self._shown[i] and is_in_use(pose)
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        self.axes[i, :2, :2] = (cos, sin), (-sin, cos)
        self.boxes[6:, i] = cos, sin

    def _add(self, i: int, shape: Shape) -> None:
        if isinstance(shape, Plane):
            self.middle[i], self.half[i] = PLANE
            self.seen[i] = True
        elif isinstance(shape, Box):
            self.half[i] = shape.half_m
            self._place(i, shape.pose)
        elif isinstance(shape, HeightField):
            low, high = float(shape.heights_m.min()), float(shape.heights_m.max())
            rows, columns = (n - 1 for n in shape.heights_m.shape)
            sides = rows * shape.cell_m, columns * shape.cell_m, high - low
            self.half[i] = np.array(sides) / 2.0 + (0.0, 0.0, PADDING_M)
            self._lift[i] = (low + high) / 2.0
            self.fields[i] = len(self.heights), rows + 1, columns + 1, shape.cell_m
            heights = shape.heights_m.astype(np.float32)
            over = (heights - (heights.min() + heights.max()) / 2.0).ravel()
            self.heights = np.concatenate((self.heights, over))
            self._place(i, shape.pose)
