"""Furnished houses: boxes of an episode in every simulator, ways to walk, mixtures of houses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.cast_scene import CastScene
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.mujoco_body import MuJoCoBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.houses.furnished import FurnishedHouse
from pixelgait.sim.scenes.registry import HOUSE_KINDS, make_scene
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.furnishing import in_the_way
from pixelgait.sim.world.house_plan import HouseKind
from pixelgait.sim.world.obstacles import HEADROOM_M, obstacle_boxes
from pixelgait.sim.world.scene import Box, Layout, Plane, Pose, Scene
from tests.helpers import HOLD, glide_episode

EYE = BasePose((0.4, 0.0, 0.3), (0.0, 0.0, 0.0, 1.0))
CAMERA = Camera(A1.camera, 48, 32, "depth")


class Resized(Scene):
    """A box ahead, as wide and high in every episode as the generator draws."""

    name = "resized"
    draws_boxes = True
    fixed = (Plane(),)
    movable = (Box(Pose(0, 0, 0), (0.1, 0.1, 0.1), (0.5, 0.5, 0.5)),) * 2

    def layout(self, rng: np.random.Generator) -> Layout:
        """A wide box, and one that keeps its size."""
        half = (0.1, float(rng.uniform(0.2, 1.0)), float(rng.uniform(0.2, 0.6)))
        wide = Box(Pose(1.5, 0.3, half[2], 0.4), half, (0.8, 0.1, 0.1))
        return Layout(Pose(0, 0, 0), [wide.pose, Pose(1.3, -0.7, 0.1)], boxes={0: wide})


def glide(scene: Scene, seed: int) -> Episode:
    """An episode of a gliding robot that the teacher steers, of up to two minutes."""
    body = KinematicBody(A1, scene, camera=CAMERA)
    teacher = Teacher(body)
    return glide_episode(lambda *_: teacher.decide(), body, navigation_task(scene, 12_000), seed)


@pytest.mark.parametrize("kind", HOUSE_KINDS)
def test_the_teacher_glides_through_furnished_houses_without_a_contact(kind: HouseKind) -> None:
    scene = make_scene(kind, 0.5)
    episodes = [glide(scene, seed) for seed in range(4)]
    assert all(episode.success for episode in episodes)
    assert all(episode.contacts.count == 0 for episode in episodes)


def test_maps_know_what_stands_lies_and_hangs_in_the_way() -> None:
    """Cells are free where nothing from 2 cm above the floor up to headroom is near."""
    scene = FurnishedHouse("apartment", 1.0)
    layout = scene.layout(np.random.default_rng(3))
    boxes = [box for box, _ in obstacle_boxes(scene, layout, HEADROOM_M)]
    assert boxes == in_the_way(scene.house.boxes)
    places = scene.map.places(scene.map.cells)
    for box in boxes:
        cos, sin = math.cos(box.pose.yaw), math.sin(box.pose.yaw)
        away = (places - (box.pose.x, box.pose.y)) @ np.array(((cos, -sin), (sin, cos)))
        out = np.maximum(np.abs(away) - box.half_m[:2], 0.0)
        assert np.hypot(*out.T).min() > 0.24


def test_houses_can_be_mixed_with_rooms() -> None:
    scene = make_scene("mixture:rooms=1,apartment=1,office:unseen=1", 0.5)
    assert scene.has_goal_position
    assert scene.draws_boxes
    assert all(glide(scene, seed).success for seed in range(3))


@pytest.mark.parametrize("kind", ["depth", "rgb"])
def test_boxes_of_an_episode_look_alike_in_every_simulator(kind: str) -> None:
    """Also after another episode, in which they had other sizes."""
    camera = Camera(A1.camera, 48, 32, kind)  # type: ignore[arg-type]
    cast = CastScene(Resized())
    bodies = [PyBulletBody(A1, Resized()), MuJoCoBody(A1, Resized())]
    for seed in (0, 1):
        cast.reset(np.random.default_rng(seed))
        wanted = cast.render(camera, EYE).astype(float)
        for body in bodies:
            body.reset(seed)
            seen = body._scene.render(camera, EYE).astype(float)
            assert (np.abs(seen - wanted) < (0.02 if kind == "depth" else 12.0)).mean() > 0.97
    for body in bodies:
        body.close()


@pytest.mark.parametrize("body", [PyBulletBody, MuJoCoBody])
def test_robots_walk_on_and_touch_the_boxes_of_an_episode(body: type) -> None:
    """An episode is bit-equal for its seed, after others with other boxes too."""
    robot = body(A1, Resized())
    places = []
    for seed in (1, 2, 1):
        robot.reset(seed)
        robot.place((1.35, 0.3, 0.3), (0.0, 0.0, 0.0, 1.0))
        for _ in range(20):
            robot.apply(HOLD)
        assert robot.touching() is not None
        places.append(robot.pose())
    assert places[0] == places[2] != places[1]
    robot.close()
