"""Mixture of scenes: every episode draws one of several kinds by weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.sim.world.scene import (
    AWAY,
    Box,
    HeightField,
    Layout,
    Mesh,
    Plane,
    Pose,
    Scene,
    SceneWrapper,
    Shape,
)

PLANE = Box(
    Pose(0.0, 0.0, -0.5), (60.0, 60.0, 0.5), (0.84, 0.89, 1.0)
)  # instead of an endless plane


class Mixture(SceneWrapper):
    """Several kinds of scene in one world; an episode places the shapes of one of them.

    Raises:
        UserError: if a kind has meshes, or only some kinds have a goal position.
    """

    name = "mixture"

    def __init__(self, kinds: Sequence[tuple[Scene, float]]) -> None:
        self.kinds = [scene for scene, _ in kinds]
        weights = np.array([weight for _, weight in kinds])
        self.shares = weights / weights.sum()
        has_goal_position = {scene.has_goal_position for scene in self.kinds}
        if len(has_goal_position) > 1:
            raise UserError(f"{self.name}: only some of its scenes have a goal position")
        self.has_goal_position = has_goal_position.pop()
        self.draws_boxes = any(scene.draws_boxes for scene in self.kinds)
        self.draws_reachable_goals = all(scene.draws_reachable_goals for scene in self.kinds)
        self.scene = self.kinds[0]  # in the last layout
        fixed = [[_movable(self, shape) for shape in scene.fixed] for scene in self.kinds]
        self._fixed_poses = [[shape.pose for shape in shapes] for shapes in fixed]
        self.movable = [
            shape
            for scene, shapes in zip(self.kinds, fixed, strict=True)
            for shape in (*shapes, *scene.movable)
        ]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a kind, then its layout; the shapes of all other kinds are away."""
        which = int(rng.choice(len(self.kinds), p=self.shares))
        self.scene = self.kinds[which]
        layout = self._laid_out(rng)
        movable: list[Pose] = []
        motions, boxes = [], {}
        for i, (scene, poses) in enumerate(zip(self.kinds, self._fixed_poses, strict=True)):
            if i == which:
                movable += poses
                first = len(movable)
                motions = [replace(each, shape=first + each.shape) for each in layout.motions]
                boxes = {first + shape: box for shape, box in layout.boxes.items()}
                movable += layout.movable
            else:
                movable += [AWAY] * (len(poses) + len(scene.movable))
        return replace(layout, movable=movable, motions=motions, boxes=boxes)


def _movable(mixture: Mixture, shape: Shape) -> Box | HeightField:
    """A fixed shape as a movable one."""
    if isinstance(shape, Mesh):
        raise UserError(f"{mixture.name}: scanned houses cannot be part of a mixture")
    return replace(PLANE, friction=shape.friction) if isinstance(shape, Plane) else shape
