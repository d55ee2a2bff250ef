"""`PixelGait/Follow-v0` many at once: what Gymnasium makes of as many single ones, bit for bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from pixelgait.robot.errors import UserError
from pixelgait.robot.safety import supervisor
from pixelgait.sim.environments.follow_vector_env import FollowVectorEnv
from pixelgait.sim.environments.shared_vector_env import SharedVectorEnv
from pixelgait.sim.world.seeds import ranges_of
from tests.sim.test_environments import PREFIX

FOLLOW = f"{PREFIX}Follow-v0"
ROBOTS = 3


def make(mode: str, **options: Any) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(
        FOLLOW, num_envs=ROBOTS, vectorization_mode=mode, body="mujoco", **options
    )


def actions(steps: int) -> np.ndarray:
    """(steps, robots, 19): the first trots with a little noise, the others are thrown about."""
    rng = np.random.default_rng(0)
    drawn = np.repeat(rng.uniform(-1.2, 1.2, (steps // 10 + 1, ROBOTS, 19)), 10, axis=0)[:steps]
    drawn[:, 0] *= 0.1
    return drawn.astype(np.float32)


def assert_the_same(steps: int, **options: Any) -> np.ndarray:
    """Beside as many single ones; returns how often each was (terminated, truncated)."""
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
def test_each_does_as_it_does_alone(robot: str, skip: int) -> None:
    terminated, truncated = assert_the_same(1200 // skip, robot=robot, frame_skip=skip, seconds=3.0)
    assert terminated[1:].min() > 1  # and begins anew
    assert truncated[0] > 1


def test_an_action_may_last_longer_than_the_episode_has_left() -> None:
    """40 control steps at a time, and 20 are left of 300 after the seventh action."""
    _, truncated = assert_the_same(20, frame_skip=40, seconds=3.0)
    assert truncated[0] > 1


def test_who_is_damped_is_damped_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        supervisor, "LEAST_UP_Z", float(np.cos(0.3))
    )  # who leans, long before he falls
    terminated, _ = assert_the_same(300)
    assert terminated[1:].min() > 1
    assert not terminated[0]


def test_nobody_steps_before_the_reset() -> None:
    for many in (make("vector_entry_point"), make("sync")):
        with pytest.raises(ResetNeeded):
            many.step(np.zeros((3, 19), np.float32))


@pytest.mark.parametrize(
    ("given", "use"), [(7, "training"), (9001, "validation"), (10_000, "evaluation")]
)
def test_who_begins_with_a_seed_of_evaluation_is_never_given_one_of_training(
    given: int, use: str
) -> None:
    """Gymnasium's wrappers give a seed once; what follows must have the same use."""
    for env in (make("vector_entry_point"), make("sync")):
        env.reset(seed=[given] * 3)
        later = [seed for _ in range(4) for seed in env.reset()[1]["seed"].tolist()]
        assert len(set(later)) == 4
        assert {ranges_of(range(seed, seed + 1))[0] for seed in later} == {use}


def test_seeds_are_those_of_single_ones() -> None:
    together, alone = make("vector_entry_point"), make("sync")
    seeds = [7, None, 9]
    (ours, told), (theirs, expected) = together.reset(seed=seeds), alone.reset(seed=seeds)
    assert told["seed"][[0, 2]].tolist() == expected["seed"][[0, 2]].tolist() == [7, 9]
    np.testing.assert_equal(ours["command"][[0, 2]], theirs["command"][[0, 2]])
    assert not np.array_equal(*(together.reset()[0]["command"] for _ in range(2)))
    with pytest.raises(UserError, match="seed: 2 for 3 robots"):
        together.reset(seed=[1, 2])
    with pytest.raises(UserError, match="actions: 2 for 3 robots"):
        together.step(np.zeros((2, 19)))
    with pytest.raises(UserError, match=r"shape of an action is \(3, 18\), expected \(3, 19\)"):
        together.step(np.zeros((3, 18)))
    with pytest.raises(UserError, match=r"seed is 1\.5, needs a whole number"):
        together.reset(seed=1.5)
    with pytest.raises(UserError, match=f"seed of a robot is {2**63}, expected 0 to {2**63 - 1}"):
        together.reset(seed=2**63 - 2)
    with pytest.raises(UserError, match="of 3 robots: training and validation"):
        together.reset(seed=8998)  # seeds of validation for ever
    with pytest.raises(UserError, match="an action is nan"):
        together.step(np.full((3, 19), np.nan))
    with pytest.raises(UserError, match="reset_mask: "):
        together.reset(options={"reset_mask": np.array((True, False, False))})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_envs": 0}, "num_envs is 0, needs a whole number from 1 to"),
        ({"seconds": 0.0}, "seconds is 0.0, expected"),
        ({"robot": "cow"}, "cow"),
        ({"render_mode": 3}, "unknown render_mode 3, choose from rgb_array, camera"),
    ],
)
def test_what_many_cannot_have_is_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as refused:
        gymnasium.make_vec(FOLLOW, **{"num_envs": 2, "body": "mujoco", **options})
    assert line in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [{"body": "pybullet"}, {"randomise": True}, {"scene": "rough"}, {"render_mode": "rgb_array"}],
)
def test_what_one_process_cannot_hold_is_in_workers(options: dict[str, Any]) -> None:
    environments = gymnasium.make_vec(FOLLOW, **{"num_envs": 1, "body": "mujoco", **options})
    assert isinstance(environments, SharedVectorEnv)
    environments.close()


def test_what_a_single_one_does_unasked_may_be_asked_for() -> None:
    unasked: dict[str, Any] = {
        "render_mode": None,
        "appearance": "nominal",
        "faults": (),
        "randomise": False,
    }
    environments = gymnasium.make_vec(FOLLOW, num_envs=2, body="mujoco", **unasked)
    assert isinstance(environments, FollowVectorEnv)
    environments.reset(seed=1)
    environments.close()
