"""Baselines that know the goal position, and the success it gives them."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.policies.evaluation.baselines import Baseline, make_baseline
from pixelgait.policies.evaluation.evaluate import player
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.environments.robot_envs import no_high_level
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.navigate import Navigate
from tests.helpers import glide_episode

RANDOM = EvalConfig("walk", baseline="random", scene="flat", seconds=2.0)


def walked(baseline: Baseline, seeds: tuple[int, ...]) -> list[Episode]:
    body = KinematicBody(A1, make_scene("rooms", 0.5))
    high_level = make_baseline(baseline, no_high_level, body)
    return [glide_episode(high_level, body, Navigate(6000), seed) for seed in seeds]


@pytest.mark.long
def test_the_bug_baseline_passes_walls_that_stop_the_straight_baseline() -> None:
    houses = (9003, 9006, 9011, 9012)
    bug, straight = walked("bug", houses), walked("straight", houses)
    assert all(episode.success for episode in bug)
    assert not any(episode.success for episode in straight)


def test_random_commands_follow_from_the_seed_even_in_equal_layouts() -> None:
    first, second, again = (
        run_episode(controller, body, task, seed).decisions
        for controller, body, task in [player(RANDOM)]
        for seed in (10_000, 10_001, 10_000)
    )
    assert len(first) == 2
    assert not np.isclose(first, second).any(0)[:2].any()
    np.testing.assert_array_equal(first, again)


def test_the_bug_baseline_misses_paths_that_the_teacher_finds() -> None:
    """The wall on its right leads it away from the goal until the time is up."""
    houses = (9000, 9004)
    assert all(episode.success for episode in walked("teacher", houses))
    assert not any(episode.success for episode in walked("bug", houses))
