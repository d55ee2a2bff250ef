"""Options of training that several tasks share."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pixelgait.policies.runs.curve_picture import PICTURE
from pixelgait.policies.runs.run import LOW_LEVEL, find_run
from pixelgait.policies.training.evolution.strategies import ESConfig
from pixelgait.policies.training.rollouts.plan import (
    BodyName,
    Plan,
    TaskName,
)
from pixelgait.robot.cli.options import (
    Count,
    Minutes,
    Range,
    Seed,
    check_outputs,
    check_values,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import file_sha256
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import A1, find_robot
from pixelgait.sim.body.faults import parse_faults, require_camera, require_time
from pixelgait.sim.body.measured_delays import make_randomisation
from pixelgait.sim.engines.registry import find_simulator, simulators
from pixelgait.sim.options import SceneOptions, WorkerOptions, check_film
from pixelgait.sim.scenes.registry import is_graded, moved_scene
from pixelgait.sim.world.seeds import VALIDATION

if TYPE_CHECKING:  # torch is not needed to be told what to do
    from pixelgait.policies.high_level import Architecture

# What may differ between a run and its continuation: where it lies and is computed, when it ends,
# and the files it began with, of which the run keeps what it needs.
PLACE = ("out", "resume", "cluster", "device", "video")
BUDGET = ("workers", "iterations", "minutes", "target_m")
SOURCES = ("start", "low_level", "delays_from")

Validations = Annotated[int, Range(1, len(VALIDATION))]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(WorkerOptions):
    """What all tasks share."""

    task: ClassVar[TaskName]
    level: ClassVar[str] = LOW_LEVEL  # of which `start` is
    APART = (*WorkerOptions.APART, ("--resume", "--start"))

    out: Path
    """Run folder: config, git state, checkpoints, learning curve, TensorBoard events."""
    resume: bool = False
    """Continue the run in that folder exactly where it was; its options are known."""
    start: Path | None = None
    """Run, bundle or checkpoint (.npz) of the same weights to start from, or the name of a shipped
    bundle; of the high level for joint."""
    robot: str = A1.name
    """Which learns: a1, go2, laikago or mini_cheetah."""
    seed: Seed = 0
    """Of the first weights, and of whatever is drawn while training."""
    iterations: Count = 200
    """Iterations of the trainer."""
    minutes: Minutes = 0.0
    """Stop so many minutes after it has begun, or goes on; 0 for no limit."""
    target_m: Annotated[float, Range(0.0)] = 0.0
    """Stop once every validation episode advances so far without a fall; 0 to go on."""
    steps: Count = 500
    """Control steps (10 ms) of a training episode."""
    validation_steps: Count = 1000
    """Control steps of a validation episode."""
    validation_episodes: Validations = 8
    """How many there are, of seeds from 9000 on."""
    validate_every: Count = 5
    """Iterations from one validation to the next; of a run longer than that, or with a --start,
    the last one is validated, too."""
    mirror: bool = False
    """Make the networks left-right symmetric: they turn either way alike."""
    randomise: bool = False
    """Draw body, motors, delays, sensor noise and the camera's flaws anew every episode; for
    imitate only the camera's and the odometry's, and the drift of the IMU's heading."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise shall use."""
    video: Path | None = None
    """Film the best policy (.mp4 or .gif; .png for a strip of frames) once training has ended or
    was interrupted: its first validation episode, on legs."""

    def check_names(self) -> None:
        """Raises UserError for names that are none, or do not fit: before torch is loaded."""
        find_robot(self.robot)
        check_film(self.video)
        if self.start is not None and self.start.suffix != ".npz" and not self.resume:
            find_run(self.start, self.level)

    def check(self) -> None:
        """Raises UserError if a value makes no sense, or the film cannot be written."""
        check_values(self)
        self.check_names()
        if self.video is not None:
            check_outputs(("out", self.out / PICTURE), ("video", self.video))

    def plan(self) -> Plan:
        """What the workers need to know.

        Raises:
            UserError: a file or folder named here does not hold what it should.
        """
        ranges = make_randomisation(self.randomise, self.delays_from)
        return Plan(
            task=self.task,
            robot=self.robot,
            steps=self.steps,
            mirror=self.mirror,
            randomisation=ranges,
        )

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its continuation."""
        apart = (*PLACE, *BUDGET, *SOURCES)
        return {"task": self.task, **{k: v for k, v in asdict(self).items() if k not in apart}}

    def origin(self) -> dict[str, object]:
        """What else a run was started with: its sources and its budget."""
        values = {k: v for k, v in asdict(self).items() if k in SOURCES}
        sources = {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}
        return {**sources, "budget": self.budget()}

    def budget(self) -> dict[str, object]:
        """When it ends, and by how many workers it is computed."""
        return {name: getattr(self, name) for name in BUDGET}


@dataclass(frozen=True, kw_only=True)
class EvolutionConfig(TrainConfig):
    """What the tasks trained by evolution under physics share."""

    body: BodyName = "pybullet"
    """Simulator; in a mixture every other episode, by its seed, is in the other one."""
    faults: tuple[str, ...] = ()
    """What sensors fail, as in pixelgait-eval --faults."""
    es: ESConfig = field(default_factory=ESConfig)

    def check(self) -> None:
        super().check()
        if not self.resume:  # what it began with, it goes on with
            self.es.check()
            require_time(parse_faults(self.faults), self.steps * CONTROL_DT_S)
        for name in simulators(self.body):
            find_simulator(name)

    def plan(self) -> Plan:
        return replace(super().plan(), body=self.body, faults=parse_faults(self.faults))


@dataclass(frozen=True, kw_only=True)
class CameraConfig(SceneOptions, TrainConfig):
    """What the tasks that train a high level share."""

    level = "high_level"

    iterations: Count = 60
    steps: Count = 3500
    validation_steps: Count = 4500
    validation_episodes: Validations = 40
    curriculum: Annotated[int, Range(0, 10**9)] = 0
    """Iterations over which the difficulty rises from 0 to its value."""
    goal: bool = False
    """Tell the high level distance and bearing of its destination."""
    ahead: bool = False
    """Tell it the bearing of ahead: where it looked when it began, by its IMU."""
    memory: str = ""
    """A recurrent cell between encoder and head, as in gru:32 or lstm:16; empty: none."""
    encoder: str = "iap"
    """Image encoder of the high level: a name, with options as in iap:patch=4,stride=4. height,
    width and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera. pixelgait-train encoders lists
    all."""

    def check_names(self) -> None:
        super().check_names()
        if self.goal and self.ahead:
            raise UserError("--goal and --ahead: who is told a goal knows what is ahead, give one")
        scene = self.make_scene()
        if self.goal and not self.resume and not scene.has_goal_position:
            raise UserError(f"--goal: scene '{self.scene}' has no goal position, as rooms has")
        if self.ahead and not self.resume and scene.has_goal_position:
            raise UserError(f"--ahead: scene '{self.scene}' tells a destination, which is --goal")
        if self.curriculum and not self.resume and not is_graded(self.scene):
            raise UserError(f"--curriculum: {self.scene} is as hard at every difficulty")

    def check(self) -> None:
        from pixelgait.policies.high_level import make_high_level
        from pixelgait.policies.memory import cells_of

        super().check()
        try:
            cells_of(self.memory, 1)
        except ValueError as error:
            raise UserError(f"--memory: {error}") from None
        try:
            make_high_level(self.architecture(), self.seed)
        except ValueError as error:
            raise UserError(f"--encoder: {error}") from None

    def plan(self) -> Plan:
        return replace(
            super().plan(),
            high_level=self.architecture(),
            scene=self.scene,
            difficulty=self.difficulty,
            curriculum=self.curriculum,
            appearance=self.appearance,
        )

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "scene": moved_scene(self.scene, place_in_run)}

    def architecture(self) -> Architecture:
        """Of the high level."""
        from pixelgait.policies.high_level import Architecture

        return Architecture(self.encoder, self.mirror, self.goal, self.memory, self.ahead)


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig(CameraConfig, EvolutionConfig):
    """What the tasks share that train a high level under physics."""

    contact_cost: Annotated[float, Range(0.0)] = 0.0
    """What a second of touching anything but the ground takes off the return [m]."""

    def plan(self) -> Plan:
        return replace(super().plan(), contact_cost=self.contact_cost)


@dataclass(frozen=True, kw_only=True)
class LowLevelConfig(EvolutionConfig):
    """What the tasks share that train a low level alone, which has no camera."""

    def check(self) -> None:
        super().check()
        if not self.resume:
            require_camera(parse_faults(self.faults), f"task {self.task}")


def place_in_run(path: Path) -> Path:
    """Where below `SCENES` a scene's file is kept, by its content; houses are large and stay."""
    if path.is_dir():
        return Path(os.path.abspath(path))
    return Path(file_sha256(path)[:8]) / path.name
