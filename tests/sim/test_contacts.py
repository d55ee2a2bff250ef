"""Contacts with anything but the ground: detected in every simulator, counted, and charged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pixelgait.policies.evaluation.metrics import figures_of, wilson
from pixelgait.robot.control.controller import Controller, Decision, latent_for
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.rotation import upright
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.body.interface import PHYSICS_DT_S, SUBSTEPS, SimulatedBody
from pixelgait.sim.body.legged_body import standing
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes import Box, Layout, Plane, Pose, Scene
from pixelgait.sim.scenes.uneven_ground import Rough
from pixelgait.sim.tasks.episode import Contacts, Episode, run_episode
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.tasks.task import fallen
from pixelgait.sim.world.scene import Motion
from tests.conftest import gentle_weights
from tests.helpers import glide_episode

both = pytest.mark.parametrize("name", BODIES)
AHEAD = Decision(latent_for(speed=0.6, yaw_rate=0.0), 10)


class Walled(Scene):
    """A wall across the path, and a low sill under the robot's feet."""

    name = "walled"
    goal_m = 5.0
    fixed = (Plane(), Box(Pose(0.0, 0.0, 0.0), (0.3, 0.3, 0.01), (0.5, 0.5, 0.5)))

    def __init__(self, distance_m: float) -> None:
        self.distance_m = distance_m
        self.movable = [Box(Pose(0.0, 0.0, 0.0), (0.1, 1.0, 0.4), (0.6, 0.2, 0.2))]

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.01), [Pose(self.distance_m, 0.0, 0.4)])


def settle(body: SimulatedBody, steps: int = 30) -> list[float | None]:
    touches = []
    for _ in range(steps):
        body.apply(standing(A1))
        touches.append(body.touching())
    return touches


@both
def test_a_wall_is_an_obstacle_and_the_ground_is_none(name: str) -> None:
    body = make_body(name, A1, Walled(2.0))
    body.reset(0)
    assert set(settle(body)) == {None}  # the feet stand on the sill and on the plane
    body.place((1.72, 0.0, A1.stand_height_m), upright(0.0))  # the head in the wall
    touches = settle(body)
    body.close()
    assert touches[0] is not None  # engines push apart what overlaps, with force or without
    assert touches[-1] is None


@both
def test_a_robot_lying_on_the_ground_touches_nothing_else(name: str) -> None:
    body = make_body(name, A1, Walled(4.0))
    body.reset(0)
    body.place((0.0, 0.0, 0.3), (1.0, 0.0, 0.0, 0.0))  # on its back
    assert set(settle(body, 100)) == {None}
    assert body.pose().position[2] < 0.25
    body.close()


