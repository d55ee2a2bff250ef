"""The map that is a policy's second image: places, memory, cost; from training to the graph."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.high_level import Architecture, HighLevelNetwork, make_high_level
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.control.controller import Decision, DecisionScheduler, latent_for
from pixelgait.robot.control.observation import depth_bytes, goal_vector
from pixelgait.robot.control.policy_map import (
    AHEAD_ROWS,
    HERE,
    OBSTACLE,
    PER_M,
    PIXEL_M,
    WALKING_SHARE,
    PolicyMap,
)
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.mapping.depth_view import depth_view, lens_of
from pixelgait.robot.rotation import rotation_at, upright
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import camera_for
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.gliding import Glide, Look, glide_episodes
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.world.map_kernels import spread
from tests.conftest import Command, make_bundle

ROWS, COLUMNS = 32, 48
ENCODER = "strided:channels=1,height=64,width=48,wide=0.25"
LEVEL = (0.0, 0.0, 1.0)
GOAL = np.array((9.0, 0.0))


def wall_at(ahead_m: float, half_m: float, height_m: float) -> np.ndarray:
    """Depth bytes (32, 48) of level ground and an upright wall, seen by a walking A1."""
    view = depth_view(A1.camera, ROWS, COLUMNS, lens_of(A1.camera, ROWS, COLUMNS, 1.5))
    x, y, z = view.position.astype(float)
    z += WALKING_SHARE * A1.stand_height_m
    depth = np.full(view.rays.shape[1], 9.0, np.float32)
    for i, (dx, dy, dz) in enumerate(view.rays.T.astype(float)):
        if dz < 0.0:
            depth[i] = min(depth[i], -z / dz)
        along = (ahead_m - x) / dx
        if abs(y + along * dy) < half_m and 0.0 <= z + along * dz < height_m:
            depth[i] = min(depth[i], along)
    return depth_bytes(depth.reshape(ROWS, COLUMNS))


def middles() -> tuple[np.ndarray, np.ndarray]:
    """Where the middles of the pixels are (32, 48): ahead and left of the base [m]."""
    ahead = (AHEAD_ROWS - np.arange(ROWS) - 0.5) * PIXEL_M
    left = (COLUMNS / 2 - np.arange(COLUMNS) - 0.5) * PIXEL_M
    return tuple(np.meshgrid(ahead, left, indexing="ij"))


def obstacles(
    pixels: PolicyMap, x: float = 0.0, y: float = 0.0, heading_rad: float = 0.0
) -> np.ndarray:
    """Places of obstacles (n, 2), ahead and left of the base [m]."""
    found = pixels.image(x, y, heading_rad, GOAL) == OBSTACLE
    return np.stack([each[found] for each in middles()], axis=-1)


def way_down(image: np.ndarray) -> np.ndarray:
    """Pixels (n, 2) from the robot's on, each the lowest beside the last one."""
    at = (AHEAD_ROWS, COLUMNS // 2)
    way = [at]
    while True:
        beside = [(at[0] + i, at[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        beside = [(i, j) for i, j in beside if 0 <= i < ROWS and 0 <= j < COLUMNS]
        lowest = min(beside, key=lambda each: image[each])
        if image[lowest] >= image[at]:
            return np.array(way)
        at = lowest
        way.append(at)


@pytest.fixture
def pixels() -> PolicyMap:
    return PolicyMap(A1, ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("height_m", "ahead_m"), [(0.07, 0.9), (0.1, 0.9), (0.15, 1.5), (0.3, 1.5), (1.0, 2.3)]
)
def test_a_wall_is_where_it_stands(pixels: PolicyMap, height_m: float, ahead_m: float) -> None:
    pixels.add(wall_at(ahead_m, 0.4, height_m), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    places = obstacles(pixels)
    assert np.abs(places[:, 0] - ahead_m).max() <= 0.2
    assert np.abs(places[:, 1]).max() <= 0.6
    assert len(places) >= 3


def test_ground_alone_has_no_obstacle(pixels: PolicyMap) -> None:
    pixels.add(wall_at(1.5, 0.4, 0.0), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    assert not len(obstacles(pixels))


@pytest.mark.parametrize("off_rad", [-0.09, -0.05, 0.05, 0.09])
def test_a_bent_bracket_lifts_no_floor(pixels: PolicyMap, off_rad: float) -> None:
    """The mount's pitch and the IMU are off together; the floor says by how much."""
    tilted = rotation_at((math.sin(off_rad), 0.0, math.cos(off_rad)), 0.0)
    floor = wall_at(1.5, 0.4, 0.0)
    for _ in range(12):
        pixels.add(floor, 0.0, 0.0, tilted)
    assert not len(obstacles(pixels))
    assert abs(abs(pixels.floor.plane[0]) - abs(math.tan(off_rad))) < 0.01
    for _ in range(3):
        pixels.add(wall_at(1.5, 0.4, 0.15), 0.0, 0.0, tilted)
    places = obstacles(pixels)
    assert np.abs(places[:, 0] - 1.5).max() <= 0.3


def test_missing_depth_makes_no_obstacle_go(pixels: PolicyMap) -> None:
    """A camera right before a wall measures nothing: that is no free way."""
    pixels.add(wall_at(0.6, 0.4, 0.5), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    known = len(obstacles(pixels))
    for _ in range(10):
        pixels.add(np.full((ROWS, COLUMNS), 255, np.uint8), 0.2, 0.0, rotation_at(LEVEL, 0.0))
    assert len(obstacles(pixels)) == known > 0


@pytest.mark.parametrize("turn_rad", [0.5 * math.pi, -2.0, 3.0])
def test_what_the_camera_no_longer_sees_is_remembered(pixels: PolicyMap, turn_rad: float) -> None:
    pixels.add(wall_at(1.5, 0.4, 0.3), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    cos, sin = math.cos(turn_rad), math.sin(turn_rad)
    ahead, left = 1.0 * cos - 0.2 * sin, -1.0 * sin - 0.2 * cos
    off = np.hypot(*(obstacles(pixels, 0.5, 0.2, turn_rad) - (ahead, left)).T)
    assert off.min() < 0.25
    assert off.max() < 0.8


def test_a_thing_that_goes_away_is_forgotten_when_the_camera_looks_there(pixels: PolicyMap) -> None:
    level = rotation_at(LEVEL, 0.0)
    for _ in range(3):
        pixels.add(wall_at(1.5, 0.4, 0.3), 0.0, 0.0, level)
    for _ in range(8):
        pixels.add(wall_at(2.5, 0.4, 0.3), 0.0, 0.0, level)
    assert np.abs(obstacles(pixels)[:, 0] - 2.5).max() <= 0.2


@pytest.mark.parametrize("goal", [(2.0, 1.0), (-1.0, -2.0), (30.0, -12.0)])
def test_without_obstacles_the_cost_is_the_distance(
    pixels: PolicyMap, goal: tuple[float, float]
) -> None:
    to_goal = goal_vector(np.array(goal), np.zeros(3))
    image = pixels.image(0.0, 0.0, 0.0, to_goal).astype(float)
    ahead, left = middles()
    nearer = (math.hypot(*goal) - np.hypot(goal[0] - ahead, goal[1] - left))[5:-5, 12:-12]
    by_image = (HERE - image[5:-5, 12:-12]) / PER_M
    # Steps lead in eight directions.
    assert np.abs(by_image - nearer).max() < 0.3 + 0.085 * np.abs(nearer).max()


@pytest.mark.parametrize("bearing_rad", [0.0, 0.8, -2.0])
def test_without_a_goal_the_way_down_leads_ahead(pixels: PolicyMap, bearing_rad: float) -> None:
    pixels.add(wall_at(2.0, 0.4, 0.5), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    image = pixels.image(0.0, 0.0, 0.0, np.array((math.inf, bearing_rad)))
    ahead, left = (each[image == image.min()].mean() for each in middles())
    assert abs(math.atan2(left, ahead) - bearing_rad) < 0.5


@pytest.mark.parametrize("heading_rad", [0.0, 1.0, 2.5])
def test_the_way_down_leads_around_a_wall(pixels: PolicyMap, heading_rad: float) -> None:
    """The wall was seen, then the robot turned."""
    for _ in range(3):
        pixels.add(wall_at(1.5, 0.6, 0.5), 0.0, 0.0, rotation_at(LEVEL, 0.0))
    image = pixels.image(
        0.0, 0.0, heading_rad, goal_vector(np.array((2.5, 0.0)), np.array((0.0, 0.0, heading_rad)))
    )
    way = way_down(image)
    ahead, left = (each[tuple(way.T)] for each in middles())
    x = ahead * math.cos(heading_rad) - left * math.sin(heading_rad)
    y = ahead * math.sin(heading_rad) + left * math.cos(heading_rad)
    assert math.hypot(x[-1] - 2.5, y[-1]) < 0.3
    assert not (image[tuple(way.T)] == OBSTACLE).any()
    assert np.abs(y[(x > 1.3) & (x < 1.7)]).min() > 0.6


def test_training_plans_the_same_costs(pixels: PolicyMap) -> None:
    """By another order of the same sums."""
    quick, rng = PolicyMap(A1, ROWS, COLUMNS, spread), np.random.default_rng(0)
    for heading_rad in np.linspace(0.0, 6.0, 12):
        wall = wall_at(rng.uniform(0.6, 2.5), rng.uniform(0.2, 1.0), rng.uniform(0.1, 1.0))
        goal = np.array((rng.uniform(0.0, 12.0), rng.uniform(-3.0, 3.0)))
        drawn = []
        for each in (pixels, quick):
            each.add(wall, 0.0, 0.0, rotation_at(LEVEL, heading_rad))
            drawn.append(each.image(0.0, 0.0, 0.0, goal))
        np.testing.assert_array_equal(*drawn)


def test_out_of_a_dead_end_the_way_leads_back(pixels: PolicyMap) -> None:
    """The robot has seen three walls of a room; the goal is behind the far one."""
    for heading_rad in (-1.2, 0.0, 1.2):
        for _ in range(3):
            pixels.add(wall_at(1.2, 1.3, 0.8), 0.0, 0.0, rotation_at(LEVEL, heading_rad))
    way = way_down(pixels.image(0.0, 0.0, 0.0, np.array((3.0, 0.0))))
    assert way[:, 0].max() > AHEAD_ROWS + 1  # behind the robot
    ahead, _ = (each[tuple(way.T)] for each in middles())
    assert ahead[-1] > 2.0  # where values end: the goal is nearer by 5.5 m


def stood(x: float, heading_rad: float, time_s: float) -> Reading:
    """A reading of a level robot at x [m] with this heading."""
    place = np.array((x, 0.0, heading_rad))
    still = np.zeros(12)
    orientation = np.array(upright(heading_rad))
    return Reading(time_s, still, still, orientation, np.zeros(3), lambda: None, place)  # type: ignore[arg-type, return-value]


def looked(pixels: PolicyMap, ahead_m: float, time_s: float) -> np.ndarray:
    return pixels.seen(Image(wall_at(ahead_m, 0.4, 0.3)[..., None], time_s), GOAL)


def test_an_image_counts_from_where_it_was_taken(pixels: PolicyMap) -> None:
    """It arrives 0.2 s late, while the robot turns by 1 rad/s."""
    for step in range(21):
        pixels.step(stood(0.0, step / 100, step / 100))
    looked(pixels, 1.5, 0.0)
    places = obstacles(pixels)
    assert np.abs(places[:, 0] - 1.5).max() <= 0.2
    assert abs(places[:, 1].mean()) < 0.1


def test_a_jump_of_the_odometry_begins_another_map(pixels: PolicyMap) -> None:
    pixels.step(stood(0.0, 0.0, 0.0))
    assert (looked(pixels, 1.5, 0.0) == OBSTACLE).any()
    pixels.step(stood(3.0, 0.0, 0.01))
    assert not len(obstacles(pixels, 3.0))


@pytest.mark.parametrize("odometry", [None, np.full(3, np.nan)])
def test_without_odometry_nothing_is_seen(pixels: PolicyMap, odometry: np.ndarray | None) -> None:
    pixels.step(replace(stood(0.0, 0.0, 0.0), odometry=odometry))
    assert (looked(pixels, 1.5, 0.0) == HERE).all()


def test_a_controller_sees_the_map_that_training_shows() -> None:
    """The same robot in the same house, decided for by either."""
    camera = camera_for(A1.camera, (ROWS, COLUMNS, 1))
    latents = [latent_for(0.4, turn) for turn in (0.0, 0.8, -0.5, 0.0)]
    shown: list[np.ndarray] = []

    def decide(looks: list[Look]) -> list[Decision]:
        shown.append(looks[0].image)
        return [Decision(latents[len(shown) % 4], 20)]

    def glider() -> KinematicBody:
        return KinematicBody(A1, make_scene("rooms", 0.7), camera=camera)

    body = glider()
    task = navigation_task(body.scene, 600)
    glide_episodes(decide, [Glide(0, body, task, 3, PolicyMap(A1, ROWS, COLUMNS))])  # type: ignore[arg-type]

    seen: list[np.ndarray] = []

    def high_level(image: np.ndarray, goal: np.ndarray, state: None, drawn: np.ndarray) -> Decision:
        seen.append(Image(image, 0.0, drawn).whole)
        return Decision(latents[len(seen) % 4], 20)

    other = glider()
    scheduler = DecisionScheduler(high_level, around=PolicyMap(A1, ROWS, COLUMNS))
    other.reset(3)
    navigation_task(other.scene, 600).reset(other, 3)  # a push
    scheduler.reset()
    scheduler.go_to(other.scene.goal_position)
    while len(seen) < len(shown):
        reading = other.read()
        orientation = np.array(other.trunk_pose().orientation)  # that of its IMU
        scheduled = scheduler.schedule(replace(reading, orientation=orientation))
        other.follow(scheduled.latent)
    assert len(shown) > 20
    assert len({image.tobytes() for image in shown}) > 20
    # Poses are computed in another order: a point on a cell's edge may fall into the next one.
    assert (np.array(seen) != np.array(shown)).mean() < 1e-3


@pytest.mark.parametrize(
    "options", ["height=64,width=48", "channels=1", "channels=1,height=64,width=64,wide=0.25"]
)
def test_a_map_needs_depth_and_rows_of_its_own(options: str) -> None:
    with pytest.raises(ValueError, match="map"):
        HighLevelNetwork(f"strided:{options}", map=True)


@pytest.mark.parametrize(
    "encoder",
    [
        ENCODER,
        "iap:channels=4,height=64,width=48,patch=4,stride=4,selected=4",
        "siet:graph=flip,channels=1,height=64,width=48,dim=4,heads=1,local_layers=0",
    ],
)
def test_a_bundle_with_a_map_walks_and_decides_by_it(
    tmp_path: Path, command: Command, encoder: str
) -> None:
    folder = make_bundle(tmp_path, encoder, goal=True, memory="gru:4", map=True, mirror=True)
    bundle = load_bundle(folder)
    assert bundle.image_shape[:2] == (ROWS, COLUMNS)
    assert bundle.takes["map"] == [ROWS, COLUMNS]
    architecture = Architecture(encoder, True, goal=True, memory="gru:4", map=True)
    network = make_high_level(architecture, seed=1)
    rng, goal = np.random.default_rng(0), np.array((2.0, 0.3))
    image = rng.integers(0, 256, bundle.image_shape, dtype=np.uint8)
    drawn = rng.integers(0, 256, (ROWS, COLUMNS), dtype=np.uint8)
    one, two = (each(image, goal, None, drawn) for each in (bundle.high_level, network.decide))
    np.testing.assert_allclose(one.latent, two.latent, atol=1e-5)
    assert one.attention is not None
    assert one.attention.shape[0] * COLUMNS == one.attention.shape[1] * 2 * ROWS
    assert np.abs(one.latent - bundle.high_level(image, goal).latent).max() > 1e-6
    walk = "--scene", "rooms", "--episodes", "1", "--seconds", "2"
    done = command("pixelgait-eval", folder, *walk)
    assert done.returncode == 0, done.stderr
