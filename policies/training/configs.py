"""Configurations of training: one per task, with its own defaults and only what it uses."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from pixelgait.policies.high_level import Architecture, make_high_level
from pixelgait.policies.trained import find_run, trained_low_level
from pixelgait.policies.training.imitation import DAggerConfig
from pixelgait.policies.training.plan import Plan, TaskName
from pixelgait.policies.training.strategies import ESConfig
from pixelgait.robot.errors import UserError
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.body.measured_delays import make_randomisation
from pixelgait.sim.tasks.options import SceneOptions
from pixelgait.sim.world.seeds import VALIDATION

# What may differ between a run and its continuation.
BUDGET = ("out", "resume", "workers", "iterations", "minutes", "target_m")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What all tasks share."""

    task: ClassVar[TaskName]

    out: Path
    """Run folder: config, git state, checkpoints, learning curve, TensorBoard events."""
    resume: bool = False
    """Continue the run in that folder exactly where it was."""
    seed: int = 0
    workers: int = 2
    """Worker processes."""
    iterations: int = 200
    """Iterations of the trainer."""
    minutes: float = 0.0
    """Stop after so many minutes; 0 for no limit."""
    target_m: float = 0.0
    """Stop once every validation episode advances so far without a fall; 0 to go on."""
    steps: int = 500
    """Control steps (10 ms) of a training episode."""
    validation_steps: int = 1000
    """Control steps of a validation episode."""
    validation_episodes: int = 8
    validate_every: int = 5
    """Iterations from one validation to the next."""
    mirror: bool = False
    """Make the networks left-right symmetric: they turn either way alike."""
    randomise: bool = False
    """Draw body, motors, delays, sensor noise and the camera's flaws anew every episode; for
    imitate only the camera's."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise shall use."""

    def check(self) -> None:
        """Raises UserError if a value makes no sense."""
        sizes = ("iterations", "steps", "validation_steps", "validation_episodes", "validate_every")
        for name in ("workers", *sizes):
            require(name, getattr(self, name), 1)
        require("seed", self.seed, 0)
        if self.validation_episodes > len(VALIDATION):
            raise UserError(
                f"--validation-episodes is {self.validation_episodes}, "
                f"there are {len(VALIDATION)} validation seeds"
            )

    def plan(self) -> Plan:
        """What the workers need to know.

        Raises:
            UserError: a file or folder named here does not hold what it should.
        """
        ranges = make_randomisation(self.randomise, self.delays_from)
        return Plan(task=self.task, steps=self.steps, mirror=self.mirror, randomisation=ranges)

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its continuation."""
        values = {k: v for k, v in asdict(self).items() if k not in BUDGET}
        values = {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}
        return {"task": self.task, **values}


@dataclass(frozen=True, kw_only=True)
class EvolutionConfig(TrainConfig):
    """What the tasks trained by evolution under physics share."""

    start: Path | None = None
    """Checkpoint (.npz) of the same weights to start from; of the high level for joint."""
    faults: tuple[str, ...] = ()
    """What sensors fail, as in pixelgait-eval --faults."""
    es: ESConfig = field(default_factory=ESConfig)

    def check(self) -> None:
        super().check()
        if not 1 <= self.es.top <= self.es.directions:
            raise UserError(f"--es.top is {self.es.top}, expected 1 to {self.es.directions}")

    def plan(self) -> Plan:
        return replace(super().plan(), faults=parse_faults(self.faults))


@dataclass(frozen=True, kw_only=True)
class CameraConfig(SceneOptions, TrainConfig):
    """What the tasks that train a high level share."""

    iterations: int = 60
    steps: int = 3500
    validation_steps: int = 4500
    validation_episodes: int = 40
    goal: bool = False
    """Tell the high level distance and bearing of its destination."""
    memory: str = ""
    """A recurrent cell between encoder and head, as in gru:32; empty: none."""
    encoder: str = "iap"
    """Image encoder of the high level: a name, with options as in iap:patch=4,stride=4. height,
    width and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera. pixelgait-train encoders lists
    all."""

    def check(self) -> None:
        super().check()
        try:
            make_high_level(self.architecture(), self.seed)
        except ValueError as error:
            raise UserError(f"--encoder or --memory: {error}") from None
        self.make_scene()

    def plan(self) -> Plan:
        return replace(
            super().plan(),
            high_level=self.architecture(),
            scene=self.scene,
            difficulty=self.difficulty,
            distractors=self.distractors,
        )

    def architecture(self) -> Architecture:
        """Of the high level."""
        return Architecture(self.encoder, self.mirror, self.goal, self.memory)


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig(CameraConfig, EvolutionConfig):
    """What the tasks share that train a high level under physics."""

    curriculum: int = 0
    """Iterations over which the difficulty rises from 0 to its value."""
    contact_cost: float = 0.0
    """What a second of touching anything but the ground takes off the return [m]."""

    def check(self) -> None:
        super().check()
        require("curriculum", self.curriculum, 0)
        if not 0.0 <= self.contact_cost < math.inf:
            raise UserError(f"--contact-cost is {self.contact_cost}, needs at least 0")

    def plan(self) -> Plan:
        return replace(super().plan(), curriculum=self.curriculum, contact_cost=self.contact_cost)


@dataclass(frozen=True, kw_only=True)
class WalkConfig(EvolutionConfig):
    """Train a low level to walk straight ahead, from zero weights."""

    task = "walk"


@dataclass(frozen=True, kw_only=True)
class FollowConfig(EvolutionConfig):
    """Train a low level to follow speed and yaw-rate commands under pushes, from zero weights."""

    task = "follow"


@dataclass(frozen=True, kw_only=True)
class ImitateConfig(CameraConfig):
    """Train a high level to decide from images as a map-aware teacher does.

    By gradient, on gliding robots without physics, in rounds of DAgger: a start for course.
    """

    task = "imitate"

    iterations: int = 10
    validate_every: int = 1
    dagger: DAggerConfig = field(default_factory=DAggerConfig)

    def check(self) -> None:
        super().check()
        for name, value in asdict(self.dagger).items():
            require(f"dagger.{name}", value, 1)


@dataclass(frozen=True, kw_only=True)
class CourseConfig(CurriculumConfig):
    """Train a high level to steer by camera, on top of a frozen low level."""

    task = "course"

    low_level: Path
    """Run folder of the low level, or the name of a shipped one, like walk."""

    def plan(self) -> Plan:
        low_level = trained_low_level(find_run(self.low_level, "low_level"))
        return replace(super().plan(), low_level=(low_level.matrix, low_level.bias))


@dataclass(frozen=True, kw_only=True)
class JointConfig(CurriculumConfig):
    """Train both levels at once, from other runs or from scratch."""

    task = "joint"

    low_level: Path | None = None
    """Run folder of a low level to start from, or the name of a shipped one."""


def require(name: str, value: int, least: int) -> None:
    """Raises UserError if the value of an option is too small."""
    if value < least:
        raise UserError(f"--{name.replace('_', '-')} is {value}, needs >= {least}")