class RunInto(Scene):
    """A box as large as a person that comes from the side, at up to 1 m/s."""

    name = "run into"
    fixed = (Plane(),)
    movable = (Box(Pose(0.0, 0.0, 0.0), (0.15, 0.25, 0.85), (0.2, 0.3, 0.6)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        swing = Motion(0, (0.0, 2.0, 0.0), 4.0 * np.pi)
        return Layout(Pose(0.0, 0.0, 0.0), [Pose(0.12, -2.0, 0.85)], [swing])


@both
def test_a_moving_box_pushes_the_robot_without_a_jump(name: str) -> None:
    """The contact lasts; a box that jumps would throw the robot off."""
    body = make_body(name, A1, RunInto())
    body.reset(0)
    forces = np.zeros((300, SUBSTEPS))
    for step in forces:
        for i in range(SUBSTEPS):
            body.step(standing(A1))
            step[i] = body.touching() or 0.0
    body.close()
    impulses = PHYSICS_DT_S * forces.sum(0)  # (SUBSTEPS,) [N s]
    assert impulses.sum() > 20.0
    np.testing.assert_allclose(impulses, impulses.mean(), rtol=0.1)  # whenever it is looked at
    assert forces.max() < 250.0  # twice what it weighs


@both
def test_rough_ground_is_no_obstacle(name: str) -> None:
    body = make_body(name, A1, Rough(1.0))
    body.reset(1)
    assert set(settle(body, 50)) == {None}
    body.close()


def walk(name: str, task: Forward, distance_m: float) -> Episode:
    low_level = LinearLowLevel.from_weights(A1, gentle_weights())
    controller = Controller(lambda *_: AHEAD, low_level, Supervisor(A1))
    body = make_body(name, A1, Walled(distance_m))
    body_push = body.push
    body.push = lambda velocity: body_push(np.array((1.5, 0.0, 0.0)))  # type: ignore[method-assign]
    episode = run_episode(controller, body, task, 0)
    body.close()
    return episode


@both
def test_episodes_count_contacts_and_the_return_charges_for_them(name: str) -> None:
    """The robot is pushed against a wall right in front of it."""
    free = walk(name, Forward(150), distance_m=5.0)
    assert free.contacts == Contacts()
    touching = walk(name, Forward(150), distance_m=0.34)
    assert touching.contacts.count >= 1
    assert touching.contacts.impulse_n_s > 0.1
    assert not touching.collision_free_success
    charged = walk(name, Forward(150, contact_cost_m_per_s=2.0), distance_m=0.34)
    assert charged.contacts == touching.contacts
    cost = 2.0 * touching.contacts.time_s
    assert charged.return_m == pytest.approx(touching.return_m - cost)


class There(Forward):
    """A task whose goal is reached from the start; the robot may fall in the last step."""

    def __init__(self, steps: int, lies_down: bool) -> None:
        super().__init__(steps)
        self.lies_down = lies_down

    def step(self, body: SimulatedBody) -> tuple[float, bool]:
        if self.lies_down and self.episode.steps[0] == self.steps - 1:
            body.place((0.0, 0.0, 0.1), upright(0.0))
        return super().step(body)[0], False

    def succeeded(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("lies_down", "fault", "success"),
    [(False, None, True), (True, None, False), (False, "a joint target is not finite", False)],
)
def test_a_robot_that_falls_at_the_goal_has_no_success(
    lies_down: bool, fault: str | None, success: bool
) -> None:
    """It has fallen in the last step, unseen by the supervisor, or was damped there on its feet."""
    pose = A1.default_pose_rad
    targets = iter([*[pose] * 9, np.full(12, np.nan) if fault else pose])
    controller = Controller(lambda *_: AHEAD, lambda *_: (next(targets), _[2]), Supervisor(A1))
    body = make_body("pybullet", A1, Walled(5.0))
    episode = run_episode(controller, body, There(10, lies_down), 0)
    on_its_feet = not fallen(body)
    body.close()
    assert (episode.steps, episode.fault, on_its_feet) == (10, fault, not lies_down)
    assert (episode.success, episode.collision_free_success, episode.fell) == (
        success,
        success,
        not success,
    )


def test_a_gliding_robot_is_stopped_by_a_wall_and_its_contact_counted() -> None:
    body = KinematicBody(A1, Walled(1.5))
    askew = Decision(latent_for(speed=0.6, yaw_rate=0.3), 800)
    episode = glide_episode(lambda *_: askew, body, Forward(400), 0)
    assert episode.contacts.count >= 1
    assert episode.contacts.time_s > 0.5
    assert episode.contacts.impulse_n_s == 0.0
    body.reset(0)
    while body.touching() is None:
        body.follow(askew.latent)
    places = []
    for _ in range(50):  # half a second, in which it would get on by 0.3 m
        body.follow(askew.latent)
        places.append(body.pose().position[:2])
    assert np.hypot(*np.ptp(places, axis=0)) < 0.03  # its corner withdraws as it turns
    body.close()


def test_metrics_distinguish_success_from_collision_free_success() -> None:
    def episode(success: bool | None, touched: int) -> Episode:
        none = np.zeros((0, 3))
        contacts = Contacts(touched, 0.1 * touched, 3.0 * touched)
        return Episode(
            0, success, 5.0, 5.0, False, None, 3, 100, none[:, :2], none, none, {}, contacts
        )

    figures = figures_of([episode(True, 0), episode(True, 2), episode(False, 0), episode(False, 1)])
    assert figures["success_rate"] == 0.5
    assert figures["collision_free_rate"] == 0.25
    assert figures["contact_free_rate"] == 0.5
    assert figures["contacts_per_episode"] == 0.75
    assert figures["contact_impulse_n_s"] == pytest.approx(2.25)
    assert [row["contacts"] for row in figures["episodes"]] == [0, 2, 0, 1]
    low, high = figures["interval_95"]["collision_free_rate"]
    assert low < 0.25 < high
    endless = [episode(None, 0), episode(True, 0)]  # of which one had nothing to reach
    assert figures_of(endless)["success_rate"] == 1.0
    assert figures_of(endless)["interval_95"]["success_rate"] == list(wilson(1, 1))
    near = [replace(episode(True, 0), metrics={"near_rate": 1.0}) for _ in range(9)]
    assert figures_of(near)["interval_95"]["near_rate"] == list(wilson(9, 9))


def test_a_long_contact_counts_once_and_two_contacts_twice() -> None:
    contacts = Contacts()
    for force in (None, 10.0, 10.0, None, None, 4.0, None):
        contacts.add(force)
    assert contacts.count == 2
    assert contacts.time_s == pytest.approx(0.03)
    assert contacts.impulse_n_s == pytest.approx(0.24)
