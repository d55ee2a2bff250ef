"""Every scene in every simulator: reset, determinism, ground and a path to the goal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import cv2
import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import pixelgait.sim.envs  # noqa: F401  it registers them
from docs.figures.results.contact_sheet import LABEL_PX, write_contact_sheet
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.environments.robot_envs import GaitEnv
from pixelgait.sim.scenes.courses.fields import OUTLINE_M, Fields
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.registry import SCENES, is_graded, make_scene
from pixelgait.sim.world.motions import placed
from pixelgait.sim.world.scene import STORE, HeightField, Layout, Pose, corners
from tests.helpers import (
    EVERY_SCENE,
    HOLD,
    ROBOT_HALF_M,
    clearance,
    held_still,
    located,
    resident_mb,
)

CELL_M = 0.05
VARIED = [name for name in SCENES if name != "flat"]


@pytest.fixture(scope="module", params=[(s, b) for s in EVERY_SCENE for b in BODIES], ids="-".join)
def body(request: pytest.FixtureRequest, house: Path) -> Iterator[SimulatedBody]:
    scene, name = request.param
    body = make_body(name, A1, make_scene(located(scene, house), 1.0))
    yield body
    body.close()


def test_the_robot_stands_at_the_start(body: SimulatedBody) -> None:
    for seed in (0, 1):
        path = held_still(body, seed, 100)
        moved = path[-1, :3] - path[0, :3]
        assert np.abs(moved[:2]).max() < 0.1
        assert -0.08 < moved[2] < 0.02


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("scene", EVERY_SCENE)
def test_every_scene_can_be_built_at_difficulty_zero(scene: str, name: str, house: Path) -> None:
    """Curricula begin with it."""
    easiest = make_body(name, A1, make_scene(located(scene, house), 0.0))
    easiest.reset(0)
    easiest.close()


def test_an_episode_is_bit_equal_for_its_seed(body: SimulatedBody) -> None:
    first = held_still(body, 3, 20)
    image = body.render().pixels
    held_still(body, 4, 20)
    other = body.render().pixels
    np.testing.assert_array_equal(first, held_still(body, 3, 20))
    np.testing.assert_array_equal(image, body.render().pixels)
    assert np.array_equal(image, other) == (body.scene.name == "flat")


@pytest.mark.long
def test_memory_is_flat_over_resets(body: SimulatedBody) -> None:
    for seed in range(5):
        body.reset(seed)
    before = resident_mb()
    for seed in range(200):
        body.reset(seed)
        body.apply(HOLD)
    assert resident_mb() - before < 20.0


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("scene", EVERY_SCENE)
def test_every_scene_is_an_environment(scene: str, name: str, house: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place = located(scene, house)
        difficulty = 0.5 if is_graded(place) else None
        env = GaitEnv(place, difficulty, render_mode="rgb_array", body=name)
        env.spec = gymnasium.spec("PixelGait/ObstacleCourse-v0")
        check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()


@pytest.mark.parametrize("name", SCENES)
def test_ground_m_is_the_height_of_the_shapes(name: str) -> None:
    """Measured by rays from above, except under obstacles."""
    body = PyBulletBody(A1, make_scene(name, 1.0))
    points = np.random.default_rng(0).uniform((-20.0, -20.0), (30.0, 20.0), (200, 2))
    near = np.random.default_rng(1).uniform((-2.0, -2.0), (15.0, 2.0), (200, 2))
    points = np.vstack((points, near))
    found = 0
    for seed in range(3):
        body.reset(seed)
        body.place((0.0, 0.0, 50.0), (0.0, 0.0, 0.0, 1.0))
        starts = np.column_stack((points, np.full(len(points), 5.0)))
        ends = np.column_stack((points, np.full(len(points), -5.0)))
        hits = pybullet.rayTestBatch(starts.tolist(), ends.tolist(), physicsClientId=body.client)
        for (x, y), hit in zip(points, hits, strict=True):
            ground = body.scene.ground_m(x, y)
            if ground is not None:  # a field's squares are split into triangles: 1 cm
                assert hit[3][2] > ground - 0.01
                found += hit[3][2] < ground + 0.01
            elif name not in (
                "rough",
                "mixture",
            ):  # nothing, the surroundings or a wall that overhangs them
                assert hit[0] == -1 or abs(hit[3][2]) > 0.2
    assert found > 100
    body.close()


@pytest.mark.parametrize("name", VARIED)
def test_every_seed_has_its_own_layout(name: str) -> None:
    scene = make_scene(name, 0.5)
    layouts = [scene.layout(np.random.default_rng(seed)) for seed in (0, 1, 0)]
    assert layouts[0] == layouts[2] != layouts[1]


@pytest.mark.parametrize("name", ["slalom", "clutter"])
def test_straight_walk_never_passes_a_scene(name: str) -> None:
    scene = make_scene(name, 1.0)
    for seed in range(50):
        layout = scene.layout(np.random.default_rng(seed))
        for heading in (0.0, layout.start.yaw):
            along = np.arange(0.0, 13.0, CELL_M)[:, None]
            path = along * (np.cos(heading), np.sin(heading)) + (layout.start.x, layout.start.y)
            on_ground = [scene.ground_m(x, y) is not None for x, y in path]
            assert (clearance(scene, layout, path)[on_ground] < ROBOT_HALF_M).any()


def test_no_lane_of_the_slalom_is_free() -> None:
    scene = make_scene("slalom", 1.0)
    x, y = np.mgrid[0.0:12.0:CELL_M, -1.25:1.26:CELL_M]
    points = np.column_stack((x.ravel(), y.ravel()))
    for seed in range(20):
        layout = scene.layout(np.random.default_rng(seed))
        clear = clearance(scene, layout, points).reshape(x.shape)
        assert (clear.min(axis=0) < ROBOT_HALF_M).all()


def test_easiest_slalom_has_free_lanes() -> None:
    """Counterexample to the test above."""
    scene = make_scene("slalom", 0.0)
    path = np.column_stack((np.arange(0.0, 12.0, CELL_M), np.full(240, 0.45)))
    free = [
        (clearance(scene, scene.layout(np.random.default_rng(seed)), path) > ROBOT_HALF_M).all()
        for seed in range(20)
    ]
    assert any(free)


@pytest.mark.parametrize("difficulty", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "name",
    ["obstacle-course", "gates", "free-standing", "slalom", "clutter", "bridges", "room-chain"],
)
def test_every_scene_has_a_path_to_the_goal(name: str, difficulty: float) -> None:
    scene = make_scene(name, difficulty)
    x, y = np.mgrid[-0.5 : scene.goal_m + 0.2 : CELL_M, -1.7:1.7:CELL_M]
    cells = np.column_stack((x.ravel(), y.ravel()))
    ground = np.array(
        [
            None not in [scene.ground_m(a, b + d) for d in (-ROBOT_HALF_M, ROBOT_HALF_M)]
            for a, b in cells
        ]
    )
    for seed in range(20):
        layout = scene.layout(np.random.default_rng(seed))
        free = ground & (clearance(scene, layout, cells) > ROBOT_HALF_M)
        _, labels = cv2.connectedComponents(free.reshape(x.shape).astype(np.uint8), connectivity=4)
        row = round((layout.start.x + 0.5) / CELL_M)
        column = round((layout.start.y + 1.7) / CELL_M)
        assert labels[row, column] > 0
        assert labels[row, column] in labels[-1]


@pytest.mark.parametrize("name", ["fields", "fields:unseen"])
def test_fields_have_one_kind_and_room_between_its_things(name: str) -> None:
    hard, easy = make_scene(name, 1.0), make_scene(name, 0.0)
    assert isinstance(hard, Fields)
    assert isinstance(easy, Fields)
    kinds, sizes = set(), set()
    for seed in range(40):
        layout = hard.layout(np.random.default_rng(seed))
        boxes = [box for thing in hard.things for box in thing]
        assert [*layout.boxes.values()] == boxes
        assert layout.movable[: len(boxes)] == [box.pose for box in boxes]
        assert {*layout.movable[len(boxes) :]} <= {STORE}
        points = []
        for thing in hard.things:
            assert min(box.pose.z - box.half_m[2] for box in thing) < 0.011  # it stands
            outline = corners([b.pose for b in thing], np.array([b.half_m[:2] for b in thing]))
            points.append(outline.reshape(-1, 2))
        for i, one in enumerate(points):
            for other in points[:i]:
                assert np.linalg.norm(one[:, None] - other, axis=2).min() > hard.free_m - OUTLINE_M
        kinds.add(hard.kind)
        sizes.add(boxes[0].half_m)
    assert kinds == {*hard.kinds}
    assert len(sizes) > 25  # other things in every episode
    assert hard.count > easy.count
    assert hard.free_m < easy.free_m


def test_no_kind_of_field_is_in_both_sets() -> None:
    assert not set(make_scene("fields").kinds) & set(make_scene("fields:unseen").kinds)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="fields: no kind 'cars', choose from unseen, boxes"):
        make_scene("fields:cars")
    assert set(make_scene("fields:kerbs").kinds) == {"kerbs"}  # type: ignore[attr-defined]


def test_clutter_boxes_keep_their_distance_and_mostly_fit() -> None:
    scene = make_scene("clutter", 1.0)
    for seed in range(20):
        layout = scene.layout(np.random.default_rng(seed))
        there = [i for i, pose in enumerate(layout.movable) if pose.z > 0.0]
        assert len(there) > 12
        middles = np.array([(layout.movable[i].x, layout.movable[i].y) for i in there])
        radii = np.array([np.hypot(*scene.movable[i].half_m[:2]) for i in there])
        apart = np.linalg.norm(middles[:, None] - middles, axis=2) - radii[:, None] - radii
        assert apart[np.triu_indices(len(there), 1)].min() > 2.0 * ROBOT_HALF_M


def test_rough_ground_is_equal_in_every_simulator() -> None:
    scene = make_scene("rough", 1.0)
    points = np.random.default_rng(0).uniform((-3.0, -3.0), (12.0, 3.0), (300, 2))
    bodies = [make_body(name, A1, scene) for name in BODIES]
    grounds = []
    for seed in range(4):  # both ways round
        start = scene.layout(np.random.default_rng(seed)).start
        heights = []
        for body in bodies:
            body.reset(seed)
            body.place((0.0, 0.0, 50.0), (0.0, 0.0, 0.0, 1.0))
            around = np.vstack(([(start.x, start.y)], points))
            heights.append(np.array([ground_height(body, x, y) for x, y in around]))
            assert -0.01 < start.z - heights[-1][0] < 0.1
        # They may split a field's squares into triangles along different diagonals.
        assert np.abs(heights[0] - heights[1]).max() < 0.02
        assert heights[0].std() > 0.015
        grounds.append(heights[0])
    assert all(np.corrcoef(grounds[0], ground)[0, 1] < 0.5 for ground in grounds[1:])
    for body in bodies:
        body.close()


class Ramp(FlatGround):
    """A sloped height field with a mean height above its pose."""

    fixed = ()

    def __init__(self) -> None:
        x, y = np.mgrid[-20:21, -10:11] * 0.2
        self.movable = (HeightField(0.5 + 0.05 * x + 0.1 * y, 0.2, (0.5, 0.5, 0.5)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 1.0), (Pose(1.0, 0.0, 0.3, np.pi / 2),))


@pytest.mark.parametrize("name", BODIES)
def test_height_fields_are_at_their_pose(name: str) -> None:
    body = make_body(name, A1, Ramp())
    body.reset(0)
    body.place((0.0, 0.0, 50.0), (0.0, 0.0, 0.0, 1.0))
    for x, y in ((0.5, 1.2), (1.0, 0.0), (2.3, -3.1)):
        # Turned by 90 degrees, the field's x axis is the world's y, its y axis the world's -x.
        height = 0.3 + 0.5 + 0.05 * y - 0.1 * (x - 1.0)
        assert ground_height(body, x, y) == pytest.approx(height, abs=1e-3)
    body.close()


def ground_height(body: SimulatedBody, x: float, y: float) -> float:
    """Height that a ray from above hits [m]."""
    if isinstance(body, PyBulletBody):
        hit = pybullet.rayTest((x, y, 5.0), (x, y, -5.0), physicsClientId=body.client)[0]
        return float(hit[3][2])
    down, geom = np.array((0.0, 0.0, -1.0)), np.zeros(1, dtype=np.int32)
    mujoco.mj_forward(body.model, body.data)
    eye = np.array((x, y, 5.0))
    return 5.0 - mujoco.mj_ray(body.model, body.data, eye, down, None, 1, -1, geom, None)


@pytest.mark.parametrize("difficulty", [0.0, 1.0])
def test_roughness_grows_with_difficulty(difficulty: float) -> None:
    (field,) = make_scene("rough", difficulty).movable
    assert np.ptp(field.heights_m) == pytest.approx((0.015, 0.125)[int(difficulty)], rel=0.01)


def test_the_contact_sheet_has_a_row_per_scene_and_a_column_per_difficulty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docs.figures.results.contact_sheet.SCENES", ["flat", "slalom"])
    monkeypatch.setattr("docs.figures.results.contact_sheet.DIFFICULTIES", (0.0, 1.0))
    write_contact_sheet(tmp_path / "scenes.png")
    rows = np.split(cv2.imread(str(tmp_path / "scenes.png")), 5)
    for row, only in zip(rows, (True, False, False, False, False), strict=True):
        easy, hard = (view[LABEL_PX:] for view in np.split(row, 2, axis=1))
        assert len(np.unique(easy.reshape(-1, 3), axis=0)) > 50
        assert (hard == 255).all() == only  # flat ground has one difficulty
        assert not np.array_equal(easy, hard)


@pytest.mark.long
def test_passers_by_hit_a_robot_in_their_path() -> None:
    """At the robot's speed and more, while it walks blindly ahead."""
    people = make_scene("passers-by", 1.0)
    layout = people.layout(np.random.default_rng(0))
    places = [[pose.y for pose in placed(layout, time_s)] for time_s in (0.0, 0.1)]
    speeds = 10.0 * np.abs(np.diff(places, axis=0))
    assert np.all((speeds > 0.5) & (speeds <= 1.0))
    walks = EvalConfig("walk", scene="passers-by", difficulty=1.0, episodes=4, seconds=20.0)
    assert evaluate(walks)["contact_free_rate"] < 1.0
