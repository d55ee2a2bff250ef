"""Ray casting: depth and shapes against the slab method written out."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.engines.cast_scene import first_hits
from pixelgait.sim.rendering.geometry import SKY, Geometry, View
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.world.scene import ORIGIN, Box, Layout, Pose, Scene

CAMERA = Camera(A1.camera, 48, 32, "depth")
HEIGHT_M = 0.3


def views(name: str, seeds: range) -> list[tuple[Geometry, View]]:
    """Scenes at difficulty 1, each with a view from near the robot's start."""
    found = []
    for seed in seeds:
        rng, scene = np.random.default_rng(seed), make_scene(name, 1.0)
        layout = scene.layout(np.random.default_rng(seed))
        geometry = Geometry(scene)
        geometry.lay_out(layout)
        start, (yaw, roll) = layout.start, rng.uniform(-np.pi, np.pi, 2)
        cos, sin = np.cos(yaw), np.sin(yaw)
        turned = np.array(((cos, -sin, 0.0), (sin, cos, 0.0), (0.0, 0.0, 1.0)))
        rolled = CAMERA.moved((0.0, 0.0, 0.0), 0.3 * np.sin(roll), roll_rad=0.1 * roll)
        found.append((geometry, rolled.view((start.x, start.y, start.z + HEIGHT_M), turned)))
    return found


def slabs(geometry: Geometry, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Depth and shapes (H W,) of solid boxes: a ray is in a box between all pairs of its faces."""
    nearest, shapes = np.full(view.rays.shape[1], FAR_M), np.full(view.rays.shape[1], SKY)
    for i in np.flatnonzero(geometry.solid & ~geometry.away):
        rays = geometry.axes[i].astype(float) @ view.rays / view.ahead
        middle = geometry.axes[i].astype(float) @ (geometry.middle[i] - view.eye)
        ends = (middle + np.array((-1.0, 1.0))[:, None] * geometry.half[i])[..., None] / rays
        enters, leaves = ends.min(axis=0).max(axis=0), ends.max(axis=0).min(axis=0)
        closer = (enters < leaves) & (enters > 0.0) & (enters < nearest)
        nearest[closer], shapes[closer] = enters[closer], i
    return nearest, shapes


@pytest.mark.parametrize("name", ["rooms", "mixture", "flat", "free-standing", "steps"])
def test_depth_and_shapes_are_those_of_the_slab_method(name: str) -> None:
    """Except where two surfaces meet, within rounding."""
    for geometry, view in views(name, range(8)):
        if (geometry.fields[geometry.seen, 1] > 0.0).any():
            continue  # its height field is no box
        depth, shapes = first_hits(geometry, view)
        wanted, named = slabs(geometry, view)
        same = shapes.ravel() == named
        assert same.mean() > 0.998
        np.testing.assert_allclose(depth.ravel()[same], wanted[same], rtol=1e-4)


@pytest.mark.parametrize("name", ["rough", "ramps"])
def test_rays_end_on_a_height_field(name: str) -> None:
    scene = make_scene(name, 1.0)
    for seed in range(4):
        layout = scene.layout(np.random.default_rng(seed))
        geometry = Geometry(scene)
        geometry.lay_out(layout)
        start = layout.start
        view = CAMERA.view((start.x, start.y, start.z + HEIGHT_M), np.eye(3))
        depth, shapes = first_hits(geometry, view)
        (field,) = np.flatnonzero(geometry.fields[:, 1] > 0.0)
        hit = (shapes.ravel() == field) & (depth.ravel() < 3.0)
        points = view.eye[:, None] + depth.ravel() / view.ahead * view.rays
        heights = [scene.ground_m(x, y) for x, y in points[:2, hit].T.tolist()]
        assert hit.sum() > 300
        off = [abs(z - h) for z, h in zip(points[2, hit], heights, strict=True) if h is not None]
        assert np.quantile(off, 0.99) < 0.02


def test_images_of_any_width_among_many_boxes_are_those_of_the_slab_method() -> None:
    """Boxes in all directions, some of them cut by the image's edge, and the eye within one."""

    class Crowd(Scene):
        def layout(self, rng: np.random.Generator) -> Layout:
            poses = [Pose(*rng.uniform(-4.0, 4.0, 3), rng.uniform(-3.0, 3.0)) for _ in self.movable]
            return Layout(ORIGIN, [ORIGIN, *poses[1:]])

    rng, scene = np.random.default_rng(0), Crowd()
    halves = rng.uniform(0.01, 0.5, (300, 3)).tolist()
    scene.movable = [Box(ORIGIN, (x, y, z), (1.0, 1.0, 1.0)) for x, y, z in halves]
    for width, height in ((1, 1), (13, 7), (48, 32), (65, 20)):
        geometry = Geometry(scene)
        geometry.lay_out(scene.layout(rng))
        camera = Camera(A1.camera, width, height, "depth", yaw_rad=0.2)
        view = camera.view((0.0, 0.0, 0.0), np.eye(3))
        depth, shapes = first_hits(geometry, view)
        wanted, named = slabs(geometry, view)
        same = shapes.ravel() == named
        assert same.mean() > 0.998
        np.testing.assert_allclose(depth.ravel()[same], wanted[same], rtol=1e-4)
