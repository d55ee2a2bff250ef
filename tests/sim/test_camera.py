"""Cameras: RGB, depth and RGB-D of any size; frame rate, latency and errors of randomised ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pixelgait.robot.control.observation import DEPTH_RANGE_M, depth_bytes
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import A1, ROBOTS, CameraMount
from pixelgait.sim.body.camera import CHANNELS, NEAR_M, Camera, Kind
from pixelgait.sim.body.interface import BasePose, SimulatedBody
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import CameraStream, captured
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.world.appearance import AppearanceOption
from tests.helpers import EVERY_SCENE, located, seen

NOMINAL = {name: (value, value) for name, value in asdict(Sample()).items() if value is not None}
FOCAL = Camera(A1.camera).focal_pixels
LEVEL = (0.0, 0.0, 0.0, 1.0)

both = pytest.mark.parametrize("name", BODIES)


def body_with(name: str, **ranges: tuple[float, float]) -> SimulatedBody:
    return make_body(name, A1, ObstacleCourse(0.5), randomisation=Randomisation(**NOMINAL | ranges))


@pytest.fixture(scope="module", params=BODIES)
def body(request: pytest.FixtureRequest) -> Iterator[SimulatedBody]:
    body = make_body(request.param, A1, ObstacleCourse(0.5))
    body.reset(10_000)
    yield body
    body.close()


def test_rgbd_is_rgb_and_depth_pixel_by_pixel(body: SimulatedBody) -> None:
    wide = replace(A1.camera, vertical_fov_rad=1.4)
    kinds = {kind: seen(body, Camera(wide, 48, 20, kind)) for kind in ("rgb", "depth", "rgbd")}
    assert kinds["rgb"].shape == (20, 48, 3)
    assert kinds["rgbd"].shape == (20, 48, 4)
    assert kinds["rgbd"].dtype == np.uint8
    np.testing.assert_array_equal(kinds["rgbd"][..., 3], depth_bytes(kinds["depth"]))
    np.testing.assert_array_equal(kinds["rgbd"][..., :3], kinds["rgb"])
    # Where the colour is the sky's there is nothing near.
    sky = (kinds["rgbd"][..., :3] == kinds["rgbd"][0, 0, :3]).all(2)
    assert sky.any()
    assert (kinds["rgbd"][sky, 3] == 255).all()


class Mirrored(ObstacleCourse):
    """The obstacle course with left and right swapped."""

    name = "mirrored-course"

    def layout(self, rng: np.random.Generator) -> Layout:
        layout = super().layout(rng)
        places = [replace(pose, y=-pose.y, yaw=-pose.yaw) for pose in layout.movable]
        return replace(layout, movable=places)


@both
@pytest.mark.parametrize("kind", ["rgb", "rgbd"])
def test_mirrored_scene_gives_the_mirrored_image_bit_for_bit(name: str, kind: Kind) -> None:
    camera = Camera(A1.camera, kind=kind)
    course, mirrored = (
        make_body(name, A1, s, camera=camera) for s in (ObstacleCourse(), Mirrored())
    )
    rng = np.random.default_rng(0)
    for seed in range(10):
        course.reset(seed)
        mirrored.reset(seed)
        for x, y, yaw in rng.uniform((0.0, -1.0, -0.6), (9.0, 1.0, 0.6), (5, 3)):
            course.place((x, y, 0.27), upright(yaw))
            mirrored.place((x, -y, 0.27), upright(-yaw))
            image, other = (body.render().pixels for body in (course, mirrored))
            np.testing.assert_array_equal(image[..., :3], other[:, ::-1, :3])
            # PyBullet's depth buffer is rounded: bytes may be one off.
            assert np.abs(image[..., 3:].astype(int) - other[:, ::-1, 3:]).max(initial=0) <= 1
    course.close()
    mirrored.close()


class Blocked(Scene):
    """A wall across the path, with open ground behind it."""

    name = "blocked"
    colour = (0.8, 0.2, 0.2)
    fixed = (Plane(), Box(Pose(0.5, 0.0, 0.5), (0.02, 5.0, 5.0), colour))

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))


@both
def test_camera_never_looks_through_a_wall_in_contact(name: str) -> None:
    """A robot that is pushed on sees nothing but wall at every step."""
    body = make_body(name, A1, Blocked(), camera=Camera(A1.camera, kind="rgbd"))
    body.reset(0)
    touched, nearest = 0, np.inf
    for _ in range(150):
        body.apply(standing(A1))
        if body.pose().position[0] < 0.4:
            body.push(np.array((0.1, 0.0, 0.0)))
        touched += body.touching() is not None
        rgb, depth = body.render_both()
        middle = rgb[:16].reshape(-1, 3).astype(int)
        assert (middle[:, 0] > 2 * middle[:, 2]).all(), "something else than the wall's red"
        nearest = min(nearest, float(depth.min()))
    assert touched > 20
    assert nearest > NEAR_M
    body.close()


@both
@pytest.mark.parametrize("appearance", ["nominal", "test"])
def test_depth_images_equal_the_depth_of_rgbd(name: str, appearance: AppearanceOption) -> None:
    """Depth does not depend on the appearance, and needs no painter."""
    body = make_body(
        name, A1, make_scene("rooms", appearance=appearance), camera=Camera(A1.camera, 64, 48)
    )
    body.reset(3)
    alone, (_, beside) = body.render_depth(), body.render_both()
    assert alone.shape == beside.shape == (48, 64)
    near = np.abs(alone - beside) < 0.01 * beside
    assert near.mean() > 0.99  # but for edges: rays are cast at looks, triangles are drawn
    body.close()


@pytest.mark.parametrize("robot", ROBOTS)
def test_camera_pitched_down_sees_the_legs(robot: str) -> None:
    down = CameraMount((0.15, 0.0, 0.05), 1.2, 1.4)
    spec, shares, pictures = ROBOTS[robot], [], []
    for name in BODIES:
        body = make_body(name, spec, FlatGround())
        body.reset(0)
        for mount in (down, spec.camera):
            image = seen(body, Camera(mount, 64, 64))
            shares.append((image.max(2) < 80).mean())  # dark: the ground is bright
            pictures.append(image.astype(int))
        body.close()
    assert min(shares[0], shares[2]) > 0.02
    assert max(shares[1], shares[3]) == 0.0  # the robots' own mounts look over their feet
    assert (np.abs(pictures[0] - pictures[2]).max(2) <= 8).mean() > 0.98


def test_a_wider_view_shows_more_sky(body: SimulatedBody) -> None:
    views = [replace(A1.camera, vertical_fov_rad=fov) for fov in (0.6, 1.6)]
    far = [(seen(body, Camera(mount, kind="depth")) > 10.0).mean() for mount in views]
    assert far[1] > far[0]


def test_depth_bytes_end_at_the_stated_range() -> None:
    depth = np.array([[0.0, DEPTH_RANGE_M / 2, DEPTH_RANGE_M, 30.0]], dtype=np.float32)
    np.testing.assert_array_equal(depth_bytes(depth), [[0, 128, 255, 255]])


@pytest.mark.parametrize("name", EVERY_SCENE)
def test_both_simulators_render_the_same_image(name: str, house: Path) -> None:
    """Geometry, textures, light and sky agree except at edges."""
    scene = make_scene(located(name, house), 0.5)
    bullet, other = (make_body(body, A1, scene) for body in BODIES)
    shares = []
    for seed in range(5):
        bullet.reset(seed)
        other.reset(seed)
        other.place(*bullet.pose())
        for kind in ("rgb", "rgbd"):
            camera = Camera(A1.camera, kind=kind)
            off = seen(bullet, camera).astype(int) - seen(other, camera)
            shares.append((np.abs(off).max(axis=2) <= 8).mean())
    assert min(shares) > 0.96
    assert np.mean(shares) > 0.98
    bullet.close()
    other.close()


def walk(body: SimulatedBody, steps: int) -> list[tuple[Reading, BasePose]]:
    """Readings and true poses of a robot moved at 0.6 m/s and 2 rad/s."""
    rows = [(body.reset(10_000), body.pose())]
    for step in range(1, steps + 1):
        body.apply(standing(A1))
        body.place((0.006 * step, 0.0, 0.28), upright(0.02 * step))
        rows.append((body.read(), body.pose()))
    return rows


@both
def test_image_is_the_newest_frame_that_has_arrived(name: str) -> None:
    body = body_with(name, camera_period_s=(0.1, 0.1), camera_latency_s=(0.035, 0.035))
    rows = walk(body, 40)
    stamps = [reading.image().time_s for reading, _ in rows]
    expected = [0.1 * np.floor(max(0.0, 0.01 * step - 0.035) / 0.1 + 1e-9) for step in range(41)]
    np.testing.assert_allclose(stamps, expected, atol=1e-9)
    shown = rows[40][0].image().pixels  # of 0.3 s
    ideal = make_body(name, A1, ObstacleCourse(0.5))
    ideal.reset(10_000)
    matches = []
    for step in (25, 30, 40):
        ideal.place(*rows[step][1])
        matches.append((ideal.render().pixels == shown).all(2).mean())
    assert matches[1] > 0.999
    assert max(matches[0], matches[2]) < 0.98
    body.close()
    ideal.close()


def test_frames_are_rendered_on_demand_and_lost_ones_stay_lost() -> None:
    rendered = []

    def view(camera: Camera, pose: BasePose) -> np.ndarray:
        rendered.append(pose)
        return np.full((4, 4, 3), 100, dtype=np.uint8)

    sample = replace(Sample(), camera_period_s=0.1, camera_dropout=0.3, camera_noise=5.0)
    camera = CameraStream(sample, Camera(A1.camera), view, seed=1)
    for step in range(5001):
        camera.observe(0.01 * step, BasePose((0.01 * step, 0.0, 0.3), LEVEL))
    assert not rendered
    images: list[Image] = [camera.newest(0.1 * frame + 0.005) for frame in range(500)]
    lost = [image.time_s < 0.1 * frame - 1e-9 for frame, image in enumerate(images)]
    assert 0.25 < np.mean(lost) < 0.35
    for before, after, gone in zip(images, images[1:], lost[1:], strict=False):
        if gone:  # the last one again, noise and all
            assert after.time_s == before.time_s
            np.testing.assert_array_equal(after.pixels, before.pixels)
        else:
            assert not np.array_equal(after.pixels, before.pixels)
    assert len(rendered) == 500


def test_image_noise_has_the_drawn_standard_deviation() -> None:
    rng = np.random.default_rng(0)
    grey = np.full((100, 100, 4), 100, dtype=np.uint8)
    sample = replace(Sample(), camera_gain=1.2, camera_noise=4.0, depth_error_per_m=0.01)
    taken = captured(grey, sample, FOCAL, rng)
    np.testing.assert_allclose(taken[..., :3].mean(), 120.0, atol=0.2)
    np.testing.assert_allclose(taken[..., :3].std(), 4.0, rtol=0.05)
    np.testing.assert_allclose(taken[..., 3].mean(), 100.0, atol=0.2)  # depth has no exposure
    for metres in (1.0, 2.0, 4.0):  # stereo errs by the square of the distance
        depth = captured(np.full((100, 100), metres, dtype=np.float32), sample, FOCAL, rng)
        expected = metres, 0.01 * metres**2
        np.testing.assert_allclose((depth.mean(), depth.std()), expected, rtol=0.05)
    dark = captured(np.full((4, 4, 3), 250, dtype=np.uint8), sample, FOCAL, rng)
    assert dark.max() == 255  # saturates, does not wrap


@both
def test_mount_error_equals_a_displaced_camera(name: str) -> None:
    crooked = body_with(name, camera_pitch_rad=(0.2, 0.2), camera_up_m=(0.1, 0.1))
    crooked.reset(10_000)
    x, y, z = A1.camera.position_m
    mount = replace(
        A1.camera,
        position_m=(x, y, z + 0.1),
        pitch_down_rad=A1.camera.pitch_down_rad + 0.2,
    )
    straight = make_body(name, A1, ObstacleCourse(0.5))
    straight.reset(10_000)
    expected = seen(straight, Camera(mount))
    np.testing.assert_array_equal(crooked.read().image().pixels, expected)
    np.testing.assert_array_equal(crooked.render().pixels, expected)
    assert not np.array_equal(straight.render().pixels, expected)
    crooked.close()
    straight.close()


@both
@pytest.mark.parametrize("randomise", [False, True])
@pytest.mark.parametrize("kind", CHANNELS)
def test_environments_render_colours_of_any_camera_kind(
    name: str, kind: Kind, randomise: bool
) -> None:
    """The image equals that of an RGB camera except at edges."""
    pictures = []
    for camera in (kind, "rgb"):
        env = gymnasium.make(
            "pixelgait.sim.envs:PixelGait/ObstacleCourse-v0",
            render_mode="camera",
            camera=camera,
            body=name,
            randomise=randomise,
            faults=("camera-black:at=0",),
        )
        env.reset(seed=9000)
        pictures.append(env.render())
        env.close()
    assert pictures[0].dtype == np.uint8
    assert pictures[0].shape == (36, 36, 3)
    assert len(np.unique(pictures[0].reshape(-1, 3), axis=0)) > 3
    assert (pictures[0] == pictures[1]).all(2).mean() > 0.85
