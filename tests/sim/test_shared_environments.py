"""Environments that processes share: what Gymnasium makes of as many single ones, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError

from pixelgait.robot.errors import UserError
from pixelgait.sim.environments.gait_env import GaitEnv
from pixelgait.sim.environments.shared_vector_env import SharedVectorEnv
from tests.conftest import alive, child_environment
from tests.sim.test_environments import PREFIX

ROBOTS = 3
FOLLOW = {"name": "Follow", "seconds": 0.4}


def make(
    name: str, mode: str | None = None, num_envs: int = ROBOTS, **options: Any
) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(f"{PREFIX}{name}-v0", num_envs, mode, **options)


@pytest.fixture(scope="module")
def two() -> Iterator[gymnasium.vector.VectorEnv]:
    """Robots in as many workers, to be begun anew by each test."""
    environments = make("Follow", num_envs=2, workers=2)
    yield environments
    environments.close()


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (FOLLOW, 100),
        ({**FOLLOW, "body": "mujoco", "randomise": True}, 100),
        ({"name": "ObstacleCourse", "seconds": 0.2, "camera": "rgbd"}, 50),
        ({"name": "Walk", "max_episode_steps": 15, "image_size": None, "frame_skip": 2}, 40),
        ({"name": "Steer", "body": "glide", "scene": "rooms", "goal": True, "seconds": 1.0}, 20),
    ],
)
def test_each_does_as_it_does_alone(options: dict[str, Any], steps: int) -> None:
    together, alone = make(**options, workers=2), make(mode="sync", **options)
    assert together.single_observation_space == alone.single_observation_space
    assert together.observation_space == alone.observation_space
    assert together.action_space == alone.action_space
    assert together.metadata == alone.metadata
    np.testing.assert_equal(together.reset(seed=5), alone.reset(seed=5))
    rng, ends = np.random.default_rng(0), 0
    for _ in range(steps):
        actions = rng.uniform(-1.2, 1.2, together.action_space.shape).astype(np.float32)
        ours, theirs = together.step(actions), alone.step(actions)
        np.testing.assert_equal(ours, theirs)
        for kept, other in chain(zip(ours[1:4], theirs[1:4], strict=True), _infos(ours, theirs)):
            assert kept.dtype == other.dtype
        ends += int((ours[2] | ours[3]).sum())
    assert ends >= 2 * ROBOTS
    together.close()
    alone.close()


def _infos(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return [(ours[4][name], theirs[4][name]) for name in theirs[4]]


def test_what_was_returned_stays_as_it_was(two: gymnasium.vector.VectorEnv) -> None:
    first = two.reset(seed=1)[0]["proprioception"]
    kept = first.copy()
    two.step(np.ones((2, 19), np.float32))
    np.testing.assert_array_equal(first, kept)


def test_seeds_are_those_of_single_ones(two: gymnasium.vector.VectorEnv) -> None:
    assert two.reset(seed=[7, 9])[1]["seed"].tolist() == [7, 9]
    assert two.reset(seed=[None, 8])[1]["seed"][1] == 8
    two.reset(seed=3)
    drawn, next_drawn = (two.reset(options={})[1]["seed"].tolist() for _ in range(2))
    assert drawn != next_drawn
    two.reset(seed=3)
    assert two.reset()[1]["seed"].tolist() == drawn
    for wrong in ([1], [1, 2, 3], []):
        with pytest.raises(UserError, match=rf"seed: {len(wrong)} for 2 robots"):
            two.reset(seed=wrong)
    for wrong in (10**20, -1, [1, 10**20], [1, -1], [1, 1.5], "ab"):
        with pytest.raises(
            UserError, match=r"seed of a robot is .*, expected 0 to 9223372036854775807"
        ):
            two.reset(seed=wrong)
    with pytest.raises(UserError, match="an action is nan"):
        two.step(np.full((2, 19), np.nan))
    with pytest.raises(UserError, match="reset_mask: "):
        two.reset(options={"reset_mask": np.array((True, False))})
    with pytest.raises(UserError, match="actions: 3 for 2 robots"):
        two.step(np.zeros((3, 19)))
    for wrong in (np.zeros((2, 18)), np.zeros(2), None):
        with pytest.raises(UserError, match=r"shape of an action is .*, expected \(2, 19\)"):
            two.step(wrong)
    assert not two.closed


def test_one_reaches_the_single_ones(two: gymnasium.vector.VectorEnv) -> None:
    two.reset(seed=1)
    two.set_attr("mark", [4, 5])
    assert two.get_attr("mark") == (4, 5)
    two.set_attr("mark", 6)
    assert two.call("get_wrapper_attr", "mark") == (6, 6)
    assert two.call("time_is_up") == (False, False)
    pictured = make("Follow", num_envs=2, workers=2, render_mode="rgb_array")
    pictured.reset(seed=1)
    assert [picture.shape for picture in pictured.render()] == [(320, 480, 3)] * 2
    pictured.close()


@pytest.mark.parametrize(("robots", "workers", "processes"), [(3, 2, 2), (2, 5, 2), (3, 1, 1)])
def test_there_are_as_many_workers_as_wanted(robots: int, workers: int, processes: int) -> None:
    environments = make("Follow", num_envs=robots, workers=workers)
    assert len(environments.workers) == processes - 1
    assert environments.reset(seed=0)[0]["command"].shape == (robots, 2)
    started = [worker.process.pid for worker in environments.workers]
    environments.close()
    environments.close()
    assert not any(alive(pid) for pid in started)
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        environments.reset()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"workers": 0}, "workers is 0, needs a whole number from 1 to"),
        ({"workers": 1.5}, "workers is 1.5, needs"),
        ({"num_envs": 0}, "num_envs is 0, needs a whole number from 1 to"),
        ({"robot": "cow"}, "cow"),
        ({"seconds": 0.0}, "seconds is 0.0, expected"),
        ({"body": "glide"}, "body 'glide' has no legs"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as refused:
        make("Follow", **options)
    assert line in str(refused.value)


class Faulty(GaitEnv):
    """Raises an error in its third step, after seed 2: the last one of three, a worker's."""

    def __init__(self, kind: type[Exception], arguments: tuple[Any, ...]) -> None:
        super().__init__("flat", image_size=None)
        self.kind, self.arguments = kind, arguments

    def step(self, action: Any) -> Any:
        if self.steps == 2 and self.seed == 2:
            raise self.kind(*self.arguments)
        return super().step(action)


class UnsendableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "arguments", "expected", "said"),
    [
        (UserError, ("one line",), UserError, "^one line$"),
        (ZeroDivisionError, ("by zero",), ZeroDivisionError, "^by zero$"),
        (EOFError, ("of its own",), EOFError, "^of its own$"),
        (UnsendableError, (1, 2), RuntimeError, "^UnsendableError: 1 and 2$"),
    ],
)
def test_what_is_raised_there_is_raised_here(
    kind: type[Exception], arguments: tuple[Any, ...], expected: type[Exception], said: str
) -> None:
    environments = SharedVectorEnv(partial(Faulty, kind, arguments), 3, 2)
    environments.reset(seed=0)
    for _ in range(2):
        environments.step(np.zeros((3, 19)))
    with pytest.raises(expected, match=said) as raised:
        environments.step(np.zeros((3, 19)))
    if expected is UserError:
        assert raised.value.__cause__ is None
    else:
        assert "in step" in str(raised.value.__cause__)  # where it was
    assert environments.closed
    environments = SharedVectorEnv(partial(Faulty, kind, arguments), 1)
    environments.reset(seed=2)
    environments.step(np.zeros((1, 19)))
    environments.step(np.zeros((1, 19)))
    with pytest.raises(kind):  # the caller's own
        environments.step(np.zeros((1, 19)))
    assert environments.closed


def test_a_worker_that_dies_is_told_in_a_line() -> None:
    environments = make("Follow", num_envs=2, workers=2)
    environments.reset(seed=0)
    environments.workers[0].process.kill()
    with pytest.raises(UserError, match=r"^a worker of these environments has ended: "):
        environments.step(np.zeros((2, 19)))
    assert not any(worker.process.is_alive() for worker in environments.workers)


STEPS = """
import sys
import gymnasium, numpy
from pixelgait.robot.errors import run_command
def main():
    environments = gymnasium.make_vec(sys.argv[1], 2, workers=2, frame_skip=10)
    environments.reset(seed=0)
    print(*[worker.process.pid for worker in environments.workers], flush=True)
    while True:
        environments.step(numpy.zeros((2, 19)))
if __name__ == "__main__":
    run_command(main)
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)],
)
def test_workers_end_with_whoever_has_started_them(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    script, said = tmp_path / "steps.py", tmp_path / "said"
    script.write_text(STEPS)
    with said.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, script, f"{PREFIX}Follow-v0"],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=child_environment(),
            start_new_session=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        )
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 1
    time.sleep(0.3)
    if number == signal.SIGINT:  # a terminal sends it to all
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(60.0) == code
    deadline = time.monotonic() + 60.0
    while any(map(alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert said.read_text() == ("error: interrupted\n" if number == signal.SIGINT else "")


def test_a_script_that_multiprocessing_cannot_read_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "steps.py"
    script.write_text(STEPS.replace('if __name__ == "__main__":', "if True:"))
    done = subprocess.run(
        [sys.executable, script, f"{PREFIX}Follow-v0"],
        capture_output=True,
        text=True,
        env=child_environment(),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: a worker of these environments has")
