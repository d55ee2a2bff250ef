"""Obstacles: which of a scene's shapes stand in a robot's way, and which are its ground."""

from __future__ import annotations

from pixelgait.sim.world.scene import Box, Layout, Mesh, Pose, Scene, Shape

LEAST_HEIGHT_M = 0.02  # above the ground: nothing lower is an obstacle; ours


def are_obstacles(scene: Scene, layout: Layout) -> list[bool]:
    """Of the scene's shapes, fixed ones first, whether they rise above the ground they stand on.

    Planes and height fields are ground. Of a mesh it is a matter of where: see `is_above_ground`.
    """
    return [_is_obstacle(scene, shape, pose) for shape, pose in _placed(scene, layout)]


def obstacle_boxes(scene: Scene, layout: Layout) -> list[tuple[Box, Pose]]:
    """Those of the obstacles that are boxes, where they are."""
    placed, obstacles = _placed(scene, layout), are_obstacles(scene, layout)
    return [
        (shape, pose)
        for (shape, pose), hinders in zip(placed, obstacles, strict=True)
        if hinders and isinstance(shape, Box) and pose is not None
    ]


def in_the_way(scene: Scene, layout: Layout, height_m: float) -> list[tuple[Box, Pose]]:
    """Boxes that a robot so high, on the ground it starts from, can run into, where they are.

    Neither what hovers above it, nor what is below its floor. Of a mesh those it collides by.
    """
    boxes = obstacle_boxes(scene, layout)
    meshes = [shape for shape in scene.fixed if isinstance(shape, Mesh)]
    boxes += [(box, box.pose) for mesh in meshes for box in mesh.boxes]
    low, high = layout.start.z + LEAST_HEIGHT_M, layout.start.z + height_m
    return [
        (box, pose)
        for box, pose in boxes
        if pose.z - box.half_m[2] < high and pose.z + box.half_m[2] > low
    ]


def is_above_ground(scene: Scene, point: tuple[float, float, float]) -> bool:
    """Whether what is at a point (x, y, z) [m] is too high to be ground."""
    x, y, z = point
    ground = scene.ground_m(x, y)
    return ground is None or z > ground + LEAST_HEIGHT_M


def _placed(scene: Scene, layout: Layout) -> list[tuple[Shape, Pose | None]]:
    """All shapes, fixed ones first, with their poses if they have any."""
    fixed = [(shape, getattr(shape, "pose", None)) for shape in scene.fixed]
    return [*fixed, *zip(scene.movable, layout.movable, strict=True)]


def _is_obstacle(scene: Scene, shape: Shape, pose: Pose | None) -> bool:
    if not isinstance(shape, Box) or pose is None:
        return False
    return is_above_ground(scene, (pose.x, pose.y, pose.z + shape.half_m[2]))
