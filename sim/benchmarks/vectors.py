"""Benchmark of Gymnasium's vector environments against the same control steps in a bare loop."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

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
from pixelgait.sim.environments.robot_envs import LONGEST_S, Agent
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.follow import Follow

FOLLOW = f"{envs.__name__}:PixelGait/Follow-v0"
ENVIRONMENTS, FRAME_SKIP = 2, 20  # each in a process; control steps of an action


def vector_rates(spec: RobotSpec, steps: int, rounds: int, seed: int) -> dict[str, float]:
    """Rates [control steps/s of processor time] of Gymnasium's AsyncVectorEnv and a bare loop.

    Also their ratio; medians over rounds. The task is PixelGait/Follow-v0 in PyBullet, trotting on
    the spot. The time of all processors counts: simulation, messages between processes and
    Gymnasium's own checks, but not waiting.
    """
    start_fork_server(__name__)
    with deferred_interrupt():
        vector: Any = gymnasium.make_vec(
            FOLLOW,
            num_envs=ENVIRONMENTS,
            vectorization_mode="async",
            vector_kwargs={"context": "forkserver", "worker": _environment},
            frame_skip=FRAME_SKIP,
            robot=spec.name,
            seconds=LONGEST_S,
        )
    try:
        body = make_body("pybullet", spec, FlatGround())
        return _compared(vector, body, max(1, steps // FRAME_SKIP), FRAME_SKIP, rounds, seed)
    finally:
        vector.close(terminate=True)


def _environment(*arguments: Any) -> None:
    """Process of an environment."""
    serve(_async_worker, *arguments)


def many_rates(
    spec: RobotSpec, robots: int, steps: int, rounds: int, seed: int
) -> dict[str, float]:
    """As `vector_rates`, for n robots in MuJoCo in one process, an action every control step."""
    many: Any = gymnasium.make_vec(
        FOLLOW, num_envs=robots, body="mujoco", robot=spec.name, seconds=LONGEST_S
    )
    body = make_body("mujoco", spec, FlatGround())
    return _compared(many, body, max(1, steps // robots), 1, rounds, seed)


def _compared(
    vector: Any, body: SimulatedBody, actions: int, frame_skip: int, rounds: int, seed: int
) -> dict[str, float]:
    """Rates of a vector environment and of as many steps of one robot in a bare loop.

    All robots have the same seed: those that walk take other time than those that stand.
    """
    zero_actions = np.zeros(vector.action_space.shape, np.float32)
    processes = [process.pid for process in getattr(vector, "processes", ())]
    steps = actions * frame_skip * vector.num_envs
    rows = []
    for _ in range(rounds):
        with interrupt_later():
            vector.reset(seed=[seed] * vector.num_envs)
        start = time.process_time() + sum(map(_processor_s, processes))
        for _ in range(actions):
            with interrupt_later():  # Gymnasium warns of a pending step when it is closed
                vector.step(zero_actions)
        vector_s = time.process_time() + sum(map(_processor_s, processes)) - start
        rows.append((_bare_s(body, steps, seed) / steps, vector_s / steps))
    native_s, median_s = np.median(rows, axis=0).tolist()
    return {
        "native_steps_per_s": 1.0 / native_s,
        "vector_steps_per_s": 1.0 / median_s,
        "vector_ratio": float(np.median([native / own for native, own in rows])),
    }


def _bare_s(body: SimulatedBody, steps: int, seed: int) -> float:
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


def _processor_s(pid: int) -> float:
    """Processor time of a process so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
