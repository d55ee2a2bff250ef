"""People: motions in every simulator, forces of legs, and the scene."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes import Box, Layout, Motion, Plane, Pose, Scene, Waypoint
from pixelgait.sim.scenes.courses.people import People
from pixelgait.sim.scenes.houses.rooms import Rooms
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.motion_kernels import poses_at
from pixelgait.sim.world.motions import fastest_m_per_s, layout_motions, placed
from pixelgait.sim.world.obstacles import moving_obstacles
from pixelgait.sim.world.persons import ASIDE_M, PARTS, STEPS_VARY, Walk, bodies, walking
from pixelgait.sim.world.traversability import TraversabilityMap
from tests.helpers import glide_episode

both = pytest.mark.parametrize("name", BODIES)
ASIDE = BasePose((3.0, -6.0, 0.6), (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)))  # looks along y


def robot(name: str, scene: Scene) -> Any:
    return KinematicBody(A1, scene) if name == "glide" else make_body(name, A1, scene)


def array(poses: list[Pose]) -> Array:
    return np.array([(pose.x, pose.y, pose.z, pose.yaw) for pose in poses])


def test_a_path_is_walked_in_time_with_turns_and_stops() -> None:
    walk = Walk(1.0, 0.0, 0.0, 0.8)
    walk.stand(2.0)
    walk.go(1.0, 4.0)  # to its left
    turned_s = 2.0 + np.pi / 2.0 / 2.0
    end_s = walk.time_s
    layout = Layout(Pose(0, 0, 0), *walking(np.random.default_rng(0), bodies(1), [walk], 0))
    for time_s, x, y, yaw in (
        (1.9, 1.0, 0.0, 0.0),
        ((2.0 + turned_s) / 2.0, 1.0, 0.0, np.pi / 4.0),
        ((turned_s + end_s) / 2.0, 1.0, 2.0, np.pi / 2.0),
        (end_s + 50.0, 1.0, 4.0, np.pi / 2.0),
    ):
        trunk = placed(layout, time_s)[2]
        assert (trunk.x, trunk.y, trunk.yaw) == pytest.approx((x, y, yaw))
    left, right, _ = array(placed(layout, end_s + 50.0))  # side by side, across the way
    assert left[:2] == pytest.approx((1.0 - ASIDE_M, 4.0))
    assert right[:2] == pytest.approx((1.0 + ASIDE_M, 4.0))


@pytest.mark.parametrize("speed", [0.3, 0.8, 1.5])
def test_legs_stride_and_a_foot_stands_still_in_mid_stance(speed: float) -> None:
    walk = Walk(0.0, 0.0, 0.0, speed)
    walk.go(30.0, 0.0)
    layout = Layout(Pose(0, 0, 0), *walking(np.random.default_rng(0), bodies(1), [walk], 0))
    times = np.arange(5.0, 15.0, 0.01)
    left, right, trunk = np.stack([array(placed(layout, t))[:, 0] for t in times], 1)
    assert np.diff(trunk) / 0.01 == pytest.approx(speed)
    assert (np.diff(left) / 0.01).min() == pytest.approx(0.0, abs=0.02)
    assert (np.diff(left) / 0.01).max() == pytest.approx(2.0 * speed, abs=0.02)
    apart = np.abs(left - right).max()
    assert apart == pytest.approx(2.0 / np.pi * walk.step_m, rel=0.01)
    assert {0.3: 0.15, 0.8: 0.3, 1.5: 0.45}[speed] < apart < 0.5  # of one stride to the next


def test_machine_code_moves_shapes_as_the_formula_does() -> None:
    swing = Motion(6, (0.3, -0.4, 0.1), 3.0)
    layout = People(1.0).layout(np.random.default_rng(1))
    layout = replace(layout, movable=[*layout.movable[:6], Pose(1, 2, 3, 0.5)], motions=[swing])
    people = People(1.0).layout(np.random.default_rng(2))
    for each in (layout, people):
        found = np.empty((len(each.motions), 4))
        for time_s in np.arange(0.0, 60.0, 0.37).tolist():
            poses_at(layout_motions(each), time_s, found)
            moving = [placed(each, time_s)[motion.shape] for motion in each.motions]
            assert np.array_equal(found, array(moving))


def test_no_point_of_a_moving_shape_is_faster_than_its_bound() -> None:
    path = [Waypoint(0, 0, 0), Waypoint(1, 0.5, 0, 1.0, 2.0), Waypoint(3, 0, 1, -2.0, 3.0)]
    motion, own = Motion(0, (0.2, 0.1, 0.0), 1.5, path), Pose(0.3, 0.4, 0.0, 0.2)
    layout = Layout(Pose(0, 0, 0), [own], [motion])
    corner = np.array([(0.3, 0.4)])
    places = [placed(layout, t)[0].points(corner)[0] for t in np.arange(0.0, 3.5, 1e-3)]
    fastest = (np.hypot(*np.diff(places, axis=0).T) / 1e-3).max()
    assert 0.5 * fastest_m_per_s(motion, own, 0.5) < fastest <= fastest_m_per_s(motion, own, 0.5)


@pytest.mark.parametrize("appearance", ["nominal", "train"])
def test_every_simulator_shows_people_at_the_same_places(appearance: str) -> None:
    camera = Camera(replace(A1.camera, pitch_down_rad=0.0), 96, 64, kind="rgbd")
    pictures = []
    for name in (*BODIES, "glide"):
        body = robot(name, make_scene("people", 1.0, appearance))  # type: ignore[arg-type]
        body.reset(9000)
        if name == "glide":
            body._scene.move(2.0)
        else:
            body.place((0.0, 50.0, A1.stand_height_m), (0.0, 0.0, 0.0, 1.0))
            for _ in range(200):  # legs are driven to where they belong
                body.apply(standing(A1))
        pictures.append(body._scene.render(camera, ASIDE).astype(int))
        body.close()
    *walked, ideal = pictures
    seen = (ideal[..., 3] != np.bincount(ideal[:20, :, 3].ravel()).argmax()).mean()
    assert seen > 0.02
    for picture in walked:  # but for edges
        assert (np.abs(picture - ideal).max(-1) > 12).mean() < 0.03


class Walked(Scene):
    """A leg that walks across the robot's place at 0.5 m/s."""

    name = "walked over"
    fixed = (Plane(),)

    def __init__(self, push_n: float | None) -> None:
        self.movable = [Box(Pose(0, 0, 0), (0.06, 0.06, 0.4), (0.2, 0.3, 0.6), push_n=push_n)]

    def layout(self, rng: np.random.Generator) -> Layout:
        path = [Waypoint(0.0, 0.0, -0.5), Waypoint(6.0, 0.0, 2.5)]
        return Layout(Pose(0, 0, 0), [Pose(0.0, 0.0, 0.4)], [Motion(0, path=path)])


