"""How fast Gymnasium's vector environments are, against the same steps without Gymnasium."""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from pixelgait.robot.controller import Controller
from pixelgait.robot.low_level import OUTPUT_SIZE, act
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.robot.supervisor import Supervisor
from pixelgait.sim import envs
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.env_options import LONGEST_S
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.follow import Follow

ENVIRONMENTS, SKIP = 2, 20  # side by side, each in a process; control steps of an action
CONTEXT: Final = "forkserver"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def vector_rates(
    spec: RobotSpec, steps: int, rounds: int, seed: int, skip: int = SKIP
) -> dict[str, float]:
    """Rates [control steps/s of processor time] and their ratio, medians over rounds.

    The task is PixelGait/Follow-v0, trotting on the spot, an action every `skip` control steps.
    Both run in as many processes at once: two that share a processor's caches are slower than one,
    whoever they are. Counted is the time of all processors: simulation, messages between processes,
    Gymnasium's own checks; not that one waits for another.
    """
    actions = max(1, steps // skip)
    vector: Any = gymnasium.make_vec(
        f"{envs.__name__}:PixelGait/Follow-v0",
        num_envs=ENVIRONMENTS,
        vectorization_mode="async",
        vector_kwargs={"context": CONTEXT},
        frame_skip=skip,
        robot=spec.name,
        seconds=LONGEST_S,
    )
    rows = []
    with ExitStack() as loops:
        natives = [loops.enter_context(NativeLoop(spec)) for _ in range(ENVIRONMENTS)]
        for _ in range(rounds):
            native_s = _native_s(natives, actions * skip, seed)
            rows.append((native_s, _vector_s(vector, actions, seed)))
    vector.close()
    native_s, vector_s = np.median(rows, axis=0)
    return {
        "native_steps_per_s": actions * skip / float(native_s),
        "vector_steps_per_s": actions * skip / float(vector_s),
        "vector_ratio": float(np.median([native / vector for native, vector in rows])),
    }


class NativeLoop:
    """One robot in a bare loop, in a process of its own."""

    def __init__(self, spec: RobotSpec) -> None:
        context = multiprocessing.get_context(CONTEXT)
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, spec), daemon=True)

    def __enter__(self) -> NativeLoop:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.send(None)
        self._process.join()


def _native_s(loops: list[NativeLoop], steps: int, seed: int) -> float:
    """Processor time [s] of so many steps, per loop, all of them at once."""
    for loop in loops:
        loop.pipe.send((steps, seed))
    return float(np.mean([loop.pipe.recv() for loop in loops]))


def _serve(pipe: Connection, spec: RobotSpec) -> None:
    body = PyBulletBody(spec, make_scene("flat"))
    while (asked := pipe.recv()) is not None:
        pipe.send(_steps_s(body, *asked))
    body.close()


def _steps_s(body: PyBulletBody, steps: int, seed: int) -> float:
    """Processor time [s] of the steps of one robot, in a loop."""
    action = np.zeros(OUTPUT_SIZE)

    def low_level(latent: Array, imu: Array, angles: Array, phase: Array) -> tuple[Array, Array]:
        return act(body.spec, latent, action, phase)

    task, supervisor = Follow(steps=0), Supervisor(body.spec)
    controller = Controller(envs.no_high_level, low_level, supervisor)
    reading = body.reset(seed)
    task.reset(body, seed)
    start = time.process_time()
    for step in range(steps):
        if step % Follow.COMMAND_STEPS == 0:
            task.command(None)
        body.apply(controller.follow(task.latent, reading, body.ages()))
        reading = body.read()
        task.step(body)
    return time.process_time() - start


def _vector_s(vector: Any, actions: int, seed: int) -> float:
    """Processor time [s] of all processes for so many actions, per environment."""
    vector.reset(seed=seed)
    none = np.zeros(vector.action_space.shape, np.float32)
    processes = [process.pid for process in vector.processes]
    start = time.process_time() + sum(map(_processor_s, processes))
    for _ in range(actions):
        vector.step(none)
    return (time.process_time() + sum(map(_processor_s, processes)) - start) / ENVIRONMENTS


def _processor_s(pid: int) -> float:
    """What a process has used so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
