"""Distractors: the same scene, seen otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from pixelgait.robot.control.low_level import latent_for
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.environments.gait_env import GaitEnv
from pixelgait.sim.scenes.distractors import PITCH_RAD, SHIFT_M, Distracted, textures
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.scenes.registry import SCENES, make_scene
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.scene import ORIGIN, STORE, Box, Layout, Pose
from pixelgait.sim.world.texture import Texture, tile
from tests.conftest import Command
from tests.helpers import HOLD, held_still, resident_mb

COURSE = "obstacle-course"


@pytest.fixture(scope="module", params=BODIES)
def body(request: pytest.FixtureRequest) -> Iterator[SimulatedBody]:
    body = make_body(request.param, A1, make_scene(COURSE, 0.5, "train"))
    yield body
    body.close()


@pytest.mark.parametrize("name", SCENES)
def test_the_scene_itself_stays_as_it_is(name: str) -> None:
    plain = make_scene(name)
    others = make_scene(name, distractors="test"), make_scene(name, looks="test")
    for seed in range(3):
        layouts = [s.layout(np.random.default_rng(seed)) for s in (plain, *others)]
        for layout in layouts[1:]:
            assert layout.start == layouts[0].start
            assert list(layout.movable[: len(plain.movable)]) == list(layouts[0].movable)
        for x, y in np.random.default_rng(seed).uniform(-4.0, 4.0, (20, 2)):
            for other in others:
                assert plain.ground_m(x, y) == other.ground_m(x, y)
                assert plain.progress_m(x, y) == other.progress_m(x, y)
                assert plain.path_length_m(x, y) == other.path_length_m(x, y)
    assert all(plain.goal_m == other.goal_m for other in others)


def test_training_and_testing_share_no_texture() -> None:
    train, test = ({tile(texture).tobytes() for texture in textures(s)} for s in ("train", "test"))
    assert len(train) == len(test) == 24
    assert not train & test


def test_an_episode_is_bit_equal_for_its_seed_and_looks_unlike_others(body: SimulatedBody) -> None:
    first, image = held_still(body, 3, 20), body.render().pixels
    held_still(body, 4, 20)
    other = body.render().pixels
    np.testing.assert_array_equal(first, held_still(body, 3, 20))
    np.testing.assert_array_equal(image, body.render().pixels)
    # Floor, sky and everything else: hardly a pixel as before.
    assert (image == other).all(axis=2).mean() < 0.05
    assert (image == 255).all(axis=2).mean() < 0.01  # no empty sky


def test_objects_move_and_never_come_down_to_the_robot(body: SimulatedBody) -> None:
    pose = ((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
    for seed in range(5):
        body.reset(seed)
        layout = body.scene.layout(np.random.default_rng(seed))
        seen = []
        for _ in range(3):
            body.place(*pose)
            seen.append(body.render().pixels)
            for _ in range(30):
                body.apply(HOLD)
        changed = [(a != b).any(axis=2).mean() for a, b in pairwise(seen)]
        assert max(changed) < 0.3
        assert len(layout.swings) == 6
        for swing in layout.swings:
            half_z = body.scene.movable[swing.shape].half_m[2]
            middle = layout.movable[swing.shape]
            path = [swing.pose(middle, t).z for t in np.arange(0.0, swing.period_s, 0.1)]
            assert min(path) - half_z > 2.0 * A1.stand_height_m
            assert np.ptp(path) > 0.0
        if max(changed) > 0.005:
            return
    pytest.fail("nothing moves")


def test_the_camera_is_knocked_alike_in_both() -> None:
    images = []
    for name in BODIES:
        body = make_body(name, A1, make_scene(COURSE, 0.5, "test"))
        body.camera = Camera(A1.camera, kind="depth")
        seen = []
        for seed in range(4):
            body.reset(seed)
            body.place((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
            seen.append(body.render().pixels)
        images.append(np.array(seen))
        body.close()
    assert (np.abs(images[0] - images[1]) < 0.02).mean() > 0.97
    # The ground below the last row, by hand, for the largest knocks either way.
    slope = 31.0 / 32.0 * np.tan(A1.camera.vertical_fov_rad / 2.0)
    limits = []
    for way in (-1.0, 1.0):
        height = 0.28 + A1.camera.position_m[2] - way * SHIFT_M
        pitch = A1.camera.pitch_down_rad + way * PITCH_RAD
        limits.append(height / (np.sin(pitch) + slope * np.cos(pitch)))
    nearest = images[0][:, -1].mean(axis=1)
    assert limits[1] < nearest.min() < nearest.max() < limits[0]
    assert np.ptp(nearest) > 0.01


def test_memory_is_flat_over_resets(body: SimulatedBody) -> None:
    for seed in range(40):  # until every texture has been needed
        body.reset(seed)
    before = resident_mb()
    for seed in range(200):
        body.reset(seed)
        body.apply(HOLD)
        body.render()
    assert resident_mb() - before < 20.0


@pytest.mark.parametrize("name", BODIES)
def test_environments_take_them(name: str) -> None:
    seen = []
    for distractors in (None, "train"):
        env = GaitEnv(COURSE, body=name, distractors=distractors)
        seen.append(env.reset(seed=1)[0])
        env.close()
    assert not np.array_equal(seen[0]["image"], seen[1]["image"])
    np.testing.assert_array_equal(seen[0]["proprioception"], seen[1]["proprioception"])


def test_nothing_that_distracts_or_is_stored_away_stops_a_gliding_robot() -> None:
    ends = []
    for scene in (make_scene("flat"), make_scene("flat", distractors="train"), OnlyStored()):
        body = KinematicBody(A1, scene)
        body.reset(5)
        image = body.render().pixels
        for _ in range(500):
            body.follow(latent_for(0.5, 0.1))
        ends.append(planar_pose(body))
        assert not np.array_equal(image, body.render().pixels)
        body.close()
    assert ends[0][0] > 1.5
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


class OnlyStored(FlatGround):
    """A box below the ground where the robot starts."""

    movable = (Box(STORE, (1.0, 1.0, 0.5), (0.5, 0.5, 0.5)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN, [STORE])


def test_the_evaluation_takes_them_but_for_the_teacher(command: Command) -> None:
    options = ("--episodes", 1, "--workers", 1, "--seconds", 1, "--distractors")
    assert "success_rate" in command("pixelgait-eval", "iap", *options, "test").stdout
    refused = command("pixelgait-eval", "iap", "--baseline", "teacher", *options, "test")
    assert refused.returncode == 1
    assert "--baseline teacher does not look: --distractors is nothing to it" in refused.stderr


@pytest.mark.parametrize("name", ["rooms", "mixture:rooms"])
def test_the_mark_of_the_goal_is_green_whatever_distracts(name: str) -> None:
    scene = make_scene(name, distractors="train")
    (mark,) = [shape for shape in scene.movable if shape is Indoor.mark]
    assert mark.texture is None
    appearance = scene.layout(np.random.default_rng(0)).appearance
    assert appearance is not None
    textured = [s for s in (*scene.fixed, *scene.movable) if isinstance(s, Box) and s.texture]
    assert len(appearance.textures) == len(textured)


@pytest.mark.parametrize("name", BODIES)
def test_what_cannot_be_seen_has_no_texture(name: str) -> None:
    """Of as many as are drawn."""
    texture = Texture("dots", ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    half_m = (0.1, 0.1, 0.1)
    hidden = Box(Pose(2.0, 0.0, 1.0), half_m, (1.0, 1.0, 1.0), texture=texture, visible=False)
    scene = FlatGround()
    scene.fixed = (*scene.fixed, hidden)
    body = make_body(name, A1, Distracted(scene, "train"))
    body.reset(0)
    assert body.read().image().pixels.std() > 0.0
    body.close()
