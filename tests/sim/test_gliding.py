"""Gliding robots: many at once as each alone, bit for bit; grounds and progress of user scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest

from pixelgait.robot.control.controller import Decision, latent_for
from pixelgait.robot.spec import A1
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.tasks.gliding import Glide, Look, glide_episodes
from pixelgait.sim.tasks.navigate import Forward, navigation_task
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.scene import Box, Layout, Plane, Pose, Scene, SceneWrapper
from tests.helpers import glide_episode

SEEDS = range(4)
STEPS = 1500


def robot(name: str, kind: str = "depth") -> KinematicBody:
    camera = Camera(A1.camera, 16, 12, kind)  # type: ignore[arg-type]
    return KinematicBody(A1, make_scene(name, 0.7), camera=camera, randomisation=Randomisation())


def assert_equal(one: Episode, other: Episode) -> None:
    for field in fields(Episode):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), field.name)


class Led:
    """High level that decides as the teacher, and keeps its images."""

    def __init__(self, body: KinematicBody) -> None:
        self.teacher, self.images = Teacher(body), list[np.ndarray]()

    def __call__(self, image: np.ndarray, *_: object) -> Decision:
        self.images.append(image)
        return self.teacher.decide()


@pytest.mark.parametrize("name", ["rooms", "mixture", "passers-by", "rough"])
def test_many_robots_at_once_glide_as_each_alone(name: str) -> None:
    bodies = [robot(name) for _ in SEEDS]
    teachers = [Teacher(body) for body in bodies]
    seen: dict[int, list[np.ndarray]] = {seed: [] for seed in SEEDS}

    def taught(looks: Sequence[Look]) -> list[Decision]:
        for look in looks:
            seen[look.robot].append(look.image)
        return [teachers[look.robot].decide() for look in looks]

    glides = [
        Glide(i, body, navigation_task(body.scene, STEPS), seed)
        for i, (body, seed) in enumerate(zip(bodies, SEEDS, strict=True))
    ]
    together = glide_episodes(taught, glides)
    body = robot(name)
    for seed, among in zip(SEEDS, together, strict=True):
        led = Led(body)
        assert_equal(among, glide_episode(led, body, navigation_task(body.scene, STEPS), seed))
        np.testing.assert_array_equal(seen[seed], led.images)


class Terrace(Scene):
    """Ground known point by point: a terrace up from x = 1 m, no ground beyond 1 m aside."""

    name = "terrace"
    fixed = (Plane(), Box(Pose(3.0, 0.0, 0.01), (2.0, 3.0, 0.01), (0.5, 0.5, 0.5)))

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))

    def ground_m(self, x: float, y: float) -> float | None:
        return (0.02 if x > 1.0 else 0.0) if abs(y) < 1.0 else None

    def progress_m(self, x: float, y: float) -> float:
        return 2.0 * x


def test_a_gliding_robot_uses_the_ground_and_progress_of_a_user_scene() -> None:
    body = KinematicBody(A1, Terrace(), camera=Camera(A1.camera, 8, 6, "depth"))
    straight = Decision(latent_for(0.6, 0.0), 20)
    ahead = glide_episode(lambda *_: straight, body, Forward(400), 0)
    assert not ahead.fell
    assert ahead.distance_m == pytest.approx(2.0 * float(ahead.path[-1, 0]), abs=0.01)
    assert body.pose().position[2] == pytest.approx(0.9 * A1.stand_height_m + 0.02, abs=1e-6)
    turning = Decision(latent_for(0.6, 0.5), 20)
    aside = glide_episode(lambda *_: turning, body, Forward(2000), 0)
    assert aside.fell
    assert 0.6 < abs(float(aside.path[-1, 1])) < 1.0  # with its feet, not its middle, on the edge


class Path(Scene):
    """A path without an end, known point by point; progress is twice the way."""

    name = "path"
    fixed = (Plane(),)

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(Pose(0.0, 0.0, 0.0))

    def ground_m(self, x: float, y: float) -> float | None:
        return 0.0 if abs(y) < 4.0 else None

    def progress_m(self, x: float, y: float) -> float:
        return 2.0 * x


class Backwards(SceneWrapper):
    """A user's wrapper with a progress of its own."""

    name = "backwards"

    def __init__(self, scene: Scene) -> None:
        self.scene, self.fixed = scene, scene.fixed

    def layout(self, rng: np.random.Generator) -> Layout:
        return self._laid_out(rng)

    def progress_m(self, x: float, y: float) -> float:
        return -x


def test_ground_and_progress_of_a_user_scene_do_not_end() -> None:
    body = KinematicBody(A1, Path(), camera=Camera(A1.camera, 8, 6, "depth"))
    heading = Decision(latent_for(0.6, 0.0), 100)

    def straight(*_: object) -> Decision:
        return replace(heading, latent=latent_for(0.6, -body.heading_rad()))

    episode = glide_episode(straight, body, Forward(4000), 0)
    assert not episode.fell
    assert episode.path[-1, 0] > 17.0
    assert episode.distance_m == pytest.approx(2.0 * float(episode.path[-1, 0]), abs=0.01)


def test_a_wrapper_may_have_a_progress_of_its_own() -> None:
    body = KinematicBody(A1, Backwards(Path()), camera=Camera(A1.camera, 8, 6, "depth"))
    straight = Decision(latent_for(0.6, 0.0), 20)
    episode = glide_episode(lambda *_: straight, body, Forward(300), 0)
    assert episode.distance_m == pytest.approx(-float(episode.path[-1, 0]), abs=0.01)
    assert episode.return_m == pytest.approx(episode.distance_m, abs=0.1)


def test_a_late_frame_prolongs_the_last_decision() -> None:
    """As in a controller: there is one decision by a frame."""
    slow = Randomisation(camera_period_s=(0.4, 0.4), camera_dropout=(0.0, 0.0))
    body = KinematicBody(
        A1, make_scene("flat"), camera=Camera(A1.camera, 8, 6, "depth"), randomisation=slow
    )
    short = Decision(latent_for(0.6, 0.0), 10)
    episode = glide_episode(lambda *_: short, body, Forward(200), 0)
    assert episode.steps == 200
    assert episode.images == 5  # at 0, 0.4, 0.8, 1.2 and 1.6 s
