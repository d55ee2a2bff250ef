"""Obstacles: the shapes of a scene that a robot can run into, and those that are ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import compress

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array, CameraMount, RobotSpec
from pixelgait.sim.world.motions import fastest_m_per_s, placed
from pixelgait.sim.world.scene import (
    Box,
    HeightField,
    Layout,
    Mesh,
    Motion,
    Pose,
    Scene,
    Shape,
    corners,
    interpolate,
)

LEAST_HEIGHT_M = 0.02  # assumption: nothing lower above the ground is an obstacle
STANCE_M = (0.2, 0.1)  # assumption: half the area between any robot's feet
# Assumption: below what hangs lower than this, a robot does not walk: it might be a table.
HEADROOM_M = 0.8
LOW_M = 0.25  # assumption: lower than any robot
TRUNK_M = 0.12  # assumption: of the trunk above the base's middle while it sways
CAMERA_M = 0.05  # assumption: of a camera above its lens


def are_obstacles(scene: Scene, layout: Layout) -> list[bool]:
    """Whether each of the scene's shapes, fixed ones first, rises above the ground it stands on.

    Planes and height fields are ground. For a mesh it depends on the place: see `is_above_ground`.
    """
    placed = _placed(scene, layout)
    boxes = {i: (s, p) for i, (s, p) in enumerate(placed) if isinstance(s, Box) and p is not None}
    rise = dict(zip(boxes, _rise(scene, list(boxes.values())).tolist(), strict=True))
    return [rise.get(i, False) for i in range(len(placed))]


def needed_height_m(spec: RobotSpec, mount: CameraMount) -> float:
    """Height above the ground that a robot with a camera on this mount needs to pass under."""
    return spec.stand_height_m + max(TRUNK_M, mount.position_m[2] + CAMERA_M)


@dataclass(frozen=True, slots=True)
class MovingObstacle:
    """A box that moves, with its pose in the layout."""

    box: Box
    own: Pose
    motion: Motion

    @property
    def fastest_m_per_s(self) -> float:
        """Bound on its horizontal speed."""
        return fastest_m_per_s(self.motion, self.own, math.hypot(*self.box.half_m[:2]))


def obstacle_boxes(scene: Scene, layout: Layout, height_m: float) -> list[tuple[Box, Pose]]:
    """Static boxes that a robot of this height can run into, with their poses.

    Without boxes above the robot or below its ground; with the collision boxes of meshes.
    """
    moving = {len(scene.fixed) + motion.shape for motion in layout.motions}
    shapes = zip(_placed(scene, layout), are_obstacles(scene, layout), strict=True)
    boxes = [
        (shape, pose)
        for i, ((shape, pose), is_obstacle) in enumerate(shapes)
        if is_obstacle and isinstance(shape, Box) and pose is not None and i not in moving
    ]
    meshes = [shape for shape in scene.fixed if isinstance(shape, Mesh)]
    boxes += [(box, box.pose) for mesh in meshes for box in mesh.boxes]
    return list(compress(boxes, _at_height(scene, boxes, layout, height_m)))


def moving_obstacles(scene: Scene, layout: Layout, height_m: float) -> list[MovingObstacle]:
    """Moving boxes that a robot of this height can run into, judged by their poses at the reset."""
    movable, poses = layout.shapes(scene), placed(layout)
    motions = [each for each in layout.motions if isinstance(movable[each.shape], Box)]
    shapes = [(movable[each.shape], poses[each.shape]) for each in motions]
    boxes = [(box, pose) for box, pose in shapes if isinstance(box, Box)]
    are_met = _rise(scene, boxes) & _at_height(scene, boxes, layout, height_m)
    found = zip(boxes, motions, strict=True)
    return [
        MovingObstacle(box, layout.movable[motion.shape], motion)
        for (box, _), motion in compress(found, are_met)
    ]


def is_above_ground(scene: Scene, point: tuple[float, float, float]) -> bool:
    """Whether a point (x, y, z) [m] is higher than the ground."""
    x, y, z = point
    ground = scene.ground_m(x, y)
    return ground is None or z > ground + LEAST_HEIGHT_M


def has_support(scene: Scene, layout: Layout, off_m: float) -> bool:
    """Whether the top of a shape is at the start, within `off_m` of its height."""
    for shape, pose in _placed(scene, layout):
        if not isinstance(shape, (Box, HeightField)) or pose is None:
            return True  # planes are endless; meshes are not searched
        top_m = _top_m(shape, pose, layout.start)
        if top_m is not None and abs(top_m - layout.start.z) <= off_m:
            return True
    return False


def _top_m(shape: Box | HeightField, pose: Pose, at: Pose) -> float | None:
    """Height of a shape's top at a place [m]; None: it does not cover the place."""
    if isinstance(shape, Box):
        here = _covers(_outline(pose, np.array(shape.half_m[:2])), at.x, at.y)
        return pose.z + shape.half_m[2] if here else None
    cos, sin, x, y = math.cos(pose.yaw), math.sin(pose.yaw), at.x - pose.x, at.y - pose.y
    last = np.array(shape.heights_m.shape) - 1.0
    row, column = np.array((cos * x + sin * y, cos * y - sin * x)) / shape.cell_m + last / 2.0
    if not (0.0 <= row <= last[0] and 0.0 <= column <= last[1]):
        return None
    return pose.z + interpolate(shape.heights_m, row, column)


