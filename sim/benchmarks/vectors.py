"""How fast Gymnasium's vector environments are, against the same steps without Gymnasium."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.vector.async_vector_env import _async_worker

from pixelgait.robot.cli.processes import (
    deferred_interrupt,
    interrupt_later,
    serve,
    start_fork_server,
)
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim import envs
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.environments.argument_checks import LONGEST_S
from pixelgait.sim.environments.gait_env import Agent
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.follow import Follow

ENVIRONMENTS, SKIP = 2, 20  # side by side, each in a process; control steps of an action
SHARED = 16  # environments that as many processes share
CONTEXT: Final = "forkserver"
FOLLOW = f"{envs.__name__}:PixelGait/Follow-v0"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def vector_rates(spec: RobotSpec, steps: int, rounds: int, seed: int) -> dict[str, float]:
    """Rates [control steps/s of processor time] and their ratio, medians over rounds.

    The task is PixelGait/Follow-v0, trotting on the spot, an action every `SKIP` control steps.
    Both run in as many processes at once: two that share a processor's caches are slower than one,
    whoever they are. Counted is the time of all processors: simulation, messages between processes,
    Gymnasium's own checks; not that one waits for another.
    """
    actions = max(1, steps // SKIP)
    rows = []
    start_fork_server(__name__)
    with ExitStack() as stack:
        vector = stack.enter_context(_vector(spec))
        natives = [stack.enter_context(NativeLoop(spec)) for _ in range(ENVIRONMENTS)]
        for _ in range(rounds):
            vector_s = _vector_s(vector, vector.processes, actions, seed)
            took_s = _native_s(natives, actions * SKIP, seed), vector_s
            rows.append(tuple(each / (actions * SKIP) for each in took_s))
    return _rates(rows)


def shared_rates(spec: RobotSpec, steps: int, rounds: int, seed: int) -> dict[str, float]:
    """The same of environments that two processes share, an action every control step.

    So many control steps, over all of the environments, are a round of the loops as well.
    """
    actions = max(1, steps // SHARED)
    rows = []
    start_fork_server(__name__)
    with ExitStack() as stack:
        shared: Any = gymnasium.make_vec(
            FOLLOW, SHARED, workers=ENVIRONMENTS, robot=spec.name, seconds=LONGEST_S
        )
        stack.callback(shared.close)
        processes = [worker.process for worker in shared.workers]
        natives = [stack.enter_context(NativeLoop(spec)) for _ in range(ENVIRONMENTS)]
        for _ in range(rounds):
            native_s = _native_s(natives, steps, seed) / steps
            rows.append((native_s, _vector_s(shared, processes, actions, seed) / actions))
    return _rates(rows)


@contextmanager
def _vector(spec: RobotSpec) -> Iterator[Any]:
    """Gymnasium's environments, each in a process, until the block ends, however it does."""
    with deferred_interrupt():
        vector: Any = gymnasium.make_vec(
            FOLLOW,
            num_envs=ENVIRONMENTS,
            vectorization_mode="async",
            vector_kwargs={"context": CONTEXT, "worker": _environment},
            frame_skip=SKIP,
            robot=spec.name,
            seconds=LONGEST_S,
        )
    try:
        yield vector
    finally:
        vector.close(terminate=True)


def _environment(*arguments: Any) -> None:
    """The process of one of them."""
    serve(_async_worker, *arguments)


class NativeLoop:
    """One robot in a bare loop, in a process of its own."""

    def __init__(self, spec: RobotSpec) -> None:
        context = multiprocessing.get_context(CONTEXT)
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(_answer, theirs, spec), daemon=True)

    def __enter__(self) -> NativeLoop:
        with deferred_interrupt():
            self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _native_s(loops: list[NativeLoop], steps: int, seed: int) -> float:
    """Processor time [s] of so many steps, per loop, all of them at once."""
    for loop in loops:
        loop.pipe.send((steps, seed))
    return float(np.mean([loop.pipe.recv() for loop in loops]))


def _answer(pipe: Connection, spec: RobotSpec) -> None:
    """The process of a loop."""
    body = make_body("pybullet", spec, make_scene("flat"))
    while True:
        pipe.send(_steps_s(body, *pipe.recv()))


def _steps_s(body: SimulatedBody, steps: int, seed: int) -> float:
    """Processor time [s] of the steps of one robot, in a loop."""
    task, agent = Follow(steps=0), Agent(body.spec)
    reading = body.reset(seed)
    task.reset(body, seed)
    start = time.process_time()
    for step in range(steps):
        if step % Follow.COMMAND_STEPS == 0:
            task.command(None)
        body.apply(agent.follow(task.latent, reading, body.ages()))
        reading = body.read()
        task.step(body)
    return time.process_time() - start


def many_rates(
    spec: RobotSpec, robots: int, steps: int, rounds: int, seed: int
) -> dict[str, float]:
    """As `vector_rates`, of so many robots at once in MuJoCo, an action every control step."""
    many: Any = gymnasium.make_vec(
        FOLLOW, num_envs=robots, body="mujoco", robot=spec.name, seconds=LONGEST_S
    )
    body = make_body("mujoco", spec, make_scene("flat"))
    none = np.zeros(many.action_space.shape, np.float32)
    actions = max(1, steps // robots)
    rows = []
    for _ in range(rounds):
        native_s = _steps_s(body, steps, seed) / steps
        many.reset(seed=seed)
        start = time.process_time()
        for _ in range(actions):
            many.step(none)
        rows.append((native_s, (time.process_time() - start) / (actions * robots)))
    body.close()
    many.close()
    return _rates(rows)


def _rates(rows: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of pairs of times [s] that a control step takes, alone and in a vector environment."""
    native_s, vector_s = np.median(rows, axis=0).tolist()
    return {
        "native_steps_per_s": 1.0 / native_s,
        "vector_steps_per_s": 1.0 / vector_s,
        "vector_ratio": float(np.median([native / vector for native, vector in rows])),
    }


def _vector_s(vector: Any, others: Sequence[Any], actions: int, seed: int) -> float:
    """Processor time [s] of this process and others for so many actions, per environment.

    All have the same seed: robots that are told to walk take other time than those that stand.
    """
    with interrupt_later():
        vector.reset(seed=[seed] * vector.num_envs)
    none = np.zeros(vector.action_space.shape, np.float32)
    processes = [process.pid for process in others]
    start = time.process_time() + sum(map(_processor_s, processes))
    for _ in range(actions):
        with interrupt_later():  # it warns of what it was at when it is closed
            vector.step(none)
    took_s = time.process_time() + sum(map(_processor_s, processes)) - start
    return took_s / int(vector.num_envs)


def _processor_s(pid: int) -> float:
    """What a process has used so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
