"""Baselines of an evaluation: replace the images or decisions of the high level."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pixelgait.policies.evaluation.bug_baseline import Bug
from pixelgait.robot.control.controller import Decision, HighLevel, MemoryState
from pixelgait.robot.control.observation import NO_GOAL
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.tasks.teacher import Teacher, steer
from pixelgait.sim.world.scene import Layout
from pixelgait.sim.world.seeds import Stream

Baseline = Literal[
    "blind", "freeze-image", "no-goal", "forgetful", "straight", "bug", "teacher", "random"
]
BLIND_BASELINES: tuple[Baseline, ...] = ("straight", "bug", "teacher", "random")  # ask for no image

# Modules that decide instead of a policy, and the map they decide by.
_TEACHER = ("sim.tasks.teacher", "sim.tasks.teacher_kernels")
_MAP = (
    *("raster", "traversability", "map_kernels", "ground", "obstacles", "floor_plan"),
    *("motions", "motion_kernels"),
)
_WITH_MAP = (*_TEACHER, *(f"sim.world.{name}" for name in _MAP))
_SOURCES: dict[Baseline, tuple[str, ...]] = {
    "straight": _TEACHER,
    "bug": ("policies.evaluation.bug_baseline", *_WITH_MAP),
    "teacher": _WITH_MAP,
}


def source_sha256(baseline: Baseline) -> str | None:
    """SHA-256 of the code that decides instead of a policy; None: a policy or chance decides."""
    return files_sha256(*_SOURCES[baseline]) if baseline in _SOURCES else None


def files_sha256(*modules: str) -> str:
    """SHA-256 of the files of modules of `pixelgait`, in this order; none is imported for it."""
    digest = hashlib.sha256()
    for module in modules:
        spec = find_spec(f"pixelgait.{module}")
        digest.update(Path(str(spec and spec.origin)).read_bytes())
    return digest.hexdigest()


def make_baseline(baseline: Baseline | None, policy: HighLevel, body: SimulatedBody) -> HighLevel:
    """The high level of a baseline; None: the policy's own."""
    match baseline:
        case "teacher":
            return Teacher(body).decide
        case "bug":
            return Bug(body).decide
        case "straight":
            return _straight
        case "random":
            return _Random(body)
        case "blind":
            return lambda image, goal, state, *_: policy(np.full_like(image, 128), goal, state)
        case "freeze-image":
            return _Frozen(policy, body)
        case "no-goal":
            return lambda image, goal, state, *around: policy(image, NO_GOAL, state, *around)
        case "forgetful":
            return lambda image, goal, state, *around: policy(image, goal, None, *around)
        case None:
            return policy
    raise UserError(f"unknown baseline {baseline!r}, choose from {', '.join(get_args(Baseline))}")


def _straight(image: NDArray[np.uint8], goal: Array, state: MemoryState, *_: object) -> Decision:
    """Turn to the goal and walk, through whatever is in between."""
    return steer(float(goal[1]))


class _Random:
    """A random command every second, from the episode's seed alone."""

    def __init__(self, body: SimulatedBody) -> None:
        self.body = body
        self._layout: Layout | None = None  # of this episode
        self.rng: np.random.Generator

    def __call__(
        self, image: NDArray[np.uint8], goal: Array, state: MemoryState, *_: object
    ) -> Decision:
        if self._layout is not self.body.layout:  # a new episode
            self._layout, self.rng = self.body.layout, Stream.COMMANDS.rng(self.body.seed)
        return Decision(self.rng.uniform(-1.0, 1.0, 2), 100)


class _Frozen:
    """Gives the policy the first image of the episode in every decision."""

    def __init__(self, policy: HighLevel, body: SimulatedBody) -> None:
        self.policy, self.body = policy, body
        self._layout: Layout | None = None  # of this episode
        self.image: NDArray[np.uint8]

    def __call__(
        self, image: NDArray[np.uint8], goal: Array, state: MemoryState, *_: object
    ) -> Decision:
        if self._layout is not self.body.layout:
            self._layout, self.image = self.body.layout, image
        return self.policy(self.image, goal, state)