@both
def test_a_leg_pushes_with_no_more_than_its_force(name: str) -> None:
    moved_m = {}
    for push_n in (20.0, None):
        body = make_body(name, A1, Walked(push_n))
        body.reset(0)
        forces = []
        for _ in range(400):
            body.apply(standing(A1))
            forces.append(body.touching() or 0.0)
        moved_m[push_n] = body.pose().position[1]
        if push_n is not None:  # it stands against the robot, whose feet hold
            assert np.mean(forces[350:]) == pytest.approx(push_n, rel=0.1)
        body.close()
    assert moved_m[20.0] < 0.03
    assert moved_m[None] > 0.4


@both
def test_episodes_among_people_depend_on_their_seed_alone(name: str) -> None:
    body, ends = make_body(name, A1, make_scene("people", 1.0)), []
    for seed in (3, 4, 3):
        body.reset(seed)
        body.place((4.0, 0.0, A1.stand_height_m), (0.0, 0.0, 0.0, 1.0))
        touched = False
        for _ in range(1200):
            body.apply(standing(A1))
            touched |= body.touching() is not None
        ends.append((*body.pose().position, *body.joint_angles(), touched))
    assert ends[0] == ends[2]
    assert ends[0] != ends[1]
    assert any(end[-1] for end in ends)  # a person ran into it
    body.close()


def test_a_gliding_robot_that_a_person_runs_into_has_a_contact() -> None:
    body = KinematicBody(A1, Walked(150.0))
    body.reset(0)
    touches = []
    for _ in range(300):
        body.follow(latent_for(0.0, 0.0))
        touches.append(body.touching() is not None)
    first = touches.index(True) / 100
    assert first == pytest.approx(
        (0.5 - 0.06 - 0.17) / 0.5, abs=0.12
    )  # it reaches the robot's flank
    assert not touches[-1]
    body.close()


