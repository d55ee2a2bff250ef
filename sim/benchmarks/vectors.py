"""Benchmark of Gymnasium's vector environments against the same control steps in a bare loop."""

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
from pixelgait.sim.environments.base_env import LONGEST_S
from pixelgait.sim.environments.gait_env import Agent
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.follow import Follow

ENVIRONMENTS, FRAME_SKIP = 2, 20  # each in a process; control steps of an action
CONTEXT: Final = "forkserver"
FOLLOW = f"{envs.__name__}:PixelGait/Follow-v0"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def vector_rates(spec: RobotSpec, steps: int, rounds: int, seed: int) -> dict[str, float]:
    """Rates [control steps/s of processor time] and their ratio, medians over rounds.

    The task is PixelGait/Follow-v0, trotting on the spot. Environments and bare loops run in as
    many processes, because two processes that share a processor's caches are slower than one. The
    time of all processors counts: simulation, messages between processes and Gymnasium's own
    checks, but not waiting.
    """
    actions = max(1, steps // FRAME_SKIP)
    control_steps = actions * FRAME_SKIP
    rows = []
    start_fork_server(__name__)
    with ExitStack() as stack:
        vector = stack.enter_context(_async_environments(spec))
        loops = [stack.enter_context(BareLoop(spec)) for _ in range(ENVIRONMENTS)]
        for _ in range(rounds):
            vector_s = _vector_s(vector, actions, seed)
            rows.append(
                (_bare_s(loops, control_steps, seed) / control_steps, vector_s / control_steps)
            )
    return _rates(rows)


@contextmanager
def _async_environments(spec: RobotSpec) -> Iterator[Any]:
    """Gymnasium's AsyncVectorEnv, closed however the block ends."""
    with deferred_interrupt():
        vector: Any = gymnasium.make_vec(
            FOLLOW,
            num_envs=ENVIRONMENTS,
            vectorization_mode="async",
            vector_kwargs={"context": CONTEXT, "worker": _environment},
            frame_skip=FRAME_SKIP,
            robot=spec.name,
            seconds=LONGEST_S,
        )
    try:
        yield vector
    finally:
        vector.close(terminate=True)


def _environment(*arguments: Any) -> None:
    """Process of an environment."""
    serve(_async_worker, *arguments)


class BareLoop:
    """One robot in a bare loop, in a process of its own."""

    def __init__(self, spec: RobotSpec) -> None:
        context = multiprocessing.get_context(CONTEXT)
        self.pipe, child_end = context.Pipe()
        arguments = (_serve_steps, child_end, spec)
        self._process = context.Process(target=serve, args=arguments, daemon=True)

    def __enter__(self) -> BareLoop:
        with deferred_interrupt():
            self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _bare_s(loops: list[BareLoop], steps: int, seed: int) -> float:
    """Processor time [s] of a loop for this many steps, while all run at once."""
    for loop in loops:
        loop.pipe.send((steps, seed))
    return float(np.mean([loop.pipe.recv() for loop in loops]))


def _serve_steps(pipe: Connection, spec: RobotSpec) -> None:
    """Process of a bare loop."""
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
        body.apply(agent.follow(task.latent, reading, body.ages()).command)
        reading = body.read()
        task.step(body)
    return time.process_time() - start


def many_rates(
    spec: RobotSpec, robots: int, steps: int, rounds: int, seed: int
) -> dict[str, float]:
    """As `vector_rates`, for n robots in MuJoCo in one process, an action every control step."""
    many: Any = gymnasium.make_vec(
        FOLLOW, num_envs=robots, body="mujoco", robot=spec.name, seconds=LONGEST_S
    )
    body = make_body("mujoco", spec, make_scene("flat"))
    zero_actions = np.zeros(many.action_space.shape, np.float32)
    actions = max(1, steps // robots)
    rows = []
    for _ in range(rounds):
        bare_s = _steps_s(body, steps, seed) / steps
        many.reset(seed=seed)
        start = time.process_time()
        for _ in range(actions):
            many.step(zero_actions)
        rows.append((bare_s, (time.process_time() - start) / (actions * robots)))
    body.close()
    many.close()
    return _rates(rows)


def _rates(rows: Sequence[Sequence[float]]) -> dict[str, float]:
    """Rates from pairs of times [s] of a control step, in a bare loop and a vector environment."""
    native_s, vector_s = np.median(rows, axis=0).tolist()
    return {
        "native_steps_per_s": 1.0 / native_s,
        "vector_steps_per_s": 1.0 / vector_s,
        "vector_ratio": float(np.median([native / vector for native, vector in rows])),
    }


def _vector_s(vector: Any, actions: int, seed: int) -> float:
    """Processor time [s] of this and the environments' processes, per environment.

    All have the same seed: robots that walk take other time than those that stand.
    """
    with interrupt_later():
        vector.reset(seed=[seed] * vector.num_envs)
    zero_actions = np.zeros(vector.action_space.shape, np.float32)
    processes = [process.pid for process in vector.processes]
    start = time.process_time() + sum(map(_processor_s, processes))
    for _ in range(actions):
        with interrupt_later():  # Gymnasium warns of a pending step when it is closed
            vector.step(zero_actions)
    took_s = time.process_time() + sum(map(_processor_s, processes)) - start
    return took_s / int(vector.num_envs)


def _processor_s(pid: int) -> float:
    """Processor time of a process so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
