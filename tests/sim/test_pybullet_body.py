"""PyBullet body, Gymnasium's checker, determinism, the obstacle course and intervals."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pixelgait.policies.evaluation.metrics import figures_of, wilson
from pixelgait.robot.control.controller import Controller, commanded, latent_for
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.courses.raised_platform import LENGTH_M, WIDTH_M
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import Contacts, Episode, run_episode
from pixelgait.sim.tasks.follow import Follow
from pixelgait.sim.tasks.navigate import Forward
from tests.conftest import gentle_weights

IDS = ["PixelGait/Walk-v0", "PixelGait/ObstacleCourse-v0"]
MORE_IDS = [*IDS, "PixelGait/Follow-v0", "PixelGait/Steer-v0"]


@pytest.mark.parametrize("name", MORE_IDS)
def test_environments_pass_gymnasiums_checker(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"pixelgait.sim.envs:{name}", render_mode="rgb_array")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_an_environment_depends_on_its_seed_alone(name: str) -> None:
    env = gymnasium.make(f"pixelgait.sim.envs:{name}")

    def episode(seed: int) -> list[np.ndarray]:
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        seen = [observation["image"].copy(), observation["proprioception"].copy()]
        for _ in range(150):
            observation, reward, terminated, _, _ = env.step(0.5 * env.action_space.sample())
            seen += [observation["image"].copy(), observation["proprioception"].copy(), reward]
            if terminated:
                break
        return seen

    first = episode(3)
    episode(4)
    second = episode(3)
    assert len(first) == len(second) > 60
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    env.close()


def test_the_medium_course_has_the_documented_size() -> None:
    """Measured by rays along the platform, not read from the course."""
    body = PyBulletBody(A1, ObstacleCourse(0.5))
    across = np.linspace(-WIDTH_M / 2 + 0.005, WIDTH_M / 2 - 0.005, 299)
    from_left = []
    for seed in range(30):
        body.reset(seed)
        for x in (2.5, 5.0, 7.5, 10.0):
            starts = [(x - 1.0, y, 0.3) for y in across]
            ends = [(x + 0.5, y, 0.3) for y in across]
            hits = pybullet.rayTestBatch(starts, ends, physicsClientId=body.client)
            blocked = np.array([hit[0] not in (-1, body.robot) for hit in hits])
            assert 0.39 <= blocked.mean() <= 0.51
            assert np.count_nonzero(np.diff(blocked.astype(int))) == 1  # one gap, at one side
            from_left.append(blocked[-1])
    assert LENGTH_M >= 12.0
    assert 0.35 < np.mean(from_left) < 0.65
    body.close()


def test_the_camera_sees_walls_and_not_its_own_robot() -> None:
    body = PyBulletBody(A1, ObstacleCourse(0.5))
    body.reset(0)
    image = body.render().pixels
    assert image.shape == (32, 32, 3)
    reddish = (image[..., 0] > 1.5 * image[..., 1]) & (image[..., 0] > 60)
    assert 20 < reddish.sum() < 900  # the walls
    flat = PyBulletBody(A1, FlatGround())
    flat.reset(0)
    assert len(np.unique(flat.render().pixels.reshape(-1, 3), axis=0)) <= 3  # sky, two checks
    body.close()
    flat.close()


def test_walking_off_the_platform_is_a_fall() -> None:
    body = PyBulletBody(A1, ObstacleCourse(0.5))
    task = Forward(100)
    body.reset(0)
    task.reset(body, 0)
    over = []
    for y in (0.0, WIDTH_M / 2 + 0.1):
        body.place((0.0, y, 0.28), (0.0, 0.0, 0.0, 1.0))
        over.append(task.step(body)[1])
    assert over == [False, True]
    body.close()


def test_commands_and_latents_are_inverse() -> None:
    for speed, yaw_rate in ((0.0, 0.0), (0.6, -1.0), (0.3, 0.5)):
        assert commanded(latent_for(speed, yaw_rate)) == pytest.approx((speed, yaw_rate))


def test_trotting_on_the_spot_under_commands_scores_by_its_errors() -> None:
    body = PyBulletBody(A1, FlatGround())
    task = Follow(500)
    low_level = LinearLowLevel.from_weights(A1, gentle_weights())
    controller = Controller(task.command, low_level, Supervisor(A1))
    episode = run_episode(controller, body, task, seed=2)
    assert episode.steps == 500
    assert 0.0 < episode.return_m < 5.0
    assert episode.metrics["speed_error"] > 0.1
    assert episode.images == 5  # one command a second
    body.close()


def test_intervals_of_the_evaluation() -> None:
    low, high = wilson(9, 10)
    assert (low, high) == (pytest.approx(0.596, abs=1e-3), pytest.approx(0.982, abs=1e-3))
    empty = np.zeros((0, 2))
    episodes = [
        Episode(
            seed=i,
            success=i % 2 == 0,
            distance_m=float(i),
            return_m=float(i),
            fell=False,
            fault=None,
            images=10,
            steps=100,
            path=empty,
            observations=empty,
            decisions=empty,
            metrics={},
            contacts=Contacts(),
        )
        for i in range(10)
    ]
    figures = figures_of(episodes)
    assert figures["success_rate"] == 0.5
    assert figures["distance_m"] == 4.5
    half = 2.262 * np.std(np.arange(10), ddof=1) / np.sqrt(10)
    assert figures["interval_95"]["distance_m"] == pytest.approx([4.5 - half, 4.5 + half])
    assert [row["seed"] for row in figures["episodes"]] == list(range(10))
