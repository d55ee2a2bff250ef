"""Configurations of training: one per task, from the command line, a YAML file or a run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

from pixelgait.policies.runs.curve_picture import PICTURE
from pixelgait.policies.runs.run import (
    BEST,
    CONFIG,
    DELAYS,
    LOW_LEVEL,
    SCENES,
    find_run,
    load_checkpoint,
    read_run_config,
    read_yaml,
)
from pixelgait.policies.training.plan import (
    BodyName,
    DAggerConfig,
    DeviceName,
    ESConfig,
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
from pixelgait.robot.spec import A1, find_robot, moved_robot
from pixelgait.sim.body.camera import Sampling
from pixelgait.sim.body.faults import parse_faults, require_camera, require_time
from pixelgait.sim.body.randomisation import Randomisation, make_randomisation
from pixelgait.sim.engines.registry import find_simulator, simulators
from pixelgait.sim.options import MountOptions, SceneOptions, WorkerOptions, check_film
from pixelgait.sim.scenes.registry import is_graded, moved_scene
from pixelgait.sim.tasks.follow import FollowReward
from pixelgait.sim.world.seeds import VALIDATION

if TYPE_CHECKING:  # command lines are checked before torch is imported
    from pixelgait.policies.high_level import Architecture

# May differ between a run and its continuation: where it is computed, when it ends, and the files
# it began with, of which the run keeps what it needs.
PLACE = ("out", "resume", "config", "cluster", "device", "video")
BUDGET = ("workers", "iterations", "minutes", "target_m")
SOURCES = ("start", "low_level", "delays_from")
RECORDED = ("task", "low_level_sha256")  # in a run's config.yaml, no options

Validations = Annotated[int, Range(1, len(VALIDATION))]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(WorkerOptions):
    """Options of all tasks."""

    task: ClassVar[TaskName]
    level: ClassVar[str] = LOW_LEVEL  # that `start` holds
    APART = (*WorkerOptions.APART, ("--resume", "--start"), ("--resume", "--config"))

    out: Path
    """Run folder: configuration, git state, checkpoints, learning curve, TensorBoard events."""
    config: Path | None = None
    """YAML file of settings, such as a run's config.yaml; options given here take precedence."""
    resume: bool = False
    """Continue the run in that folder exactly where it was, with its own options."""
    start: Path | None = None
    """Start from the weights of this run, bundle or checkpoint (.npz), or of a shipped bundle by
    its name; with joint those of its high level."""
    robot: str = A1.name
    """Robot: a1, go2, laikago, mini_cheetah, or a robot file (.yaml) by pixelgait-robot."""
    seed: Seed = 0
    """Random seed of the first weights and of training."""
    iterations: Count = 200
    """Number of iterations."""
    minutes: Minutes = 0.0
    """Time limit, counted anew when a run is resumed; 0: none."""
    target_m: Annotated[float, Range(0.0)] = 0.0
    """Stop once every validation episode advances this far without a fall; 0: never."""
    steps: Count = 500
    """Control steps (10 ms) of a training episode."""
    validation_steps: Count = 1000
    """Control steps of a validation episode."""
    validation_episodes: Validations = 8
    """Number of validation episodes, with seeds from 9000 on."""
    validate_every: Count = 5
    """Iterations between validations. The last iteration is validated too if the run is longer
    than that, or has a --start."""
    mirror: bool = False
    """Make the networks left-right symmetric."""
    randomise: bool = False
    """Domain randomisation: draw body, motors, delays, sensor noise and the camera's flaws anew
    every episode. imitate draws only those of camera, odometry and the IMU's heading."""
    randomisation: Randomisation = field(default_factory=Randomisation)
    delays_from: Path | None = None
    """Latency report (latency.json) that replaces the delays of --randomise by measured ones."""
    video: Path | None = None
    """Film the best policy's first validation episode when training ends or is interrupted (.mp4,
    .gif, or .png for a strip of frames)."""

    def check_inputs(self) -> None:
        """Check names and files, before torch is imported.

        Raises:
            UserError: if a name is unknown, or a file is damaged or does not fit the options.
        """
        find_robot(self.robot)
        check_film(self.video)
        self.randomisation.check()
        if not self.randomise and self.randomisation != Randomisation():
            raise UserError("--randomisation.* has no effect without --randomise")
        make_randomisation(self.randomise, self.delays_from)
        if self.start is not None and not self.resume:
            load_checkpoint(start_of(self.start, self.level))

    def check(self) -> None:
        """Raises UserError if options do not fit each other, or the film cannot be written."""
        self.check_inputs()
        if self.video is not None:
            check_outputs(("out", self.out / PICTURE), ("video", self.video))

    def plan(self) -> Plan:
        """The plan that workers get.

        Raises:
            UserError: if a file or folder named here does not hold what it should.
        """
        ranges = make_randomisation(self.randomise, self.delays_from, self.randomisation)
        return Plan(
            task=self.task,
            robot=self.robot,
            steps=self.steps,
            mirror=self.mirror,
            randomisation=ranges,
        )

    def identity(self) -> dict[str, object]:
        """Settings that must not change between a run and its continuation."""
        apart = (*PLACE, *BUDGET, *SOURCES)
        values = {k: v for k, v in asdict(self).items() if k not in apart}
        return {"task": self.task, **values, "robot": moved_robot(self.robot, place_in_run)}

    def origin(self) -> dict[str, object]:
        """The other settings of a run: sources and budget."""
        values = {k: v for k, v in asdict(self).items() if k in SOURCES}
        sources = {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}
        return {**sources, **self.budget()}

    def budget(self) -> dict[str, object]:
        """Workers, and when the run ends."""
        return {name: getattr(self, name) for name in BUDGET}


