"""Teacher: from the shapes of any scene to a path through it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.registry import SCENES, make_scene
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.obstacles import obstacle_boxes
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Box, Layout, Motion, Plane, Pose, Scene
from tests.helpers import glide_episode

OWN_SCENE = '''
from pixelgait.sim.world.scene import Box, Layout, Plane, Pose, Scene


class Pen(Scene):
    """A U of walls that opens away from the goal: the robot starts inside."""

    name = "pen"
    goal_m = 4.0
    fixed = (
        Plane(),
        Box(Pose(2.0, 0.0, 0.4), (0.1, 1.0, 0.4), (0.5, 0.5, 0.5)),
        Box(Pose(1.0, 1.0, 0.4), (1.0, 0.1, 0.4), (0.5, 0.5, 0.5)),
        Box(Pose(1.0, -1.0, 0.4), (1.0, 0.1, 0.4), (0.5, 0.5, 0.5)),
    )

    def __init__(self, difficulty):
        pass

    def layout(self, rng):
        return Layout(Pose(1.0, 0.0, 0.0))
'''


@pytest.mark.parametrize("name", [name for name in SCENES if name != "flat"])
def test_the_teacher_passes_every_scene_without_a_collision(name: str) -> None:
    scene = make_scene(name, 0.5)
    body = KinematicBody(A1, scene)
    for seed in (9000, 9001):
        episode = glide_episode(Teacher(body).decide, body, navigation_task(scene, 6000), seed)
        assert episode.collision_free_success
    body.close()


def test_the_teacher_backs_out_of_a_dead_end_in_a_user_scene(tmp_path: Path) -> None:
    path = tmp_path / "pen.py"
    path.write_text(OWN_SCENE)
    scene = make_scene(str(path))
    body = KinematicBody(A1, scene)
    task = navigation_task(scene, 6000)
    task.stall_steps = 3000  # it has to go back first
    episode = glide_episode(Teacher(body).decide, body, task, 9000)
    assert episode.collision_free_success
    assert episode.path[:, 0].min() < -0.2  # out by the open side, behind the start
    body.close()


class Yard(Scene):
    """Ground with an edge, a box that stands and one that hovers."""

    name = "yard"
    fixed = (
        Plane(),
        Box(Pose(1.0, 0.5, 0.3), (0.2, 0.3, 0.3), (0.5, 0.5, 0.5)),
        Box(Pose(-1.0, 0.0, 1.5), (0.5, 0.5, 0.1), (0.5, 0.5, 0.5)),
    )

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))

    def ground_m(self, x: float, y: float) -> float | None:
        return 0.0 if abs(x) < 2.0 and abs(y) < 1.5 else None


@pytest.mark.parametrize(
    ("headings_deg", "side"),
    [
        ([30], 1),  # its path lies behind, 150 degrees to the left
        ([30, 35], 1),
        ([30, 25], -1),  # to the left it would be less, but it is turning to the right
        ([30, 25, 25], 1),  # it has stopped turning
        ([60, 55], 1),  # the path does not lie behind
    ],
)
def test_a_turn_to_a_path_behind_goes_on_as_it_began(headings_deg: list[int], side: int) -> None:
    body = KinematicBody(A1, Yard())
    body.reset(9000)
    body.scene.goal_position = np.array((-1.8, 0.0))
    teacher = Teacher(body)
    for each in headings_deg:
        body.robot.yaw = math.radians(each)
        decision = teacher.decide()
    assert np.sign(decision.latent[1]) == side
    body.close()


def test_the_map_keeps_clear_of_boxes_and_edges_but_passes_below_hovering_boxes() -> None:
    scene = Yard()
    layout = scene.layout(np.random.default_rng(0))
    (box, _), *others = obstacle_boxes(scene, layout, A1.stand_height_m)
    assert box is scene.fixed[1]
    assert not others
    yard = walk_map(scene, layout, A1.stand_height_m)
    free = {place: bool(yard.free[yard.cell(*place)]) for place in ((0.0, 0.0), (-1.0, 0.0))}
    assert all(free.values())
    for x, y in ((1.0, 0.5), (0.6, 0.5), (1.9, 0.0), (0.0, -1.4)):
        assert not yard.free[yard.cell(x, y)]
    assert yard.extent_m == pytest.approx((-2.0, 2.0, -1.5, 1.5))


@pytest.mark.long
@pytest.mark.parametrize("difficulty", [0.5, 1.0])
def test_the_teacher_touches_no_passer_by(difficulty: float) -> None:
    """Without predictions of their motion it touched one in 14 of 20 episodes."""
    scene = make_scene("passers-by", difficulty)
    body = KinematicBody(A1, scene)
    for seed in range(9000, 9005):
        episode = glide_episode(Teacher(body).decide, body, navigation_task(scene, 6000), seed)
        assert episode.collision_free_success
    body.close()


class Catwalk(Scene):
    """A passer-by moves to and fro across a platform 2 m wide, with nothing beside it."""

    name = "catwalk"
    goal_m = 5.0
    fixed = (Box(Pose(3.0, 0.0, -0.5), (4.0, 1.0, 0.5), (0.5, 0.5, 0.5)),)
    movable = (Box(Pose(0, 0, 0), (0.15, 0.25, 0.85), (0.2, 0.3, 0.6)),)

    def ground_m(self, x: float, y: float) -> float | None:
        return 0.0 if abs(x - 3.0) < 4.0 and abs(y) < 1.0 else None

    def layout(self, rng: np.random.Generator) -> Layout:
        swing = Motion(0, (0.0, float(rng.choice((-0.7, 0.7))), 0.0), float(rng.uniform(5, 8)))
        return Layout(Pose(0, 0, 0), [Pose(2.5, 0.0, 0.85)], [swing])


def test_the_teacher_waits_instead_of_stepping_off_an_edge() -> None:
    scene = Catwalk()
    body = KinematicBody(A1, scene)
    decide = Teacher(body).decide
    for seed in range(9000, 9010):
        episode = glide_episode(decide, body, navigation_task(scene, 6000), seed)
        assert episode.collision_free_success
    body.close()
