"""Baselines of an evaluation: what the high level sees or decides is replaced, the rest kept."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.controller import Decision, HighLevel, State
from pixelgait.robot.observation import NO_GOAL
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.scenes.registry import MOVING
from pixelgait.sim.tasks import bug, foresight, teacher
from pixelgait.sim.tasks.bug import Bug
from pixelgait.sim.tasks.checked_teacher import CheckedTeacher
from pixelgait.sim.tasks.teacher import steer
from pixelgait.sim.world import raster, traversability
from pixelgait.sim.world.seeds import Stream

Baseline = Literal[
    "blind", "freeze-image", "no-goal", "forgetful", "straight", "bug", "teacher", "random"
]
SIGHTLESS: tuple[Baseline, ...] = ("straight", "bug", "teacher", "random")  # ask for no image

# Where what decides instead of a policy is written.
_SOURCES: dict[Baseline, tuple[ModuleType, ...]] = {
    "straight": (teacher,),
    "bug": (bug, teacher, raster, traversability),
    "teacher": (teacher, raster, traversability),
}


def source_sha256(baseline: Baseline, scene: str) -> str | None:
    """SHA-256 of the code that decides in place of a policy there: of another are other figures.

    None where a policy decides, or chance.
    """
    if baseline not in _SOURCES:
        return None
    moving = baseline == "teacher" and scene.partition(":")[0] in MOVING
    return code_sha256(*_SOURCES[baseline], *(foresight,) * moving)


def code_sha256(*modules: ModuleType) -> str:
    """SHA-256 of what modules do: imports and comments do nothing."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(_deciding(Path(str(module.__file__)).read_text()).encode())
    return digest.hexdigest()


def _deciding(source: str) -> str:
    """Lines of Python without imports, comments and what is blank."""
    left = dict(enumerate(source.splitlines(), 1))
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                del left[number]
    return "\n".join(s for s in left.values() if s.strip() and not s.lstrip().startswith("#"))


def make_baseline(baseline: Baseline | None, policy: HighLevel, body: SimulatedBody) -> HighLevel:
    """A baseline in place of the policy's high level; None: that itself."""
    match baseline:
        case "teacher":
            return CheckedTeacher(body).decide
        case "bug":
            return Bug(body).decide
        case "straight":
            return _straight
        case "random":
            return _Random(body)
        case "blind":
            return lambda image, goal, state: policy(np.full_like(image, 128), goal, state)
        case "freeze-image":
            return _Frozen(policy, body)
        case "no-goal":
            return lambda image, goal, state: policy(image, NO_GOAL, state)
        case "forgetful":
            return lambda image, goal, state: policy(image, goal, None)
        case None:
            return policy


def _straight(image: NDArray[np.uint8], goal: Array, state: State) -> Decision:
    """Turns to the goal and walks there, whatever is in between."""
    return steer(float(goal[1]))


class _Random:
    """A random command every second, by the episode's seed alone."""

    def __init__(self, body: SimulatedBody) -> None:
        self.body = body
        self.rng = np.random.default_rng(0)

    def __call__(self, image: NDArray[np.uint8], goal: Array, state: State) -> Decision:
        if self.body.time_s == 0.0:  # whatever ran before in this process does not count
            self.rng = Stream.COMMANDS.rng(self.body.seed)
        return Decision(self.rng.uniform(-1.0, 1.0, 2), 100)


class _Frozen:
    """Shows the policy the first image of the episode for ever."""

    def __init__(self, policy: HighLevel, body: SimulatedBody) -> None:
        self.policy, self.body = policy, body
        self.image: NDArray[np.uint8] | None = None

    def __call__(self, image: NDArray[np.uint8], goal: Array, state: State) -> Decision:
        if self.image is None or self.body.time_s == 0.0:
            self.image = image
        return self.policy(self.image, goal, state)
