"""Teacher that knows what its robot's camera has seen: its plans, and where it goes by them."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.control.controller import Decision
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.navigate import navigation_task
from pixelgait.sim.tasks.seeing_teacher import SeeingTeacher
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.map_kernels import cell_at, waves
from pixelgait.sim.world.scene import Box, Layout, Plane, Pose, Scene
from pixelgait.sim.world.traversability import CELL_M, DIAGONAL, STRAIGHT
from tests.helpers import glide_episode

COLOUR = (0.5, 0.5, 0.5)


class Pocket(Scene):
    """Two walls along the way, closed at their far end, out of sight from the start."""

    name = "pocket"
    goal_m = 9.0
    fixed = (
        Plane(),
        Box(Pose(4.5, 0.9, 0.4), (2.0, 0.1, 0.4), COLOUR),
        Box(Pose(4.5, -0.9, 0.4), (2.0, 0.1, 0.4), COLOUR),
        Box(Pose(6.5, 0.0, 0.4), (0.1, 1.0, 0.4), COLOUR),
    )

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))


@pytest.mark.parametrize(("teacher", "enters"), [(Teacher, False), (SeeingTeacher, True)])
def test_what_is_out_of_sight_is_not_known(teacher: type[Teacher], enters: bool) -> None:
    body = KinematicBody(A1, Pocket())
    task = navigation_task(Pocket(), 6000)
    task.stall_steps = 3000  # it has to come out of the pocket again
    episode = glide_episode(teacher(body).decide, body, task, 9000)
    assert episode.collision_free_success
    inside = (np.abs(episode.path[:, 1]) < 0.7) & (episode.path[:, 0] > 3.0)
    inside &= episode.path[:, 0] < 6.0
    assert inside.any() == enters
    body.close()


@pytest.mark.parametrize("name", ["rooms", "apartment"])
def test_it_finds_the_way_through_houses(name: str) -> None:
    scene = make_scene(name, 0.5)
    body = KinematicBody(A1, scene)
    for seed in range(9000, 9004):
        task = navigation_task(scene, 8000)
        episode = glide_episode(SeeingTeacher(body).decide, body, task, seed)
        assert episode.success
    body.close()


def test_a_plan_that_is_kept_is_still_the_shortest() -> None:
    """Against a plan from nothing at every decision."""
    scene = make_scene("apartment", 0.5)
    body = KinematicBody(A1, scene)
    teacher = SeeingTeacher(body)
    compared = []

    def decide(*_: object) -> Decision:
        decision = teacher.decide()
        known = teacher._believed
        cell = cell_at(known.free, known.corner_m, CELL_M, body.robot[0].x, body.robot[0].y)
        if known.free[cell]:
            steps = waves(known.free, known.goals, known.counts, STRAIGHT, DIAGONAL, -1)
            compared.append((known.costs[cell], steps[cell] * CELL_M / STRAIGHT))
        return decision

    glide_episode(decide, body, navigation_task(scene, 8000), 9001)
    kept, anew = np.array(compared).T
    assert len(kept) > 50
    np.testing.assert_allclose(kept, anew)
    body.close()
