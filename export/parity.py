"""Parity of ONNX with torch, on observations recorded in simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import nn

from pixelgait.policies.high_level import Decider
from pixelgait.policies.low_level import LowLevelGraph
from pixelgait.robot.bundle import HIGH_LEVEL, MEMORY, TOLERANCE, single_thread_session
from pixelgait.robot.control.controller import Controller, Decision, MemoryState
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import Sampling, camera_for
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.navigate import Forward

Tensors = dict[str, NDArray[Any]]
STATE = "state"  # input of the recurrent state
# The recurrent state is fed back, so rounding adds up: to 1.1e-5 in 50 images with iap-rgbd's seed
# 1, whose commands differed by 1e-6.
MEMORY_TOLERANCE = 10 * TOLERANCE
# Durations are rounded: half-way between two steps, either is right. That happens in one of 5000
# images of the shipped policies; this share of a recording may differ.
DURATION, MAY_FLIP = "duration_steps", 0.02


RECORDED_STEPS = 1000  # 10 s
# A trained policy processes an image every 20 steps or so, an untrained one every 8 s. This limit
# gives dozens of images in either case.
LONGEST_STEPS = 30


@dataclass(slots=True)
class Observations:
    """Inputs of both levels by name, in order of time."""

    high_level: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    low_level: list[dict[str, NDArray[Any]]] = field(default_factory=list)


def record(
    high_level: Decider, low_level: LowLevelGraph, seed: int, sampling: Sampling = "centre"
) -> Observations:
    """Run the policy on a medium obstacle course and record the inputs of its levels.

    A policy with a goal has it at the course's end.
    """
    observations = Observations()

    def see(
        image: NDArray[np.uint8], goal: Array, state: MemoryState, *around: NDArray[np.uint8]
    ) -> Decision:
        given: dict[str, NDArray[Any]] = {"image": image}
        if high_level.sees_map:
            (given["map"],) = around
        if high_level.sees_goal:
            given["goal"] = goal
        if high_level.sees_ahead:
            given["ahead"] = goal[1:]
        if high_level.state_size:
            given["state"] = np.zeros(high_level.state_size) if state is None else state
        observations.high_level.append(given)
        decision = high_level.decide(image, goal, state, *around)
        return replace(decision, duration_steps=min(decision.duration_steps, LONGEST_STEPS))

    def move(latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        observations.low_level.append(low_level.inputs(latent, reading, carried))
        return low_level.step(latent, reading, carried)

    camera = camera_for(low_level.spec.camera, high_level.camera_shape, sampling)
    course = ObstacleCourse(0.5)
    if high_level.sees_goal:
        course.goal_position = np.array((course.goal_m, 0.0))
    body = PyBulletBody(low_level.spec, course, camera=camera)
    try:
        guard, around = Supervisor(low_level.spec), high_level.map(low_level.spec)
        controller = Controller(see, move, guard, around=around)
        run_episode(controller, body, Forward(RECORDED_STEPS), seed)
    finally:
        body.close()
    return observations


@dataclass(frozen=True, slots=True)
class Parity:
    """Largest difference of one output over all samples."""

    graph: str
    output: str
    samples: int
    difference: float


def samples_of(observations: Observations, graph: str) -> list[Tensors]:
    """Recorded inputs of one graph, in its types."""
    rows = observations.high_level if graph == HIGH_LEVEL else observations.low_level
    return [
        {
            name: value if value.dtype == np.uint8 else value.astype(np.float32)
            for name, value in row.items()
        }
        for row in rows
    ]


def run_onnx(model: onnx.ModelProto, samples: list[Tensors]) -> list[Tensors]:
    """Outputs of the graph for every sample, in onnxruntime on one thread."""
    graph = single_thread_session(model.SerializeToString())
    names = [output.name for output in graph.get_outputs()]
    return _fed_back(lambda given: dict(zip(names, graph.run(names, given), strict=True)), samples)


@torch.no_grad()
def run_torch(module: nn.Module, names: Iterable[str], samples: list[Tensors]) -> list[Tensors]:
    """Outputs of the module by these names, for every sample."""

    def run(given: Tensors) -> Tensors:
        outputs = module(*(torch.from_numpy(value) for value in given.values()))
        return {name: each.numpy() for name, each in zip(names, outputs, strict=True)}

    return _fed_back(run, samples)


def compare(
    graph: str, model: onnx.ModelProto, module: nn.Module, samples: list[Tensors]
) -> list[Parity]:
    """Differences between ONNX and torch by output; each is fed its own recurrent state.

    A phase is compared on the circle: 0 and 2 pi are the same.
    """
    outputs = run_onnx(model, samples)
    found: dict[str, list[float]] = {name: [] for name in outputs[0]}  # of every sample
    for output, truth in zip(outputs, run_torch(module, found, samples), strict=True):
        for name, value in output.items():
            difference: Array = np.abs(value - truth[name]).astype(np.float64)
            if name == "next_phase":
                difference = np.minimum(difference, np.abs(2.0 * np.pi - difference))
            found[name].append(float(difference.max()))
    return [
        Parity(graph, name, len(samples), _worst(name, np.array(each)))
        for name, each in found.items()
    ]


def _worst(output: str, differences: Array) -> float:
    """The largest of the differences (n,), NaN if one is; without durations that are a step off."""
    flipped = differences == 1.0
    if output == DURATION and flipped.mean() <= MAY_FLIP:
        differences = differences[~flipped]
    return float(differences.max())


def _fed_back(run: Callable[[Tensors], Tensors], samples: list[Tensors]) -> list[Tensors]:
    """Outputs for samples in order of time, each with the state of the one before, not the recorded
    one, except where it was reset.
    """
    outputs: list[Tensors] = []
    for sample in samples:
        if outputs and STATE in sample and sample[STATE].any():
            sample = {**sample, STATE: outputs[-1][MEMORY]}
        outputs.append(run(sample))
    return outputs


def check(rows: list[Parity]) -> None:
    """Raises UserError if an output differs by more than its tolerance."""
    for row in rows:
        most = MEMORY_TOLERANCE if row.output == MEMORY else TOLERANCE
        if not row.difference <= most:
            raise UserError(
                f"{row.graph}: output '{row.output}' of ONNX differs from torch by "
                f"{row.difference:.2g}, at most {most:.0e} is allowed"
            )


def format_table(rows: list[Parity]) -> str:
    """Table of the comparison for a terminal."""
    lines = [f"{'graph':<18}{'output':<18}{'samples':>8}{'max |ONNX - torch|':>22}"]
    lines += [f"{r.graph:<18}{r.output:<18}{r.samples:>8}{r.difference:>22.2e}" for r in rows]
    return "\n".join(lines)