@dataclass(frozen=True, kw_only=True)
class EvolutionConfig(TrainConfig):
    """Options of the tasks trained by evolution under physics."""

    body: BodyName = "pybullet"
    """Simulator; with mixture episodes alternate between the two, by seed."""
    faults: tuple[str, ...] = ()
    """Sensor faults, as for pixelgait-eval --faults."""
    es: ESConfig = field(default_factory=ESConfig)

    def check(self) -> None:
        super().check()
        if not self.resume:
            self.es.check()
            require_time(parse_faults(self.faults), self.steps * CONTROL_DT_S)
        for name in simulators(self.body):
            find_simulator(name)

    def plan(self) -> Plan:
        return replace(super().plan(), body=self.body, faults=parse_faults(self.faults))


@dataclass(frozen=True, kw_only=True)
class CameraConfig(MountOptions, SceneOptions, TrainConfig):
    """Options of the tasks that train a high level."""

    level = "high_level"

    iterations: Count = 60
    steps: Count = 3500
    validation_steps: Count = 4500
    validation_episodes: Validations = 40
    curriculum: Annotated[int, Range(0, 10**9)] = 0
    """Iterations over which the difficulty rises from 0 to its value."""
    goal: bool = False
    """Input of the high level: distance and bearing of the goal."""
    ahead: bool = False
    """Input of the high level: bearing of the initial heading, by the IMU."""
    memory: str = ""
    """Recurrent cell between encoder and head, such as gru:32 or lstm:16; empty: none."""
    approach: bool = False
    """Input of the high level: how much nearer the goal came since the last decision, so that a
    robot notices what stops it (with --goal and --memory)."""
    map: bool = False
    """Input of the high level: obstacles that its depth has shown, and the cost to the goal from
    every place around the robot, as a second image. It is the lower 32 rows of the encoder's
    image."""
    sampling: Sampling = "near"
    """Depth of a pixel: near, of 3 x 3 rays what a robot takes of a larger image's pixels, so that
    thin things show; centre, that of its middle."""
    encoder: str = "iap"
    """Image encoder, with options as in iap:patch=4,stride=4. height, width and channels (1 depth,
    3 RGB, 4 RGB-D) choose the camera. pixelgait-train encoders lists all encoders."""

    def check_inputs(self) -> None:
        super().check_inputs()
        if self.goal and self.ahead:
            raise UserError("--goal and --ahead are mutually exclusive")
        if self.approach and not (self.goal and self.memory):
            raise UserError("--approach needs --goal and --memory")
        scene = self.make_scene()
        if self.goal and not self.resume and not scene.has_goal_position:
            raise UserError(f"--goal: scene '{self.scene}' has no goal position, as rooms has")
        if self.ahead and not self.resume and scene.has_goal_position:
            raise UserError(f"--ahead: scene '{self.scene}' has a goal, give --goal")
        if self.curriculum and not self.resume and not is_graded(self.scene):
            raise UserError(f"--curriculum has no effect with --scene {self.scene}")

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
            mount=self.mount(find_robot(self.robot).camera),
            sampling=self.sampling,
            high_level=self.architecture(),
            scene=self.scene,
            difficulty=self.difficulty,
            curriculum=self.curriculum,
            appearance=self.appearance,
        )

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "scene": moved_scene(self.scene, place_in_run)}

    def architecture(self) -> Architecture:
        """Architecture of the high level."""
        from pixelgait.policies.high_level import Architecture

        return Architecture(
            self.encoder,
            self.mirror,
            self.goal,
            self.memory,
            self.ahead,
            self.approach,
            self.map,
        )


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig(CameraConfig, EvolutionConfig):
    """Options of the tasks that train a high level under physics."""

    contact_cost: Annotated[float, Range(0.0)] = 0.0
    """Cost of contact with anything but the ground [m of return per second]."""

    def plan(self) -> Plan:
        return replace(super().plan(), contact_cost=self.contact_cost)


