"""Rooms: paths on every plan, progress round walls, equal textures in both simulators."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.houses.indoor import straightened_length_m
from pixelgait.sim.scenes.houses.rooms import Rooms
from pixelgait.sim.tasks.judging import STOPPED_STEPS
from pixelgait.sim.tasks.navigate import Navigate
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.floor_plan import DOOR_M
from pixelgait.sim.world.scene import ORIGIN, Box, Layout, Pose, Scene
from pixelgait.sim.world.texture import Texture, tile
from pixelgait.sim.world.traversability import CELL_M, TraversabilityMap
from tests.helpers import ROBOT_HALF_M, clearance


@pytest.fixture(scope="module")
def body() -> Iterator[PyBulletBody]:
    body = PyBulletBody(A1, Rooms(1.0))
    yield body
    body.close()


@pytest.mark.parametrize("difficulty", [0.0, 0.5, 1.0])
def test_every_plan_has_a_path_from_start_to_goal(difficulty: float) -> None:
    """Measured by the boxes, not by the scene's own map."""
    scene = Rooms(difficulty)
    side = np.arange(-6.0, 6.0, CELL_M) + CELL_M / 2
    y, x = np.meshgrid(side, side, indexing="ij")
    cells = np.column_stack((x.ravel(), y.ravel()))
    areas, plans = [], set()
    for seed in range(8):
        layout = scene.layout(np.random.default_rng(seed))
        mark, without = (
            layout.movable[0],
            Layout(layout.start, [Pose(0, 0, 0), *layout.movable[1:]]),
        )
        free = (clearance(scene, without, cells) > ROBOT_HALF_M).reshape(x.shape)
        _, labels = cv2.connectedComponents(free.astype(np.uint8), connectivity=4)
        start, goal = (labels[cell(p.y), cell(p.x)] for p in (layout.start, mark))
        assert start == goal > 0
        assert labels[0, 0] != start  # the house is closed
        areas.append(np.count_nonzero(labels == start))
        plans.add(free.tobytes())
    assert min(areas) * CELL_M**2 > (10.0, 15.0, 25.0)[round(2 * difficulty)]  # [m^2]
    assert len(plans) == len(areas)


def cell(metres: float) -> int:
    return int((metres + 6.0) / CELL_M)


def test_doors_are_narrower_and_rooms_more_on_difficult_plans() -> None:
    assert DOOR_M[0] > DOOR_M[1] > 2 * ROBOT_HALF_M + 0.2
    areas = []
    for difficulty in (0.0, 1.0):
        scene = Rooms(difficulty)
        layout = scene.layout(np.random.default_rng(0))
        areas.append(sum(pose.z > 0.0 for pose in layout.movable))
    assert areas[1] > 2 * areas[0]


def test_progress_follows_the_path_round_walls_to_the_mark(body: PyBulletBody) -> None:
    scene, task = body.scene, Navigate(1000)
    assert isinstance(scene, Rooms)
    detours = []
    for seed in range(5):
        body.reset(seed)
        task.reset(body, seed)
        path = scene.map.path(scene.distances, scene.start)
        points = np.array([scene.map.place(c) for c in path])
        progress = np.array([scene.progress_m(x, y) for x, y in points])
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        np.testing.assert_allclose(np.diff(progress), steps, rtol=0.02)
        mark = body._scene.layout.movable[0]
        assert points[-1] == pytest.approx((mark.x, mark.y))
        assert points[0] == pytest.approx(body.pose()[0][:2], abs=1e-6)
        detours.append(-progress[0] / np.linalg.norm(points[-1] - points[0]))
        over = []
        for x, y in (points[0], points[-8], points[-4]):  # at the start, 0.7 m before, 0.3 m before
            body.place((x, y, 0.28), (0.0, 0.0, 0.0, 1.0))
            over.append([task.step(body)[1] for _ in range(STOPPED_STEPS)][-1])
            assert not fallen(body)
        assert over == [False, False, True]  # and only once it has stood there
        walked = np.linalg.norm(points[-8] - points[0]) + np.linalg.norm(points[-4] - points[-8])
        straight = scene.path_length_m(*points[0])
        assert np.linalg.norm(points[-1] - points[0]) <= straight <= -progress[0] + 1e-9
        assert task.metrics(fell=False)["spl"] == pytest.approx(min(1.0, straight / walked))
    assert max(detours) > 1.3


def test_passing_the_goal_is_not_stopping_there(body: PyBulletBody) -> None:
    task = Navigate(1000)
    body.reset(0)
    task.reset(body, 0)
    x, y = task.goal_position
    body.place((x + 0.45, y, 0.28), (0.0, 0.0, 0.0, 1.0))
    task.step(body)
    assert task.metrics(fell=False)["remaining_m"] == pytest.approx(0.45)
    assert task.metrics(fell=False)["near_rate"] == 0.0
    for _ in range(STOPPED_STEPS):
        task.step(body)
    assert task.metrics(fell=False)["near_rate"] == 1.0
    assert not task.succeeded()  # which is within 0.36 m
    body.place((x, y, 0.28), (0.0, 0.0, 0.0, 1.0))
    for _ in range(STOPPED_STEPS):
        task.step(body)
    assert task.metrics(fell=False)["spl"] > 0.0
    damped = task.metrics(fell=True)
    assert (damped["spl"], damped["near_rate"]) == (0.0, 0.0)  # a damped robot has failed


