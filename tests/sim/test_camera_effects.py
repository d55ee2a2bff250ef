"""Camera errors: stereo depth, lens, shutter, automatic exposure and mount."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.body.camera import Camera, Kind
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import (
    AutomaticExposure,
    CameraStream,
    apply_camera,
    apply_stereo,
    captured,
)
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse

FOCAL = 100.0  # pixels
LEVEL = upright(0.0)


def post(near_m: float = 0.5, far_m: float = 3.0) -> Array:
    """Depth (40, 100) of a near surface in columns 50 to 70 in front of a wall."""
    depth = np.full((40, 100), far_m)
    depth[:, 50:70] = near_m
    return depth


def stereo_depth(depth: Array, sample: Sample, seed: int = 0, cuts: bool = True) -> Array:
    return apply_stereo(depth, sample, FOCAL, np.random.default_rng(seed), cuts)


def test_ideal_camera_changes_nothing() -> None:
    np.testing.assert_allclose(stereo_depth(post(), Sample()), post(), rtol=1e-6)
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    same = apply_camera(picture, Sample(), (0.0, 0.0), 1.0, np.random.default_rng(0))
    np.testing.assert_array_equal(same, picture)
    for kind in (picture, post().astype(np.float32)):
        np.testing.assert_allclose(captured(kind, Sample(), FOCAL, np.random.default_rng(0)), kind)


def test_stereo_occlusion_is_a_hole_on_the_left_of_near_surfaces() -> None:
    """The width is the difference: 100 x 0.05 m x (1 / 0.5 m - 1 / 3 m) = 8.3 pixels."""
    holes = np.isnan(stereo_depth(post(), Sample(depth_baseline_m=0.05)))
    assert holes[:, 42:50].all()
    assert not holes[:, :41].any()
    assert not holes[:, 50:].any()


def test_depth_error_and_quantisation_grow_with_squared_distance() -> None:
    for metres in (0.5, 1.0, 2.0, 4.0):
        wall = np.full((100, 100), metres)
        assert stereo_depth(wall, Sample(depth_error_per_m=0.005)).std() == pytest.approx(
            0.005 * metres**2, rel=0.1
        )
        ramp = np.linspace(metres, 1.2 * metres, 10_000).reshape(100, 100)
        values = np.unique(stereo_depth(ramp, Sample(depth_step_per_m=0.01)))
        assert np.diff(values).mean() == pytest.approx(0.01 * (1.1 * metres) ** 2, rel=0.15)


def test_depth_has_a_range_and_more_holes_far_away() -> None:
    depth = np.tile(np.linspace(0.05, 12.0, 1000), (100, 1))
    seen = stereo_depth(depth, Sample(depth_nearest_m=0.2, depth_range_m=6.0))
    assert np.isnan(seen[depth < 0.2]).all()
    assert np.isnan(seen[depth > 6.0]).all()
    assert not np.isnan(seen[(depth > 0.2) & (depth < 5.99)]).any()
    gone = np.isnan(stereo_depth(depth, Sample(depth_range_m=20.0, depth_holes=0.2)))
    assert gone[:, 600:].mean() > 1.3 * gone[:, :400].mean() > 0.05


def test_rgbd_depth_has_as_many_holes_as_depth() -> None:
    """Bytes saturate at 3 m: further surfaces have that depth, and holes as well."""
    sample = replace(Sample(), depth_holes=0.1, depth_range_m=4.0)
    for metres in (1.0, 2.5):
        depth = np.full((200, 200), metres, np.float32)
        byte = np.full((200, 200, 1), round(255 * metres / 3.0), np.uint8)
        pixels = np.concatenate((np.zeros((200, 200, 3), np.uint8), byte), axis=2)
        stereo = Sample(depth_range_m=4.0, depth_holes=0.1)
        expected = np.isnan(stereo_depth(depth, stereo)).mean()
        assert expected == pytest.approx(0.1 * (0.5 + metres / 4.0), rel=0.1)
        beside = np.isnan(stereo_depth(depth, stereo, cuts=False)).mean()
        assert beside == pytest.approx(expected, rel=0.1)
        assert captured(pixels, sample, FOCAL, np.random.default_rng(0)).shape == pixels.shape
    far = stereo_depth(np.full((200, 200), 100.0), stereo, cuts=False)
    assert np.isnan(far).mean() == pytest.approx(0.15, rel=0.1)
    assert np.nanmin(far) > 4.0


def test_patches_are_larger_than_pixels() -> None:
    gone = np.isnan(stereo_depth(np.full((64, 64), 1.0), Sample(depth_patches=0.2), seed=3))
    assert 0.05 < gone.mean() < 0.4
    neighbours = gone[:, 1:][gone[:, :-1]].mean()
    assert neighbours > 0.8


def test_flying_pixels_are_at_edges_and_between_front_and_back() -> None:
    seen = stereo_depth(post(), Sample(depth_flying=0.5))
    off = np.abs(seen - post()) > 0.01
    columns = np.flatnonzero(off.any(axis=0))
    assert set(columns) <= {49, 50, 69, 70}
    assert len(columns) >= 3
    assert ((seen[off] > 0.5) & (seen[off] < 3.0)).all()


def test_vignetting_darkens_corners_and_white_balance_tints() -> None:
    grey = np.full((33, 33, 3), 100, np.uint8)
    lens = Sample(camera_red=1.1, camera_blue=0.9, camera_vignetting=0.3)
    seen = apply_camera(grey, lens, (0.0, 0.0), 1.0, np.random.default_rng(0))
    np.testing.assert_allclose(seen[16, 16], (110, 100, 90), atol=1)
    np.testing.assert_allclose(seen[0, 0], np.array((110, 100, 90)) * 0.7, atol=1)


def test_motion_blur_acts_along_the_motion_alone() -> None:
    line = np.zeros((21, 21, 3), np.uint8)
    line[:, 10] = 250
    across = apply_camera(line, Sample(), (4.0, 0.0), 1.0, np.random.default_rng(0))
    along = apply_camera(line, Sample(), (0.0, 4.0), 1.0, np.random.default_rng(0))
    np.testing.assert_array_equal(along, line)
    assert (across[10, 8:13, 0] > 20).all()
    assert across[10, 10, 0] < 100
    assert across.sum() == pytest.approx(line.sum(), rel=0.05)


def test_automatic_exposure_follows_a_change_late_and_in_part() -> None:
    control = AutomaticExposure(strength=0.5, lag_s=0.1)
    bright, dark = (np.full((4, 4, 3), level, np.uint8) for level in (160, 40))
    assert control.factor(bright, 0.0) == 1.0
    factors = [control.factor(dark, 0.03 * (i + 1)) for i in range(40)]
    assert 1.0 < factors[0] < 1.2  # the first dark frame is too dark
    assert factors == sorted(factors)
    assert factors[-1] == pytest.approx((160 / 40) ** 0.5, rel=0.01)
    assert control.factor(dark, 1.2) == factors[-1]  # the same frame once more


def stream(kind: Kind, **values: float) -> tuple[CameraStream, list[Camera]]:
    """A camera on a base that turns left at 2 rad/s, and the cameras of its images."""
    used: list[Camera] = []
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)

    def view(camera: Camera, pose: BasePose) -> Array:
        used.append(camera)
        return picture if kind == "rgb" else np.full((32, 32), 1.0, np.float32)

    made = CameraStream(replace(Sample(), **values), Camera(A1.camera, kind=kind), view, 0)
    for step in range(50):
        made.observe(0.01 * step, BasePose((0.0, 0.0, 0.3), upright(0.02 * step)))
    return made, used


def test_motion_blur_has_the_width_of_the_turn_during_exposure() -> None:
    """27.6 pixels of focal length x 2 rad/s x 20 ms = 1.1 pixels, sideways."""
    camera, _ = stream("rgb", camera_shutter_s=0.02)
    left, up = camera._motion(0.4)
    assert left == pytest.approx(-Camera(A1.camera).focal_pixels * 0.04, rel=0.01)
    assert up == pytest.approx(0.0, abs=1e-6)
    sharp, _ = stream("rgb")

    def roughness(of: CameraStream) -> float:
        return float(np.abs(np.diff(of.newest(0.4).pixels.astype(float), axis=1)).mean())

    assert roughness(camera) < 0.8 * roughness(sharp)


@pytest.mark.parametrize("name", BODIES)
def test_mount_errors_shift_and_roll_the_image(name: str) -> None:
    """A yaw of four pixels to the left shifts the image by four pixels to the right."""
    body = make_body(name, A1, ObstacleCourse(0.5))
    body.reset(3)
    level = replace(A1.camera, pitch_down_rad=0.0)
    straight = Camera(level, 65, 65, "depth")
    pictures = []
    for camera in (
        straight,
        replace(straight, yaw_rad=4.0 / straight.focal_pixels),
        replace(straight, roll_rad=np.pi / 2),
    ):
        body.camera = camera
        pictures.append(body.render().pixels)
    far = [picture > 5.0 for picture in pictures]
    assert (far[0][:, 20:40] == far[1][:, 24:44]).mean() > 0.95
    # Rolled clockwise, as seen from behind: what was above is on the left.
    assert (far[2] == np.rot90(far[0])).mean() > 0.95
    body.close()


def test_randomised_camera_draws_field_of_view_and_mount_errors() -> None:
    """They reach the renderer, differ between episodes and repeat for a seed."""
    turned, used = stream("rgb", camera_zoom=1.05, camera_yaw_rad=0.02, camera_roll_rad=-0.01)
    turned.newest(0.4)
    assert used[0].mount.vertical_fov_rad == pytest.approx(1.05 * A1.camera.vertical_fov_rad)
    assert (used[0].yaw_rad, used[0].roll_rad) == (0.02, -0.01)
    for kind in ("rgb", "depth", "rgbd"):
        body = KinematicBody(
            A1,
            ObstacleCourse(0.5),
            camera=Camera(A1.camera, kind=kind),
            randomisation=Randomisation(),
        )
        pictures = []
        for seed in (1, 2, 1):
            body.reset(seed)
            pictures.append(body.render().pixels)
        assert np.isfinite(pictures[0]).any()
        np.testing.assert_array_equal(pictures[0], pictures[2])
        assert not np.array_equal(pictures[0], pictures[1])
        body.close()


def test_every_camera_parameter_changes_the_image() -> None:
    """No range is drawn without effect."""
    flaws = {
        name: getattr(Randomisation(), name)[1]
        for name in asdict(Sample())
        if name.startswith(("camera_", "depth_"))
    }
    picture = np.random.default_rng(0).integers(0, 250, (32, 32, 3)).astype(np.uint8)
    depth = np.where(np.arange(32) < 16, 8.0, 1.0) + np.linspace(0.0, 0.3, 32)[:, None]
    depth[:, :3] = 0.15
    for name in [n for n in flaws if n.startswith("depth_")]:
        value = 4.0 if name == "depth_range_m" else flaws[name]
        ideal, flawed = (
            np.array(
                [apply_stereo(depth, sample, 28.0, np.random.default_rng(i)) for i in range(20)]
            )
            for sample in (Sample(), replace(Sample(), **{name: value}))
        )
        assert not np.array_equal(ideal, flawed, equal_nan=True), name
    for field, value in {"gain": 1.3, "noise": 8.0, "red": 1.1, "blue": 1.1}.items():
        sample = replace(Sample(), **{f"camera_{field}": value})
        seen = apply_camera(picture, sample, (0.0, 0.0), 1.0, np.random.default_rng(0))
        assert not np.array_equal(seen, picture), field