def box_at_start(scene: Scene, layout: Layout) -> Pose | None:
    """Pose of a box that intersects a robot at the start; None: there is none."""
    robot = _outline(layout.start, np.array(STANCE_M))
    for box, pose in obstacle_boxes(scene, layout, LOW_M):
        if cv2.intersectConvexConvex(robot, _outline(pose, np.array(box.half_m[:2])))[0] > 0.0:
            return pose
    return None


def box_at(scene: Scene, layout: Layout, x: float, y: float) -> Pose | None:
    """Pose of an obstacle box that covers (x, y); None: there is none."""
    for box, pose in obstacle_boxes(scene, layout, LOW_M):
        if _covers(_outline(pose, np.array(box.half_m[:2])), x, y):
            return pose
    return None


def _outline(pose: Pose, half_m: Array) -> NDArray[np.float32]:
    """Corners (4, 2) [m] of a footprint."""
    return np.asarray(corners([pose], half_m)[0], np.float32)


def _covers(outline: NDArray[np.float32], x: float, y: float) -> bool:
    """Whether a place is within an outline or on its edge."""
    return cv2.pointPolygonTest(outline, (x, y), False) >= 0.0


def _placed(scene: Scene, layout: Layout) -> list[tuple[Shape, Pose | None]]:
    """All shapes, fixed ones first, with their poses at the reset, None for those without one."""
    fixed = [(shape, getattr(shape, "pose", None)) for shape in scene.fixed]
    return [*fixed, *zip(layout.shapes(scene), placed(layout), strict=True)]


def _at_height(
    scene: Scene, boxes: list[tuple[Box, Pose]], layout: Layout, height_m: float
) -> NDArray[np.bool_]:
    """Which boxes overlap the robot's height above the ground there, or above the start's."""
    low, high, ground_m = _heights_m(scene, boxes)
    floor_m = np.where(np.isnan(ground_m), layout.start.z, ground_m)
    return np.asarray((low < floor_m + height_m) & (high > floor_m + LEAST_HEIGHT_M))


def _rise(scene: Scene, boxes: list[tuple[Box, Pose]]) -> NDArray[np.bool_]:
    """Which boxes are higher than the ground at their middles."""
    _, high, ground_m = _heights_m(scene, boxes)
    return np.asarray(np.isnan(ground_m) | (high > ground_m + LEAST_HEIGHT_M))


def _heights_m(scene: Scene, boxes: list[tuple[Box, Pose]]) -> tuple[Array, Array, Array]:
    """Heights (n,) [m] of the bottoms of boxes, of their tops, and of the ground there."""
    rows = [(pose.x, pose.y, pose.z, box.half_m[2]) for box, pose in boxes]
    places = np.array(rows, dtype=np.float64).reshape(-1, 4)
    z, half = places[:, 2], places[:, 3]
    return z - half, z + half, scene.grounds_m(places[:, :2].copy())


def along(polygon: Array, every_m: float) -> Array:
    """Points (n, 2) on the edges of a polygon (m, 2): its corners, and at most `every_m` apart."""
    edges = zip(polygon, np.roll(polygon, -1, axis=0), strict=True)
    counts = [(a, b, 1 + int(np.hypot(*(b - a)) / every_m)) for a, b in edges]
    return np.vstack([np.linspace(a, b, count, endpoint=False) for a, b, count in counts])