def test_sway_adds_nothing_to_the_distance_walked(body: PyBulletBody) -> None:
    """Ahead at 0.5 m/s, 1 cm to either side twice a second; then on the spot."""
    task = Navigate(1000)
    body.reset(0)
    body.place((0.0, 0.0, 0.28), (0.0, 0.0, 0.0, 1.0))
    task.reset(body, 0)
    for step in range(1, 701):
        ahead, sway = 0.005 * min(step, 500), 0.01 * np.sin(2.0 * np.pi * 2.0 * 0.01 * step)
        body.place((ahead, sway, 0.28), (0.0, 0.0, 0.0, 1.0))
        task.step(body)
    assert task.metrics(fell=False)["walked_m"] == pytest.approx(2.5, abs=0.01)


def test_time_limit_allows_a_detour(body: PyBulletBody) -> None:
    task = Navigate(6000)
    body.reset(0)
    task.reset(body, 0)
    assert not any(task.step(body)[1] for _ in range(3000))  # 30 s without an advance


def test_geodesic_distances_are_within_eight_percent_and_extend_into_walls() -> None:
    """On a map with one wall, by hand."""
    image = np.full((800, 800), 255, dtype=np.uint8)
    image[:600, 390:410] = 0  # x from -0.1 to 0.1, y up to 2
    traversability_map = TraversabilityMap(image)
    goal, start = traversability_map.cell(2.0, -2.0), traversability_map.cell(-2.0, -2.0)
    corner = np.hypot(2.0 - 0.1, 4.0 + 0.27) * 2.0 + 0.2
    distances = traversability_map.geodesic_distances(goal)
    assert corner * 0.97 < distances[start] < corner * 1.09
    path = traversability_map.path(distances, start)  # straightened, it is as long as by hand
    assert corner * 0.99 < straightened_length_m(traversability_map.free, path) < corner * 1.02
    open_path = np.array([(start[0] + i, start[1] + 2 * i) for i in range(6)])
    assert straightened_length_m(traversability_map.free, open_path) == pytest.approx(
        5 * 5**0.5 * CELL_M
    )
    before = [
        traversability_map.geodesic_distance(distances, 0.6 - d, -2.0) for d in (0.0, 0.2, 0.4)
    ]
    assert before[0] < before[1] < before[2] < 2.2  # up to the wall, where no middle can be
    with pytest.raises(ValueError, match="nowhere on the map"):
        TraversabilityMap(np.full((50, 50), 255, dtype=np.uint8))


def test_path_leads_straight_while_a_line_costs_no_more() -> None:
    """Within 1.5 m and at least half a metre, in any direction."""
    image = np.full((800, 800), 255, dtype=np.uint8)
    image[:600, 390:410] = 0  # x from -0.1 to 0.1, y up to 2
    traversability_map = TraversabilityMap(image)
    costs = traversability_map.costs_to_go(np.array([traversability_map.cell(2.05, -2.05)]))
    x, y = traversability_map.ahead(costs, 2.05, -3.35, 5, 15)
    assert (x, y) == pytest.approx((2.05, -2.05))  # no further than the goal
    for bearing in np.radians((0.0, 20.0, 40.0, 70.0)):  # to the goal, over open ground
        start = 2.05 + np.cos(bearing), -2.05 + np.sin(bearing)
        place = traversability_map.ahead(costs, *start, 5, 15)
        assert place == pytest.approx((2.05, -2.05))
    for start in ((-2.0, -2.0), (-0.5, 1.5), (-0.5, 2.6), (0.5, 2.6)):  # round the wall
        place = traversability_map.ahead(costs, *start, 5, 15)
        assert 0.4 < np.hypot(*np.subtract(place, start)) < 15 * 2**0.5 * CELL_M
        line = start + np.linspace(0.0, 1.0, 50)[:, None] * np.subtract(place, start)
        assert all(traversability_map.free[traversability_map.cell(*p)] for p in line.tolist())


class OneTexturedBox(Scene):
    """A textured wall."""

    name = "textured"
    texture = Texture("checks", ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0)), 3, 2.0)
    movable = (Box(ORIGIN, (0.3, 3.0, 2.0), (1.0, 1.0, 1.0), texture=texture),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN, [Pose(2.5, 0.3, 0.6, 0.3)])


def test_textures_have_their_size_in_both_simulators() -> None:
    images = []
    for name in BODIES:
        body = make_body(name, A1, OneTexturedBox())
        body.camera = Camera(A1.camera, 96, 96)
        body.reset(0)
        images.append(body.render().pixels.astype(int))
        body.close()
    bullet, mujoco = images
    # PyBullet's pictures sit up to a pixel further up and left.
    alike = [np.abs(bullet[: 96 - i, : 96 - i] - mujoco[i:, i:]).max(2) < 40 for i in (0, 1)]
    assert max(share.mean() for share in alike) > 0.75
    # By hand: the camera, 0.33 m high and pitched by 0.2, sees 2.45 m of the wall 2 m away.
    changes = [
        np.count_nonzero(np.diff(column.astype(int)))
        for column in (mujoco[:, 50, 2] > 100, tile(OneTexturedBox.texture)[:, 2, 2] > 128)
    ]
    assert changes[0] == pytest.approx(2.45 / 2.0 * (changes[1] + 1), abs=1.0)
