"""A low level carried over to another robot: leg pose for leg pose it does the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.low_level import carried_over, searched_low_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.policies.training.config import (
    FollowConfig,
    JointConfig,
)
from pixelgait.policies.training.loop import first_checkpoint
from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.low_level import (
    INPUT_SIZE,
    LOW_LEVEL_WEIGHTS,
    LinearLowLevel,
    features,
)
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, GO2, LAIKAGO, MINI_CHEETAH, Array, RobotSpec
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.manoeuvres import walk

WALK = Path("policies/pretrained/walk/low_level/best.npz")


@pytest.mark.parametrize("spec", [MINI_CHEETAH, LAIKAGO, GO2])
def test_equal_leg_poses_make_equal_actions(spec: RobotSpec) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(LOW_LEVEL_WEIGHTS)
    mean = np.concatenate([np.zeros(2), rng.standard_normal(INPUT_SIZE - 2)])
    normaliser = Normaliser(9.0, mean, 9.0 * rng.uniform(0.01, 4.0, INPUT_SIZE))
    carried = searched_low_level(spec, *carried_over(weights, normaliser, A1, spec), False)
    original = searched_low_level(A1, weights, normaliser, False)
    others = rng.standard_normal(2), rng.standard_normal(4)
    poses, phase = rng.standard_normal(12), rng.uniform(0.0, 6.0, 1)

    def action(low_level: LinearLowLevel) -> Array:
        angles = low_level.spec.default_pose_rad + joint_map(low_level.spec) @ poses
        return low_level.matrix @ features(*others, angles, phase) + low_level.bias

    np.testing.assert_allclose(action(carried), action(original), atol=1e-10)


@pytest.mark.parametrize("spec", [MINI_CHEETAH, LAIKAGO, GO2])
def test_an_a1_low_level_walks_on_other_robots(spec: RobotSpec, tmp_path: Path) -> None:
    config = FollowConfig(out=tmp_path / "run", robot=spec.name, start=Path("walk"), mirror=True)
    first = first_checkpoint(config, config.plan())
    low_level = searched_low_level(spec, first.weights, first.normaliser, True)
    body = PyBulletBody(spec, FlatGround())
    try:
        walked = walk(Controller(None, low_level, Supervisor(spec)), body, 0.6, 0.0, 4.0)
    finally:
        body.close()
    assert not walked.fell
    assert walked.speed > 0.1  # [m/s]; as it was, the Mini Cheetah walked backwards


def test_both_levels_begin_with_legs_that_are_carried_over(tmp_path: Path) -> None:
    run, low_level = tmp_path / "run", Path("walk")
    joint = JointConfig(out=run, robot="laikago", low_level=low_level, mirror=True)
    follow = FollowConfig(out=run, robot="laikago", start=low_level, mirror=True)
    both, legs = (first_checkpoint(config, config.plan()) for config in (joint, follow))
    np.testing.assert_array_equal(both.weights[-LOW_LEVEL_WEIGHTS:], legs.weights)
    np.testing.assert_array_equal(both.normaliser.mean, legs.normaliser.mean)


def test_carrying_over_to_the_same_robot_changes_no_weights(tmp_path: Path) -> None:
    config = FollowConfig(out=tmp_path / "run", start=Path("walk"), mirror=True)
    first, walk = first_checkpoint(config, config.plan()), load_checkpoint(WALK)
    np.testing.assert_allclose(first.weights, walk.weights, atol=1e-12)
    np.testing.assert_allclose(first.normaliser.mean, walk.normaliser.mean, atol=1e-12)