@dataclass(frozen=True, kw_only=True)
class LowLevelConfig(EvolutionConfig):
    """Options of the tasks that train a low level alone, without a camera."""

    def check(self) -> None:
        super().check()
        if not self.resume:
            require_camera(parse_faults(self.faults), f"task {self.task}")


@dataclass(frozen=True, kw_only=True)
class WalkConfig(LowLevelConfig):
    """Train a low level to walk straight ahead, from zero weights."""

    task = "walk"


@dataclass(frozen=True, kw_only=True)
class FollowConfig(LowLevelConfig):
    """Train a low level to follow velocity commands under pushes, from zero weights."""

    task = "follow"

    reward: FollowReward = field(default_factory=FollowReward)
    omni: bool = False
    """Follow forward, sideways and yaw-rate commands and, in every third episode, climb a kerb: 460
    weights. --start may then be a low level of 399."""
    difficulty: Annotated[float, Range(0.0, 1.0)] = 1.0
    """Height of the kerbs over 10 cm, with --omni."""
    curriculum: Annotated[int, Range(0, 10**9)] = 0
    """Iterations over which that height rises from 0, with --omni."""

    def check(self) -> None:
        super().check()
        if not self.omni and (self.curriculum or self.difficulty != FollowConfig.difficulty):
            raise UserError("--difficulty and --curriculum have no effect without --omni")
        if self.target_m:
            raise UserError("--target-m has no effect on task follow: there is no goal")

    def plan(self) -> Plan:
        plan = replace(super().plan(), reward=self.reward)
        if not self.omni:
            return plan
        return replace(plan, omni=True, difficulty=self.difficulty, curriculum=self.curriculum)


@dataclass(frozen=True, kw_only=True)
class ImitateConfig(CameraConfig):
    """Train a high level to decide from images as a map-aware teacher does (DAgger).

    By gradient, on gliding robots without physics: a start for course.
    """

    task = "imitate"

    iterations: Count = 10
    validate_every: Count = 1
    dagger: DAggerConfig = field(default_factory=DAggerConfig)
    device: DeviceName = "cpu"
    """Device that students are fitted on; auto is a GPU if there is one, which rounds differently.
    A cluster fits on CPUs."""

    def check(self) -> None:
        from pixelgait.policies.high_level import make_high_level
        from pixelgait.policies.training.fitting import has_gradient

        super().check()
        if self.cluster is not None and self.device != "cpu":
            raise UserError(f"--device {self.device}: a cluster's workers fit on their CPUs")
        if not self.resume:
            student = make_high_level(self.architecture(), self.seed)
            self.dagger.check(student, has_gradient(student), self.start is not None)


@dataclass(frozen=True, kw_only=True)
class CourseConfig(CurriculumConfig):
    """Train a high level to steer by camera, on top of a frozen low level."""

    task = "course"

    low_level: Path
    """Run folder of the low level, or the name of a shipped one, such as walk."""

    def check_inputs(self) -> None:
        super().check_inputs()
        load_checkpoint(find_run(self.low_level, LOW_LEVEL) / BEST)

    def plan(self) -> Plan:
        from pixelgait.policies.runs.trained import trained_low_level

        low_level = trained_low_level(find_run(self.low_level, LOW_LEVEL))
        if (robot := low_level.spec.name) != find_robot(self.robot).name:
            raise UserError(
                f"--low-level {self.low_level} is that of {robot}: give --robot {robot}"
            )
        return replace(super().plan(), low_level=(low_level.matrix, low_level.bias))


@dataclass(frozen=True, kw_only=True)
class JointConfig(CurriculumConfig):
    """Train both levels at once, from other runs or from scratch."""

    task = "joint"
    APART = (*CurriculumConfig.APART, ("--resume", "--low-level"))

    low_level: Path | None = None
    """Run folder of a low level to start from, or the name of a shipped one."""

    def check_inputs(self) -> None:
        super().check_inputs()
        if self.low_level is not None:
            load_checkpoint(find_run(self.low_level, LOW_LEVEL) / BEST)


