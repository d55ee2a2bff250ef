"""Policies that see depth or RGB-D: one image shape decides camera, contract, graphs and topics."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.policies.high_level import Architecture, HighLevelNetwork
from pixelgait.policies.runs.trained import trained_high_level
from pixelgait.policies.training import rollouts as worker
from pixelgait.policies.training.dagger import Courses, collect
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import RolloutWorker
from pixelgait.robot.bundle import BundleError, load_bundle
from pixelgait.robot.control.observation import DEPTH_RANGE_M, depth_bytes, fill_holes
from pixelgait.robot.errors import UserError
from pixelgait.robot.runtime.camera_images import depth_frame, rgb_frame
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.body.sensors import captured
from tests.conftest import Command
from tests.helpers import change_contract
from tests.helpers import image_fields as message

GIBSON_IAP = "iap:channels=1,height=16,width=16,patch=4,stride=4,selected=4"  # the paper's, fig. 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("depth", "mujoco"),
        ("rgbd", "pybullet"),
        pytest.param("depth", "pybullet", marks=pytest.mark.long),
        pytest.param("rgbd", "mujoco", marks=pytest.mark.long),
    ],
)
def test_a_bundle_is_evaluated_with_the_camera_it_needs(
    command: Command, request: pytest.FixtureRequest, tmp_path: Path, kind: str, body: str
) -> None:
    bundle: Path = request.getfixturevalue(f"{kind}_bundle")
    arguments = ("--episodes", 1, "--seconds", 0.5, "--workers", 1, "--json", tmp_path / "f.json")
    done = command("pixelgait-eval", bundle, "--body", body, *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "f.json").read_text())["episodes"][0]["steps"] == 50


@pytest.mark.slow
def test_a_depth_policy_is_trained(command: Command, tmp_path: Path) -> None:
    sizes = ("--iterations", 1, "--dagger.courses", 1, "--dagger.steps", 1, "--workers", 1)
    steps = ("--steps", 50, "--validation-steps", 50, "--validation-episodes", 1)
    students = ("--encoder", GIBSON_IAP, "--mirror", "--dagger.students", 2)
    done = command("pixelgait-train", "imitate", "--out", "run", *students, *sizes, *steps)
    assert done.returncode == 0, done.stderr
    assert trained_high_level(tmp_path / "run").image_shape == (16, 16, 1)


def test_an_encoder_with_two_channels_is_refused() -> None:
    for name in ("cnn", "strided", "iap", "vit"):
        with pytest.raises(
            ValueError, match=r"2 channels, images have 1 \(depth\), 3 \(RGB\) or 4"
        ):
            HighLevelNetwork(f"{name}:channels=2")


def test_the_contract_describes_image_bytes(depth_bundle: Path, rgbd_bundle: Path) -> None:
    camera = load_bundle(depth_bundle).contract["camera"]
    assert (camera["height"], camera["width"], camera["channels"]) == (16, 16, 1)
    assert (camera["encoding"], camera["depth_range_m"]) == ("depth", DEPTH_RANGE_M)
    camera = load_bundle(rgbd_bundle).contract["camera"]
    assert (camera["height"], camera["width"], camera["channels"]) == (24, 32, 4)
    assert (camera["encoding"], camera["depth_range_m"]) == ("rgbd", DEPTH_RANGE_M)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda camera: camera.update(depth_range_m=5.0),
            r"camera\.depth_range_m is 5.0, .* with 3.0",
        ),
        (lambda camera: camera.pop("depth_range_m"), r"key 'camera\.depth_range_m' is missing"),
        (
            lambda camera: camera.update(encoding="rgb8"),
            r"camera\.encoding is rgb8, .* works with depth",
        ),
        (lambda camera: camera.update(channels=2), r"2 channels, .* 1 \(depth\), 3 \(rgb8\)"),
    ],
)
def test_an_unsupported_camera_is_refused_by_name(
    depth_bundle: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    copy = Path(shutil.copytree(depth_bundle, tmp_path / "copy"))
    change_contract(copy, lambda contract: edit(contract["camera"]))
    with pytest.raises(BundleError, match=message):
        load_bundle(copy)


def test_training_sees_what_the_encoder_sees() -> None:
    plan = Plan(task="imitate", steps=300, high_level=Architecture(GIBSON_IAP))
    worker.start_worker(plan)
    ((shown, _),) = collect(Courses(None, (5,), 0.5))
    images = shown.images
    assert images.shape == (len(shown.latents), 16, 16, 1)
    assert images.dtype == np.uint8
    assert (images[:, :3] == 255).mean() > 0.5  # mostly sky
    assert 20 < images[:, -1].mean() < 90  # the ground in front of the feet: 0.3 to 1 m
    worker.this_worker().close()
    eyes = Architecture("cnn:channels=4,height=24")
    own = RolloutWorker(Plan(task="course", steps=10, high_level=eyes))
    assert own.body(0.5, 5).reset(5).image().pixels.shape == (24, 32, 4)
    own.close()


def test_special_values_of_a_depth_image() -> None:
    row = np.array([[1.0, np.nan, 2.0, 0.0, -np.inf, np.inf, -5.0]], dtype=np.float32)
    depth = depth_frame(message(row, "32FC1"), 1, 7)
    assert depth is not None
    # Unmeasured (NaN, 0, negative): depth of the farther neighbour. -inf: at the lens.
    np.testing.assert_array_equal(depth, [[1.0, 2.0, 2.0, 2.0, 0.0, np.inf, np.inf]])
    np.testing.assert_array_equal(depth_bytes(depth), [[85, 170, 170, 170, 0, 255, 255]])
    for hole in (np.nan, 0.0):
        assert depth_frame(message(np.full((4, 4), hole, np.float32), "32FC1"), 2, 2) is None


@pytest.mark.parametrize("kind", ["<u2", ">u2"])
def test_holes_in_millimetres_take_the_farther_side(kind: str) -> None:
    pixels = np.kron(np.array([[2000, 0, 2900], [0, 0, 900], [0, 0, 0]]), np.ones((3, 3), int))
    pixels[0, 0] = pixels[1, 2] = 0  # single ones vanish in their cell
    depth = depth_frame(message(pixels.astype(kind), "16UC1", padding=5), 3, 3)
    # Filled from above, else from beside; the middle of the last row has no neighbour.
    expected = [[2.0, 2.9, 2.9], [2.0, 0.9, 0.9], [2.0, np.inf, 0.9]]
    np.testing.assert_allclose(depth, expected, rtol=1e-6)


def scene_with_gap(beyond: float) -> np.ndarray:
    """Two walls of 1 and 1.5 m on a floor that leads on between them; `beyond`: behind the gap."""
    depth = np.full((8, 9), beyond, dtype=np.float32)
    depth[5:] = np.array([3.0, 2.0, 1.2])[:, None]  # floor, nearer at the bottom
    depth[2:6, :3], depth[2:6, 6:] = 1.0, 1.5
    return depth


def test_a_gap_with_nothing_behind_it_is_open_and_a_hole_in_a_wall_is_wall() -> None:
    nan = np.float32(np.nan)
    depth = scene_with_gap(beyond=nan)
    depth[3, 1] = depth[4, 7] = nan  # not matched, in either wall
    filled = fill_holes(depth)
    assert np.isinf(filled[:2]).all()  # above the walls
    assert np.isinf(filled[2:5, 3:6]).all()  # between them
    assert filled[3, 1] == 1.0
    assert filled[4, 7] == 1.5
    np.testing.assert_array_equal(filled[5:], scene_with_gap(beyond=5.0)[5:])
    # With a measured background nothing is open but what is farther than that.
    np.testing.assert_array_equal(fill_holes(scene_with_gap(5.0)), scene_with_gap(5.0))


def test_the_upper_part_of_a_wall_right_ahead_stays_wall() -> None:
    """Unmatched between measured parts of the same wall, whose foot is no farther than it is."""
    depth = np.full((6, 6), 0.8, dtype=np.float32)
    depth[:3, 2:4] = np.nan
    np.testing.assert_array_equal(fill_holes(depth), np.full((6, 6), 0.8, np.float32))


def test_simulated_holes_are_filled_by_the_same_rule() -> None:
    sample = replace(Sample(), depth_range_m=4.0, depth_holes=0.1)
    seen = captured(scene_with_gap(beyond=5.0), sample, 28.0, np.random.default_rng(1))
    assert np.isinf(seen[:2, 3:6]).all()  # 5 m is beyond its range
    assert set(np.unique(seen[2:5, :3])) <= {np.float32(1.0), np.float32(1.5)}  # either wall
    assert (seen[2:5, :2] == 1.0).all()  # not beside the gap


def test_depth_edges_stay_sharp_and_outliers_are_rejected() -> None:
    pixels = np.full((480, 848), 3000, np.uint16)
    pixels[:, 431:] = 700  # a near wall whose edge is inside a cell
    pixels[::7, ::11] = 12  # speckles
    pixels[:, :180] = 50  # cropped away
    pixels[:, 668:] = 50
    depth = depth_frame(message(pixels, "16UC1"), 16, 16)
    assert depth is not None
    np.testing.assert_array_equal(np.unique(depth), np.array([0.7, 3.0], np.float32))
    assert (depth[:, :8] == 3.0).all()
    assert (depth[:, 9:] < 1.0).all()


@pytest.mark.parametrize(("height", "width"), [(64, 1), (1, 64), (1, 1)])
def test_a_one_pixel_wide_policy_accepts_any_camera(height: int, width: int) -> None:
    for rows, columns in ((32, 48), (48, 32), (1, 1)):  # pixels have no 64th
        pixels = np.full((rows, columns), 2000, np.uint16)
        depth = depth_frame(message(pixels, "16UC1"), height, width)
        np.testing.assert_array_equal(depth, np.full((height, width), 2.0, np.float32))
        gray = np.full((rows, columns, 3), 90, np.uint8)
        colours = rgb_frame(message(gray, "rgb8"), height, width)
        np.testing.assert_array_equal(colours, np.full((height, width, 3), 90, np.uint8))


def test_a_simulated_frame_comes_through_unchanged() -> None:
    rendered = np.random.default_rng(0).uniform(0.1, 30.0, (16, 16)).astype(np.float32)
    np.testing.assert_array_equal(depth_frame(message(rendered, "32FC1"), 16, 16), rendered)


def test_an_invalid_depth_message_is_refused() -> None:
    colours = message(np.zeros((4, 4, 3), np.uint8), "rgb8")
    with pytest.raises(UserError, match="'rgb8' is not supported, need 32FC1, 16UC1"):
        depth_frame(colours, 4, 4)
    short = message(np.ones((4, 4), np.uint16), "16UC1")
    short.data = short.data[:-1]
    with pytest.raises(UserError, match="cut short"):
        depth_frame(short, 4, 4)
    for size, data in (((0, 0), b""), ((3, 0), short.data)):
        empty = message(np.ones((4, 4), np.uint16), "16UC1")
        (empty.height, empty.width), empty.data = size, data
        with pytest.raises(UserError, match="cut short"):
            depth_frame(empty, 4, 4)


def leg_before_wall(leg_m: float, distance_m: float, across_m: float) -> np.ndarray:
    """Depth [mm] of an upright before a wall 3 m away, by a camera of 424 x 240 with noise."""
    focal = 120.0 / np.tan(1.05 / 2.0)
    across = (np.arange(424) + 0.5 - 212.0) / focal
    inverse = np.full((240, 424), 1.0 / 3.0)
    inverse[60:200, np.abs(across * distance_m - across_m) < leg_m / 2.0] = 1.0 / distance_m
    noise = np.random.default_rng(0).normal(0.0, 0.0089, inverse.shape)  # of a RealSense [1/m]
    return np.asarray(1000.0 / (inverse + noise), np.uint16)


@pytest.mark.parametrize(
    ("leg_m", "distance_m", "least"), [(0.02, 1.0, 1.0), (0.02, 1.5, 0.95), (0.02, 2.0, 0.6)]
)
def test_a_thin_leg_is_seen_wherever_it_stands(
    leg_m: float, distance_m: float, least: float
) -> None:
    places = np.linspace(-0.3, 0.3, 40)
    seen = 0
    for across_m in places:
        depth = depth_frame(message(leg_before_wall(leg_m, distance_m, across_m), "16UC1"), 32, 32)
        assert depth is not None
        near = depth < 1.15 * distance_m
        seen += bool(near[10:25].all(0).any())  # a whole column
        wall = np.delete(depth, np.flatnonzero(near[10:25].any(0)), axis=1)
        assert wall.min() > 2.7  # no leg where none is
    assert seen >= least * len(places)
