"""Vector environment of `PixelGait/Follow-v0`: bit-equal to as many single environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pixelgait.robot.errors import UserError
from pixelgait.robot.safety import supervisor
from pixelgait.sim.world.seeds import ranges_of
from tests.sim.test_environments import PREFIX

FOLLOW = f"{PREFIX}Follow-v0"
ROBOTS = 3


def make(mode: str, **options: Any) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(
        FOLLOW, num_envs=ROBOTS, vectorization_mode=mode, body="mujoco", **options
    )


def actions(steps: int) -> np.ndarray:
    """(steps, robots, 19): the first robot trots with a little noise, the others fall."""
    rng = np.random.default_rng(0)
    drawn = np.repeat(rng.uniform(-1.2, 1.2, (steps // 10 + 1, ROBOTS, 19)), 10, axis=0)[:steps]
    drawn[:, 0] *= 0.1
    return drawn.astype(np.float32)


def assert_the_same(steps: int, **options: Any) -> np.ndarray:
    """Compare with as many single environments; return how often each (terminated, truncated)."""
    together, alone = (make(mode, **options) for mode in ("vector_entry_point", "sync"))
    assert together.single_observation_space == alone.single_observation_space
    assert together.action_space == alone.action_space
    np.testing.assert_equal(together.reset(seed=5), alone.reset(seed=5))
    ends = np.zeros((2, ROBOTS), dtype=int)
    for action in actions(steps):
        ours = together.step(action)
        np.testing.assert_equal(ours, alone.step(action))
        ends += ours[2:4]
    together.close()
    alone.close()
    return ends


@pytest.mark.parametrize(
    ("robot", "skip"),
    [
        ("a1", 7),
        pytest.param("go2", 1, marks=pytest.mark.slow),
        pytest.param("a1", 1, marks=pytest.mark.long),
    ],
)
def test_each_robot_moves_as_in_a_single_environment(robot: str, skip: int) -> None:
    terminated, truncated = assert_the_same(1200 // skip, robot=robot, frame_skip=skip, seconds=3.0)
    assert terminated[1:].min() > 1  # and restarts
    assert truncated[0] > 1


def test_an_action_may_last_longer_than_the_episode_has_left() -> None:
    """An action takes 40 control steps, but only 20 of 300 are left after the seventh one."""
    _, truncated = assert_the_same(20, frame_skip=40, seconds=3.0)
    assert truncated[0] > 1


def test_a_damped_robot_is_damped_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MIN_UP_Z", float(np.cos(0.3)))  # leaning, long before a fall
    terminated, _ = assert_the_same(300)
    assert terminated[1:].min() > 1
    assert not terminated[0]


def test_a_step_before_the_first_reset_raises() -> None:
    for many in (make("vector_entry_point"), make("sync")):
        with pytest.raises(ResetNeeded):
            many.step(np.zeros((3, 19), np.float32))


@pytest.mark.parametrize(
    ("given", "use"), [(7, "training"), (9001, "validation"), (10_000, "evaluation")]
)
def test_drawn_seeds_have_the_use_of_the_seed_given_last(given: int, use: str) -> None:
    """Gymnasium's wrappers give a seed once; an evaluation must never draw a training seed."""
    for env in (make("vector_entry_point"), make("sync")):
        env.reset(seed=[given] * 3)
        later = [seed for _ in range(4) for seed in env.reset()[1]["seed"].tolist()]
        assert len(set(later)) == 4
        assert {ranges_of(range(seed, seed + 1))[0] for seed in later} == {use}


def test_seeds_are_those_of_single_environments() -> None:
    together, alone = make("vector_entry_point"), make("sync")
    seeds = [7, None, 9]
    (ours, infos), (theirs, expected) = together.reset(seed=seeds), alone.reset(seed=seeds)
    assert infos["seed"][[0, 2]].tolist() == expected["seed"][[0, 2]].tolist() == [7, 9]
    np.testing.assert_equal(ours["command"][[0, 2]], theirs["command"][[0, 2]])
    assert not np.array_equal(*(together.reset()[0]["command"] for _ in range(2)))
    with pytest.raises(UserError, match="2 seeds for 3 robots"):
        together.reset(seed=[1, 2])
    with pytest.raises(UserError, match=r"action has shape \(2, 19\), expected \(3, 19\)"):
        together.step(np.zeros((2, 19)))
    with pytest.raises(UserError, match=r"action has shape \(3, 18\), expected \(3, 19\)"):
        together.step(np.zeros((3, 18)))
    with pytest.raises(UserError, match=f"seed is {2**63}, expected 0 to {2**63 - 1}"):
        together.reset(seed=2**63 - 2)
    with pytest.raises(UserError, match="seeds 8998 to 9000 are of training and validation"):
        together.reset(seed=8998)  # seeds of validation for ever
    with pytest.raises(UserError, match="action contains nan"):
        together.step(np.full((3, 19), np.nan))
    with pytest.raises(UserError, match="reset_mask has no effect"):
        together.reset(options={"reset_mask": np.array((True, False, False))})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_envs": 0}, "num_envs is 0, expected an integer 1 to"),
        ({"seconds": 0.0}, "seconds is 0.0, expected"),
        ({"robot": "cow"}, "cow"),
        ({"body": "pybullet"}, "pass vectorization_mode='async'"),
        ({"randomise": True}, "pass vectorization_mode='async'"),
        ({"scene": "rough"}, "pass vectorization_mode='async'"),
    ],
)
def test_invalid_options_raise_a_user_error(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as refused:
        gymnasium.make_vec(FOLLOW, **{"num_envs": 2, "body": "mujoco", **options})
    assert line in str(refused.value)