KINDS: dict[str, type[TrainConfig]] = {
    kind.task: kind for kind in (WalkConfig, FollowConfig, ImitateConfig, CourseConfig, JointConfig)
}


def place_in_run(path: Path) -> Path:
    """Place of a scene's or robot's file below `SCENES`, by its content; no folder is copied."""
    if path.is_dir():
        return Path(os.path.abspath(path))
    return Path(file_sha256(path)[:8]) / path.name


def start_of(path: Path, level: str) -> Path:
    """The checkpoint that --start names: a file, or the best of a run or of a shipped bundle."""
    return path if path.suffix == ".npz" else find_run(path, level) / BEST


def config_of_run(folder: Path) -> TrainConfig:
    """The configuration that continues the run in a folder.

    Raises:
        UserError: if there is no run to continue, or its configuration is damaged.
    """
    stored = read_run_config(folder)
    for name, copy in (("low_level", folder / LOW_LEVEL), ("delays_from", folder / DELAYS)):
        if stored.get(name) is not None and copy.exists():
            stored[name] = str(copy)
    if isinstance(scene := stored.get("scene"), str):
        stored["scene"] = moved_scene(scene, lambda path: folder / SCENES / path)
    if isinstance(robot := stored.get("robot"), str):
        stored["robot"] = moved_robot(robot, lambda path: folder / SCENES / path)
    file = folder / CONFIG
    if (task := stored["task"]) not in KINDS:
        raise UserError(f"{file}: task: expected one of {', '.join(KINDS)}, not {task!r}")
    return config_from(KINDS[task], {**stored, "out": str(folder), "resume": True}, file)


def config_of_file(file: Path, kind: type[TrainConfig] | None) -> TrainConfig:
    """The configuration of a YAML file; options without default that it lacks are tyro.MISSING.

    Args:
        kind: expected task; None: the file's.

    Raises:
        UserError: if the file cannot be read, or one of its keys or values is wrong.
    """
    stored = read_yaml(file)
    task = stored.get("task", kind and kind.task)
    if task not in KINDS or (kind and task != kind.task):
        expected = kind.task if kind else f"one of {', '.join(KINDS)}"
        raise UserError(f"{file}: task: expected {expected}, not {task!r}")
    config = config_from(KINDS[task], stored, file)
    return replace(config, config=file)


def config_from(kind: type[TrainConfig], values: Mapping[str, Any], file: Path) -> TrainConfig:
    """A configuration from the values of a YAML file; the others have their defaults.

    Raises:
        UserError: names file and key, if a key is unknown or a value is not as expected.
    """
    options = {name: value for name, value in values.items() if name not in RECORDED}
    if options.get("randomisation", ()) is None:  # a run without domain randomisation
        del options["randomisation"]
    try:
        config: TrainConfig = _made(kind, options)
        check_values(config)
    except (TypeError, UserError) as error:
        raise UserError(f"{file}: {error}") from None
    return config


def _made(kind: type[Any], values: Any, within: str = "") -> Any:
    """A dataclass of a file's values; raises TypeError if one does not fit."""
    if not isinstance(values, dict):
        raise TypeError(f"{within[:-1]}: expected keys and values, not {values!r}")
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}
    if unknown := [name for name in values if name not in known]:
        raise TypeError(f"unknown key {within}{unknown[0]}, expected one of {', '.join(known)}")
    made = {name: _value(f"{within}{name}", hints[name], value) for name, value in values.items()}
    for name, each in known.items():
        if name not in made and each.default is MISSING and each.default_factory is MISSING:
            made[name] = tyro.MISSING
    return kind(**made)


def _value(name: str, hint: Any, value: Any) -> Any:
    """A file's value as an option of this type."""
    kinds = get_args(hint)
    if is_dataclass(hint):
        return _made(hint, value, f"{name}.")  # type: ignore[arg-type]
    if type(None) in kinds:
        return None if value is None else _value(name, kinds[0], value)
    if get_origin(hint) is tuple and isinstance(value, list):
        if kinds[-1] is not Ellipsis and len(value) != len(kinds):
            raise TypeError(f"{name} is {value}, expected {len(kinds)} values")
        return tuple(_value(name, kinds[0], each) for each in value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3 as text
        except ValueError:
            pass
    if get_origin(hint) is Literal:
        fits, expected = value in kinds, f"one of {', '.join(kinds)}"
    else:
        fits, expected = type(value) is hint, TYPES.get(hint, "a list")
    if not fits:
        raise TypeError(f"{name} is {value!r}, expected {expected}")
    return value


TYPES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}
