"""Appearance randomisation: textures, colours, light, shadows, backdrop and motion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim import scenes
from pixelgait.sim.body import camera
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.environments.robot_envs import GaitEnv
from pixelgait.sim.rendering.episode_appearance import BACKDROPS, SHAKE, EpisodeAppearance, Motion
from pixelgait.sim.rendering.geometry import Geometry
from pixelgait.sim.rendering.materials import PATTERNS
from pixelgait.sim.rendering.patterns import PIXELS
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene
from pixelgait.sim.scenes.registry import SCENES, make_scene
from pixelgait.sim.world.appearance import AppearanceOption, AppearanceSeed, AppearanceSet
from pixelgait.sim.world.scene import WithAppearance
from tests.conftest import Command
from tests.helpers import EVERY_SCENE, HOLD, located, resident_mb, seen

COURSE = "obstacle-course"
CAMERA_POSE = BasePose((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
SETS: tuple[AppearanceSet, ...] = ("train", "test")


@pytest.mark.parametrize("name", SCENES)
def test_appearance_leaves_layout_ground_and_progress_alone(name: str) -> None:
    nominal, randomised = make_scene(name), make_scene(name, appearance="test")
    for seed in range(3):
        layouts = [s.layout(np.random.default_rng(seed)) for s in (nominal, randomised)]
        assert layouts[0] == replace(layouts[1], appearance=None)
        assert layouts[1].appearance is not None
        for x, y in np.random.default_rng(seed).uniform(-4.0, 4.0, (20, 2)):
            assert nominal.ground_m(x, y) == randomised.ground_m(x, y)
            assert nominal.progress_m(x, y) == randomised.progress_m(x, y)
    assert nominal.goal_m == randomised.goal_m


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("scene", EVERY_SCENE)
def test_appearance_leaves_depth_equal_bit_for_bit(scene: str, name: str, house: Path) -> None:
    nominal, randomised = (
        make_body(name, A1, make_scene(located(scene, house), appearance=appearance))
        for appearance in ("nominal", "test")
    )
    for seed in range(2):
        for body in (nominal, randomised):
            body.reset(seed)
        camera = Camera(A1.camera, kind="depth")
        np.testing.assert_array_equal(seen(nominal, camera), seen(randomised, camera))
        camera = replace(camera, kind="rgbd")
        np.testing.assert_array_equal(
            seen(nominal, camera)[..., 3], seen(randomised, camera)[..., 3]
        )
        assert not np.array_equal(seen(nominal, camera), seen(randomised, camera))
    nominal.close()
    randomised.close()


@pytest.mark.parametrize("appearance", SETS)
@pytest.mark.parametrize("name", EVERY_SCENE)
def test_simulators_and_gliding_robots_render_the_same_appearance(
    name: str, appearance: AppearanceSet, house: Path
) -> None:
    """Except at edges, where faces of furniture coincide, on height fields, and for the colours of
    a scan."""
    scene = make_scene(located(name, house), appearance=appearance)
    bullet, mujoco = (make_body(body, A1, scene) for body in BODIES)
    glider = KinematicBody(A1, scene)
    shares = []
    for seed in range(5):
        for body in (bullet, mujoco, glider):
            body.reset(seed)
        mujoco.place(*bullet.pose())
        picture = bullet.render().pixels.astype(int)
        for other in (mujoco.render().pixels, glider._scene.render(glider.camera, bullet.pose())):
            shares.append((np.abs(picture - other).max(axis=2) <= 8).mean())
    assert min(shares) > (0.9 if scene.draws_boxes else 0.95)
    assert np.mean(shares) > 0.98
    for body in (bullet, mujoco, glider):
        body.close()


@pytest.mark.parametrize("name", [*BODIES, "glide"])
def test_appearance_depends_on_the_seed_alone(name: str) -> None:
    scene = make_scene(COURSE, appearance="train")
    body = KinematicBody(A1, scene) if name == "glide" else make_body(name, A1, scene)
    pictures = []
    for seed in (3, 4, 3):
        body.reset(seed)
        pictures.append(body.render().pixels)
    np.testing.assert_array_equal(pictures[0], pictures[2])
    assert (pictures[0] == pictures[1]).all(axis=2).mean() < 0.05
    body.close()


def robot(name: str, scene: Scene) -> Any:
    return KinematicBody(A1, scene) if name == "glide" else make_body(name, A1, scene)


def at(body: Any, time_s: float, kind: str) -> np.ndarray:
    """Image of a standing robot at a time after the reset [s]."""
    body._scene.move(time_s)
    return np.asarray(body._scene.render(replace(body.camera, kind=kind), CAMERA_POSE))


@pytest.mark.parametrize("appearance", ["test", "test-moving"])
@pytest.mark.parametrize("name", [*BODIES, "glide"])
def test_only_a_moving_appearance_changes_what_a_standing_robot_sees(
    name: str, appearance: AppearanceOption
) -> None:
    """In depth because of the shake alone."""
    body = robot(name, make_scene(COURSE, appearance=appearance))
    body.reset(0)
    for kind in ("rgb", "depth", "rgbd"):
        changed = not np.array_equal(at(body, 0.0, kind), at(body, 1.0, kind))
        assert changed == (appearance == "test-moving")
    body.close()


@pytest.mark.parametrize("name", [*BODIES, "glide"])
def test_moving_backdrop_changes_nothing_but_the_sky(name: str) -> None:
    body = robot(name, make_scene(COURSE, appearance="test-moving"))
    body.reset(0)
    painter = body._scene._painter
    painter.motion = replace(painter.motion, amplitudes=np.zeros(6))
    sky = at(body, 0.0, "depth") == FAR_M
    np.testing.assert_array_equal(at(body, 1.0, "depth") == FAR_M, sky)
    changed = (at(body, 0.0, "rgb") != at(body, 1.0, "rgb")).any(axis=2)
    assert changed[sky].mean() > 0.3
    assert not changed[~sky].any()
    body.close()


def test_moving_appearance_has_the_surfaces_and_light_of_the_same_set() -> None:
    still, moving = (make_scene(COURSE, appearance=name) for name in ("test", "test-moving"))
    for seed in range(3):
        one, other = (s.layout(np.random.default_rng(seed)) for s in (still, moving))
        assert one.appearance != other.appearance
        assert one == replace(other, appearance=replace(other.appearance, moving=False))
        drawn = [EpisodeAppearance.of(x.appearance, Geometry(still)) for x in (one, other)]
        np.testing.assert_array_equal(drawn[0].texels, drawn[1].texels)
        np.testing.assert_array_equal(drawn[0].backdrop, drawn[1].backdrop)


def test_simulators_and_gliding_robots_show_the_same_motion() -> None:
    bodies = [robot(n, make_scene(COURSE, appearance="train-moving")) for n in (*BODIES, "glide")]
    for seed in range(3):
        pictures = []
        for body in bodies:
            body.reset(seed)
            body._scene.move(2.0 + seed)
            pictures.append(body._scene.render(body.camera, CAMERA_POSE).astype(int))
        for other in pictures[1:]:
            assert (np.abs(pictures[0] - other).max(axis=2) <= 8).mean() > 0.98
    for body in bodies:
        body.close()


def test_camera_shake_stays_within_its_ranges() -> None:
    for number in range(200):
        motion = Motion.of(AppearanceSeed("test", number, moving=True))
        offsets = np.array([motion.camera_offset(t) for t in np.arange(0.0, 20.0, 0.01)])
        assert (np.abs(offsets) <= SHAKE).all()
        assert np.abs(np.diff(offsets[:, 3:], axis=0)).max() <= 0.26 * 0.01  # [rad/s] x [s]
        assert 0.05 <= abs(motion.turn_rad_per_s) <= 0.3


def test_appearance_sets_share_no_pattern_and_no_backdrop() -> None:
    for kinds in (PATTERNS, BACKDROPS):
        assert not {each.__name__ for each in kinds["train"]} & {
            each.__name__ for each in kinds["test"]
        }
    assert min(map(len, PATTERNS.values())) >= 12


def test_hundreds_of_appearances_differ_and_are_neither_black_nor_white() -> None:
    body = KinematicBody(A1, make_scene(COURSE, appearance="train"))
    pictures = []
    for seed in range(300):
        body.reset(seed)
        pictures.append(body.render().pixels)
    body.close()
    means = np.array([picture.mean() for picture in pictures])
    assert len({picture.tobytes() for picture in pictures}) == 300
    assert 90.0 < means.mean() < 170.0
    assert np.percentile(means, 5) > 40.0
    assert np.percentile(means, 95) < 240.0
    assert means.std() > 15.0  # exposure, light and paint


@pytest.mark.parametrize("appearance", SETS)
def test_patterns_are_in_range_and_vary(appearance: AppearanceSet) -> None:
    for pattern in PATTERNS[appearance]:
        drawn = [pattern(np.random.default_rng(seed)) for seed in (0, 1, 0)]
        assert drawn[0].shape == (PIXELS, PIXELS)
        assert np.isfinite(drawn[0]).all()
        np.testing.assert_array_equal(drawn[0], drawn[2])
        assert not np.array_equal(drawn[0], drawn[1]) or not np.array_equal(
            drawn[0], pattern(np.random.default_rng(2))
        )


class Yard(Scene):
    """A tall block on open ground, and a box that motions."""

    name = "yard"
    fixed = (Plane(), Box(Pose(3.0, 0.0, 1.0), (0.2, 0.2, 1.0), (0.5, 0.5, 0.5)))
    movable = (Box(Pose(0.0, 0.0, 0.0), (0.2, 0.2, 0.2), (0.5, 0.5, 0.5)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        swing = scenes.Motion(0, (0.0, 1.0, 0.0), 4.0)
        return Layout(Pose(0.0, 0.0, 0.0), [Pose(4.0, 0.0, 0.2)], [swing])


def test_shadow_has_the_length_of_geometry() -> None:
    """A block 2 m high under a sun at 45 degrees casts a shadow of 2 m."""
    body = KinematicBody(A1, WithAppearance(Yard(), "train"))
    body.reset(0)
    painter = body._scene._painter
    drawn = EpisodeAppearance.of(AppearanceSeed("train", 1), painter.geometry)
    white = replace(
        drawn,
        texels=np.full_like(drawn.texels, 0.5),
        visibility_m=np.inf,
        light=replace(
            drawn.light,
            towards=np.array((0.0, -1.0, 1.0), np.float32) / np.sqrt(np.float32(2.0)),
            shadows=True,
            exposure=1.0,
        ),
    )
    down = Camera(
        replace(A1.camera, position_m=(0.0, 0.0, 0.0), pitch_down_rad=np.pi / 2), 200, 200
    )
    painter._appearance, painter._drawn = AppearanceSeed("train", 1), white
    picture = body._scene.render(down, BasePose((3.0, 1.0, 8.0), CAMERA_POSE.orientation))
    metres = 2.0 * np.tan(A1.camera.vertical_fov_rad / 2.0) * 8.0 / 200  # a pixel on the ground

    def at(x: float, y: float) -> int:
        return int(picture[round(100 - (x - 3.0) / metres), round(100 - (y - 1.0) / metres)].sum())

    open_ground = at(3.0, -1.5)
    for y in (0.6, 1.2, 1.9):
        assert at(3.0, y) < 0.9 * open_ground
    for place in ((3.0, 2.6), (2.5, 1.2), (3.0, -0.9)):
        assert at(*place) == open_ground
    body.close()


@pytest.mark.parametrize("name", BODIES)
def test_swinging_shapes_move_in_images(name: str) -> None:
    body = make_body(name, A1, WithAppearance(Yard(), "test"))
    body.reset(0)
    pictures = []
    for _ in range(2):
        body.place(*CAMERA_POSE)
        pictures.append(body.render().pixels)
        for _ in range(60):
            body.apply(HOLD)
    assert (pictures[0] != pictures[1]).any(axis=2).sum() > 10
    body.close()


def test_distant_patterns_are_averaged() -> None:
    """The smallest mip map is the mean of the pattern."""
    geometry = Geometry(make_scene(COURSE))
    texels = EpisodeAppearance.of(AppearanceSeed("train", 0), geometry).texels.reshape(
        -1, sum(4**i for i in range(7)), 3
    )
    np.testing.assert_allclose(texels[:, -1], texels[:, : PIXELS**2].mean(axis=1), atol=1e-5)


@pytest.mark.long
def test_memory_is_flat_over_resets() -> None:
    for name in (*BODIES, "glide"):
        scene = make_scene("clutter", appearance="train")
        body = KinematicBody(A1, scene) if name == "glide" else make_body(name, A1, scene)
        for seed in range(40):
            body.reset(seed)
            body.render()
        before = resident_mb()
        for seed in range(500):
            body.reset(seed)
            body.render()
        assert resident_mb() - before < 20.0, name
        body.close()


def test_rays_of_randomised_cameras_are_evicted_from_the_cache() -> None:
    """A long run has a camera for every seed."""
    body = KinematicBody(
        A1, make_scene("clutter", appearance="train"), randomisation=Randomisation()
    )
    for seed in range(2 * camera.CACHED_CAMERAS):
        body.reset(seed)
        body.render()
    for rays in (camera._rays, camera._rays_float32):
        assert rays.cache_info().currsize <= camera.CACHED_CAMERAS
    body.close()


def test_goal_mark_stays_green() -> None:
    body = KinematicBody(A1, make_scene("rooms", appearance="train"))
    greens = 0
    for seed in range(3):
        body.reset(seed)
        x, y = body.scene.goal_position
        down = Camera(replace(A1.camera, position_m=(0.0, 0.0, 1.0), pitch_down_rad=np.pi / 2))
        picture = body._scene.render(down, BasePose((x, y, 1.0), CAMERA_POSE.orientation)).astype(
            int
        )
        middle = picture[14:18, 14:18].reshape(-1, 3)
        greens += int((middle[:, 1] > 1.5 * middle[:, 0]).all())
    assert greens == 3
    body.close()


@pytest.mark.long
def test_environments_and_commands_accept_an_appearance(command: Command, tmp_path: Path) -> None:
    env = GaitEnv(COURSE, appearance="test", render_mode="rgb_array")
    randomised = env.reset(seed=1)[0]
    film = env.render()
    env.close()
    env = GaitEnv(COURSE, render_mode="rgb_array")
    nominal = env.reset(seed=1)[0]
    assert not np.array_equal(randomised["image"], nominal["image"])
    np.testing.assert_array_equal(randomised["proprioception"], nominal["proprioception"])
    assert film is not None
    assert not np.array_equal(film, env.render())
    env.close()
    options = ("--episodes", 1, "--workers", 1, "--seconds", 1, "--appearance")
    done = command("pixelgait-eval", "iap", *options, "test", "--video", tmp_path / "strip.png")
    assert "appearance test" in done.stdout
    assert cv2.imread(str(tmp_path / "strip.png")) is not None
    refused = command("pixelgait-eval", "iap", "--baseline", "teacher", *options, "test")
    assert refused.returncode == 1
    assert "--appearance has no effect: --baseline teacher uses no images" in refused.stderr