@pytest.mark.parametrize(("difficulty", "count"), [(0.0, 2), (0.5, 5), (1.0, 8)])
def test_people_are_as_many_and_as_fast_as_the_difficulty_says(
    difficulty: float, count: int
) -> None:
    scene, fastest = People(difficulty), 0.0
    for seed in range(30):
        layout = scene.layout(np.random.default_rng(seed))
        assert len(layout.motions) == PARTS * count
        met = moving_obstacles(scene, layout, A1.stand_height_m)
        assert len(met) == 2 * count  # trunks are above it
        places = [placed(layout)[motion.shape] for motion in layout.motions]
        assert np.hypot(*array(places)[:, :2].T).min() > 0.5  # none stands at the start
        trunks = [each for each in layout.motions if each.reach_m[0] == 0.0]
        for trunk in trunks:
            rows = np.array([(point.time_s, point.x, point.y) for point in trunk.path])
            if len(rows) > 1:
                moves = np.diff(rows, axis=0)
                assert moves[:, 0].min() > 0.0
                fastest = max(fastest, (np.hypot(*moves[:, 1:].T) / moves[:, 0]).max())
    assert 0.7 <= fastest <= {0.0: 0.92, 0.5: 1.06, 1.0: 1.51}[difficulty]


def test_people_walk_in_a_mixture() -> None:
    scene = make_scene("mixture:gates,people=9", 1.0)
    layout = scene.layout(np.random.default_rng(0))
    assert len(layout.motions) == 8 * PARTS
    alone = People(1.0)
    for motion in layout.motions:
        shape = scene.movable[motion.shape]
        assert isinstance(shape, Box)
        assert shape.half_m in {box.half_m for box in alone.persons}


INDOORS_M_PER_S = (0.4, 1.2)
STAY_S = (1.0, 8.0)  # at each place
FIRST_M = 2.5  # from the robot's start, at first
AHEAD_CELLS, MOST_CORNERS = 40, 200  # of a straight part of a path; of a path


def indoors(area: TraversabilityMap, rng: np.random.Generator, start: Pose) -> Walk:
    """A walk from place to place, with stops, begun away from the robot's start."""
    cells = np.argwhere(area.turnable)
    places = area.places(cells)
    away_m = np.hypot(*(places - (start.x, start.y)).T)
    far = np.flatnonzero(away_m >= min(FIRST_M, float(away_m.max())))
    x, y = places[rng.choice(far)].tolist()
    yaw, speed = float(rng.uniform(-np.pi, np.pi)), float(rng.uniform(*INDOORS_M_PER_S))
    steps = 1.0 + STEPS_VARY * float(rng.uniform(-1.0, 1.0))
    walk = Walk(x, y, yaw, speed, steps, float(rng.choice((-1.0, 1.0))))
    while walk.time_s < 120.0:
        costs = area.costs_to_go(cells[[rng.integers(len(cells))]])
        corners: list[tuple[float, float]] = []
        x, y = walk.x, walk.y
        while costs[area.cell(x, y)] > 0.0 and len(corners) < MOST_CORNERS:
            x, y = area.ahead(costs, x, y, 1, AHEAD_CELLS)
            corners.append((x, y))
        walk.follow(corners)
        walk.stand(float(rng.uniform(*STAY_S)))
    return walk


class Peopled(Rooms):
    """A house in which three persons walk about."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.persons = bodies(3)
        self.movable = [*self.movable, *self.persons]

    def layout(self, rng: np.random.Generator) -> Layout:
        empty = super().layout(rng)
        walks = [indoors(self.map, rng, empty.start) for _ in range(3)]
        poses, motions = walking(rng, self.persons, walks, len(empty.movable))
        return replace(
            empty,
            movable=[*empty.movable, *poses],
            motions=[*empty.motions, *motions],
        )


def test_people_in_a_house_walk_between_free_places() -> None:
    scene = Peopled()
    layout = scene.layout(np.random.default_rng(0))
    alone = make_scene("rooms", 0.5).layout(np.random.default_rng(0))
    assert layout.movable[: len(alone.movable)] == alone.movable
    trunks = [motion for motion in layout.motions if motion.reach_m[0] == 0.0]
    assert len(trunks) == 3
    for trunk in trunks:
        walked = [
            placed(replace(layout, motions=[trunk]), time_s)[trunk.shape]
            for time_s in np.arange(0.0, 120.0, 0.5)
        ]
        assert np.hypot(walked[0].x - layout.start.x, walked[0].y - layout.start.y) > 2.4
        free = [bool(scene.map.free[scene.map.cell(pose.x, pose.y)]) for pose in walked]
        assert np.mean(free) > 0.97  # straight lines may cut corners
        assert max(np.ptp([p.x for p in walked]), np.ptp([p.y for p in walked])) > 2.0


def test_the_teacher_reaches_its_goal_in_a_house_with_people() -> None:
    """A teacher that always chose among a fan of headings reached its goal in 17 of 40 houses."""
    scene = Peopled()
    body = KinematicBody(A1, scene)
    teacher = Teacher(body)
    for seed in range(9000, 9005):
        assert glide_episode(teacher.decide, body, navigation_task(scene, 9000), seed).success
    body.close()
