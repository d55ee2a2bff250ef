"""The gliding robot: tracking like a walking one, stops at obstacles, falls at edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.runs.trained import trained_low_level
from pixelgait.robot.control.controller import Controller, Decision, latent_for
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, ROBOTS, Array
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.courses.obstacle_course import WALL_THICKNESS_M, ObstacleCourse
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.navigate import Forward
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.motions import placed
from pixelgait.sim.world.obstacles import MovingObstacle
from pixelgait.sim.world.scene import Box, Layout, Motion, Plane, Pose, Scene
from tests.helpers import glide_episode

WALK = Path("policies/pretrained/walk/low_level")
COMMANDS = [(0.3, 0.0), (0.5, 0.4), (0.2, -0.6), (0.5, 0.3), (0.0, 0.0)]  # [m/s], [rad/s], 2 s each
STEPS = 200


def walked(body: PyBulletBody) -> Array:
    """Poses (commands, 3) of a walking robot at the end of each command."""
    commands = iter(COMMANDS)
    controller = Controller(
        lambda *_: Decision(latent_for(*next(commands)), STEPS),
        trained_low_level(WALK),
        Supervisor(A1),
    )
    reading = body.reset(0)
    poses = []
    for step in range(1, STEPS * len(COMMANDS) + 1):
        body.apply(controller.step(reading).command)
        reading = body.read()
        if step % STEPS == 0:
            poses.append(planar_pose(body))
    return np.array(poses)


def glided(body: KinematicBody, seed: int) -> Array:
    body.reset(seed)
    poses = []
    for command in COMMANDS:
        for _ in range(STEPS):
            body.follow(latent_for(*command))
        poses.append(planar_pose(body))
    return np.array(poses)


FEET_HALF_M = np.abs(A1.feet_m[:, 1]).max() + 0.05  # as they swing


def test_gliding_paths_enclose_the_walking_one() -> None:
    """Over 10 s and 3 m the walking path lies within those of drawn gliding robots."""
    walker, glider = PyBulletBody(A1, FlatGround()), KinematicBody(A1, FlatGround())
    true = walked(walker)
    paths = np.array([glided(glider, seed) for seed in range(40)])
    walker.close()
    glider.close()
    assert np.linalg.norm(true[-1, :2]) > 2.0
    assert (np.abs(paths.mean(0) - true) < (0.25, 0.25, 0.2)).all()
    assert (paths.min(0) < true).all()
    assert (true < paths.max(0)).all()


def test_teacher_steers_a_gliding_robot_bit_equally() -> None:
    body = KinematicBody(A1, ObstacleCourse(0.5))
    teacher = Teacher(body)
    first, _, again = (
        glide_episode(teacher.decide, body, Forward(4500), seed) for seed in (9000, 9001, 9000)
    )
    assert first.success
    assert not first.fell
    assert np.array_equal(first.path, again.path)
    assert np.array_equal(first.decisions, again.decisions)
    body.close()


def test_randomised_camera_is_late_and_dark_and_episodes_stay_bit_equal() -> None:
    """A camera 0.1 s late and half as bright: stamps, brightness, repeatability."""
    ranges = replace(
        Randomisation(),
        camera_latency_s=(0.1, 0.1),
        camera_period_s=(0.0, 0.0),
        camera_gain=(0.5, 0.5),
        camera_noise=(0.0, 0.0),
        camera_exposure=(0.0, 0.0),
        camera_red=(1.0, 1.0),
        camera_blue=(1.0, 1.0),
        camera_vignetting=(0.0, 0.0),
    )
    course = ObstacleCourse(0.5)
    ideal, real = KinematicBody(A1, course), KinematicBody(A1, course, randomisation=ranges)
    seen = []
    for body in (ideal, real, real):
        body.reset(9000)
        for _ in range(50):
            body.follow(latent_for(0.6, 0.3))
        seen.append(body.render())
    assert seen[0].time_s == pytest.approx(0.5)
    assert seen[1].time_s == pytest.approx(0.4)
    assert seen[1].pixels.mean() == pytest.approx(seen[0].pixels.mean() / 2.0, rel=0.1)
    assert np.array_equal(seen[1].pixels, seen[2].pixels)
    ideal.close()
    real.close()


@pytest.mark.parametrize("randomised", [False, True])
def test_randomised_odometry_scales_distances(randomised: bool) -> None:
    ranges = replace(Randomisation(), odometry_scale=(1.1, 1.1), odometry_turn_rad_per_m=(0.0, 0.0))
    body = KinematicBody(A1, FlatGround(), randomisation=ranges if randomised else None)
    body.reset(9000)
    start = planar_pose(body)[:2]
    for _ in range(300):
        body.follow(latent_for(0.6, 0.3))
        measured = body.read().odometry
    assert measured is not None
    walked, filtered = (np.hypot(*(pose[:2] - start)) for pose in (planar_pose(body), measured))
    assert walked > 1.0
    assert filtered / walked == pytest.approx(1.1 if randomised else 1.0)
    body.close()


def test_walls_stop_a_gliding_robot_and_turning_frees_it() -> None:
    body = KinematicBody(A1, ObstacleCourse(0.5))
    body.reset(3)
    wall = body.scene.walls[0]
    state = body.robot
    state.x, state.y, state.yaw = 0.0, wall.side, 0.0  # behind the wall, far from its end
    state.drift_rad_per_s, state.slip, state.turn_gain = 0.0, 0.0, 1.0
    for _ in range(1000):
        body.follow(latent_for(0.6, 0.0))
    x = body.pose()[0][0]
    assert x + 0.25 == pytest.approx(wall.x - WALL_THICKNESS_M / 2, abs=0.05)
    for _ in range(314):
        body.follow(latent_for(0.0, 1.0))
    for _ in range(100):
        body.follow(latent_for(0.6, 0.0))
    assert body.pose()[0][0] < x - 0.1  # away, backwards along the course
    body.close()


class Ahead(Scene):
    """A wall 1.5 m ahead that is higher than the camera."""

    name = "ahead"
    fixed = (Plane(), Box(Pose(1.5, 0.0, 1.0), (0.08, 3.0, 1.0), (0.7, 0.3, 0.2)))

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))


@pytest.mark.parametrize("robot", ROBOTS)
def test_camera_of_a_gliding_robot_stays_outside_walls(robot: str) -> None:
    """Inside a wall it would look through it, and a student would learn that there is room."""
    spec = ROBOTS[robot]
    body = KinematicBody(spec, Ahead(), camera=Camera(spec.camera, 32, 32, "depth"))
    body.reset(0)
    for _ in range(600):
        body.follow(latent_for(0.6, 0.0))
    assert 0.02 < body.render().pixels[:20].max() < 0.3  # [m]
    body.close()


class Crossing(Scene):
    """A post 1 m ahead that motions 2 m to the left, and is back after half a period."""

    name = "crossing"
    period_s = 16.0
    fixed = (Plane(),)
    movable = (Box(Pose(0, 0, 0), (0.2, 0.2, 0.5), (0.5, 0.5, 0.5)),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(
            Pose(0, 0, 0), [Pose(1.0, 0.0, 0.5)], [Motion(0, (0.0, 2.0, 0.0), self.period_s)]
        )


def test_swinging_obstacle_stops_a_gliding_robot_at_its_present_pose() -> None:
    body = KinematicBody(A1, Crossing())
    body.reset(0)
    body.robot.drift_rad_per_s = body.robot.slip = 0.0
    for _ in range(300):  # the post is on its left
        body.follow(latent_for(0.0, 0.0))
    for _ in range(200):
        body.follow(latent_for(0.4, 0.0))
        assert body.touching() is None
    assert 0.5 < body.pose()[0][0] < 1.0
    touched = 0
    for _ in range(300):  # it stands in the way of the post, which comes back
        body.follow(latent_for(0.0, 0.0))
        touched += body.touching() is not None
    assert 30 < touched < 300
    body.close()


@pytest.mark.parametrize("taken", [(), (5, 10)])
def test_image_shows_swinging_shapes_at_their_present_pose(
    taken: tuple[int, ...],
) -> None:
    camera = Camera(A1.camera, kind="depth")
    body = KinematicBody(A1, Crossing(), camera=camera)
    body.reset(0)
    for step in range(15):
        body.follow(latent_for(0.0, 0.0))
        if step in taken:
            body.render()
    sky = body.render().pixels[0]  # (32,) [m], and a post in it, 0.4 m wide
    right_m = (np.arange(32) - 15.5) * sky / camera.focal_pixels
    y = 2.0 * np.sin(2.0 * np.pi * 0.15 / Crossing.period_s)
    assert -right_m[sky < 1.0].mean() == pytest.approx(y, abs=0.02)
    body.close()


@pytest.mark.parametrize("ahead_m", [-0.15, 0.0, 0.42])  # of the robot's middle
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_swinging_obstacle_that_hits_the_side_is_a_contact_at_once(
    ahead_m: float, side: float
) -> None:
    """A post comes at 2 m/s, towards the feet, the flank and the nose."""
    scene = Crossing()
    scene.layout = lambda rng: Layout(  # type: ignore[method-assign]
        Pose(0, 0, 0),
        [Pose(ahead_m, side * 3.0, 0.5)],
        [Motion(0, (0.0, side * -3.0, 0.0), 6.0 * np.pi / 2.0)],
    )
    body = KinematicBody(A1, scene)
    body.reset(0)
    while body.touching() is None:
        body.follow(latent_for(0.0, 0.0))
        assert body.time_s < 3.0
    reached = abs(placed(body.layout, body.time_s)[0].y) - scene.movable[0].half_m[1]
    half_m = FEET_HALF_M if ahead_m < 0.2 else 0.14  # of the nose, where the post begins
    assert half_m - 0.12 < reached < half_m
    body.close()


@pytest.mark.slow
@pytest.mark.parametrize("half_m", [0.05, 0.2])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_posts_neither_pass_through_nor_touch_from_beside(half_m: float, side: float) -> None:
    class Post(Crossing):
        movable = (Box(Pose(0, 0, 0), (half_m, half_m, 0.5), (0.5, 0.5, 0.5)),)

        def layout(self, rng: np.random.Generator) -> Layout:
            return Layout(Pose(0, 0, 0), [Pose(1.0, 0.0, 0.5)])

    body = KinematicBody(A1, Post())
    for path_length_m in np.arange(0.0, 0.4, 0.01):
        body.reset(0)
        body.robot.drift_rad_per_s = body.robot.slip = 0.0
        body.robot.y = side * path_length_m
        touched = False
        for _ in range(500):  # past it, if it can
            body.follow(latent_for(0.6, 0.0))
            touched |= body.touching() is not None
        beside_m = path_length_m - FEET_HALF_M - half_m
        assert abs(beside_m) < 0.01 or touched == (beside_m < 0.0), path_length_m
    body.close()


def test_gliding_into_a_swinging_obstacle_stops_the_robot() -> None:
    scene = Crossing()
    scene.period_s = 300.0
    body = KinematicBody(A1, scene)
    body.reset(0)
    body.robot.drift_rad_per_s = body.robot.slip = 0.0
    for _ in range(300):
        body.follow(latent_for(0.6, 0.0))
    assert body.touching() is not None
    assert body.pose()[0][0] + 0.25 == pytest.approx(0.8, abs=0.05)
    body.close()


def test_swing_is_fastest_in_the_middle() -> None:
    box, swing = Crossing.movable[0], Motion(0, (0.3, 0.4, 9.0), 2.0)
    mover = MovingObstacle(box, Pose(5.0, 0.0, 0.0), swing)
    layout = Layout(Pose(0, 0, 0), [mover.own], [swing])
    places = [placed(layout, time_s)[0] for time_s in np.arange(0.0, 2.0, 1e-3)]
    steps = np.diff([(place.x, place.y) for place in places], axis=0)
    assert mover.fastest_m_per_s == pytest.approx(np.hypot(*steps.T).max() / 1e-3, rel=1e-3)


def test_heading_of_an_imu_drifts() -> None:
    ranges = replace(Randomisation(), heading_drift_rad_per_s=(0.01, 0.01))
    body = KinematicBody(A1, FlatGround(), randomisation=ranges)
    body.reset(0)
    for _ in range(1000):
        body.follow(latent_for(0.3, 0.2))
    said, true = (heading(each) for each in (body.read().orientation, body.pose().orientation))
    assert wrap_angle(said - true) == pytest.approx(0.1)
    body.close()


def test_foot_over_the_edge_is_a_fall() -> None:
    body = KinematicBody(A1, ObstacleCourse(0.5))
    blind = glide_episode(
        lambda *_: Decision(latent_for(0.4, 0.5), 100), body, Forward(4500), seed=0
    )
    assert blind.fell
    assert not blind.success
    assert abs(blind.path[-1][1]) > 1.2 or blind.path[-1][0] < -0.7
    body.close()
