"""pixelgait-train: evolution strategies for the low level, the high level, or both."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from pixelgait.policies.high_level import HighLevelNetwork, encoder_table
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Checkpoint, Run, load_checkpoint
from pixelgait.policies.trained import trained_low_level
from pixelgait.policies.training.imitation import DAggerConfig, Imitation
from pixelgait.policies.training.objective import EpisodeReturns
from pixelgait.policies.training.rollouts import (
    Plan,
    TaskName,
    exploration_scale,
    initial_weights,
    start_worker,
)
from pixelgait.policies.training.search import Budget, Objective, Search
from pixelgait.policies.training.straight_ahead import straight_ahead
from pixelgait.policies.training.strategies import ESConfig, Strategy, make_strategy
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.spec import Array
from pixelgait.sim.body.faults import parse_faults
from pixelgait.sim.body.measured_delays import make_randomisation
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.pool import WorkerPool
from pixelgait.sim.tasks.teacher import guide

SIZES = ("iterations", "steps", "validation_steps", "validation_episodes", "validate_every")
OWN_SIZES = {  # of the tasks, where none are given
    "walk": (200, 500, 1000, 8, 5),
    "follow": (200, 500, 1000, 8, 5),
    "imitate": (10, 3500, 4500, 40, 1),
    "course": (60, 3500, 4500, 40, 5),
    "joint": (60, 3500, 4500, 40, 5),
}


@dataclass(frozen=True)
class TrainConfig:
    """Train a policy and write a run folder. Sizes that are 0 become the task's own.

    walk: the low level learns to walk straight ahead, from zero weights. follow: it learns to
    follow speed and yaw-rate commands under pushes. imitate: the high level learns by gradient
    what a map-aware teacher decides from images, on gliding robots without physics: a start for
    course. course: it learns to steer through the obstacle course by camera, on top of a frozen
    low level (--low-level). joint: both levels at once, from --low-level and --start, or from
    scratch.
    """

    task: Annotated[TaskName, tyro.conf.Positional]
    """walk, follow, imitate, course or joint."""
    out: Path
    """Run folder: config, git state, checkpoints, learning curve, TensorBoard events."""
    resume: bool = False
    """Continue the run in that folder exactly where it was."""
    seed: int = 0
    workers: int = 2
    """Worker processes."""
    iterations: int = 0
    """Iterations of the search, or rounds of imitation."""
    minutes: float = 0.0
    """Stop after so many minutes; 0 for no limit."""
    target_m: float = 0.0
    """Stop once every validation episode advances so far without a fall; 0 to go on."""
    steps: int = 0
    """Control steps (10 ms) of a training episode."""
    validation_steps: int = 0
    validation_episodes: int = 0
    validate_every: int = 0
    encoder: str = "iap"
    """High level of the tasks imitate, course and joint: a name, with options as in
    iap:patch=4,stride=4. height, width and channels (1 depth, 3 RGB, 4 RGB-D) choose the camera.
    list shows all encoders with their weights."""
    scene: str = ObstacleCourse.name
    """Where the tasks imitate, course and joint are trained, as in pixelgait-eval --scene. The
    teacher that imitate needs knows the obstacle-course, rooms and gibson:FOLDER."""
    difficulty: float = 0.5
    """Difficulty of the scene, 0 to 1."""
    distractors: Split | None = None
    """Pictures, surfaces, light, camera poses and objects that distract, as in pixelgait-eval."""
    curriculum: int = 0
    """Iterations over which the difficulty rises from 0 to its value."""
    dagger: DAggerConfig = field(default_factory=DAggerConfig)
    """Rounds of imitation."""
    low_level: Path | None = None
    """Run folder of a low level: frozen (course) or to start from (joint)."""
    start: Path | None = None
    """Checkpoint (.npz) of the same weights to start from; of the high level for joint."""
    mirror: bool = False
    """Make the networks left-right symmetric: they turn either way alike."""
    randomise: bool = False
    """Draw body, motors, delays, sensor noise and the camera's flaws anew every episode; for
    imitate only the camera's."""
    delays_from: Path | None = None
    """Latency report (latency.json) whose delays --randomise shall use."""
    faults: tuple[str, ...] = ()
    """What sensors fail, as in pixelgait-eval --faults."""
    es: ESConfig = field(default_factory=ESConfig)

    def __post_init__(self) -> None:
        for name, own in zip(SIZES, OWN_SIZES[self.task], strict=True):
            if getattr(self, name) == 0:
                object.__setattr__(self, name, own)

    def check(self) -> None:
        """Raises UserError if a value makes no sense."""
        least_1 = {name: getattr(self, name) for name in ("workers", *SIZES)}
        least_1 |= {f"dagger.{name}": value for name, value in asdict(self.dagger).items()}
        for name, value in least_1.items():
            if value < 1:
                raise UserError(f"--{name.replace('_', '-')} is {value}, needs >= 1")
        for name in ("seed", "curriculum"):
            if getattr(self, name) < 0:
                raise UserError(f"--{name} is {getattr(self, name)}, needs >= 0")
        if not 1 <= self.es.top <= self.es.directions:
            raise UserError(f"--es.top is {self.es.top}, expected 1 to {self.es.directions}")
        try:
            HighLevelNetwork(self.encoder)
        except ValueError as error:
            raise UserError(f"--encoder: {error}") from None
        if self.task == "course" and self.low_level is None:
            raise UserError("the task course needs --low-level, the run of a low level")
        if self.task not in ("course", "joint") and self.low_level is not None:
            raise UserError(f"the task {self.task} takes no --low-level, course and joint do")
        if self.task == "imitate" and self.start is not None:
            raise UserError("the task imitate takes no --start, it begins with the teacher")
        scene = make_scene(self.scene, self.difficulty, self.distractors)
        if self.task == "imitate":
            guide(scene)
            if self.faults:
                raise UserError("the task imitate takes no --faults: its robots glide")

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its continuation."""
        budget = ("out", "resume", "workers", "iterations", "minutes", "target_m")
        values = {k: v for k, v in asdict(self).items() if k not in budget}
        return {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}


def main() -> None:
    """Console entry point."""
    run_command(lambda: _main(tyro.cli(TrainConfig, prog="pixelgait-train")))


def _main(config: TrainConfig) -> None:
    if config.encoder == "list":
        print(encoder_table())
        return
    run = train(config)
    if config.task in ("walk", "follow"):
        print(straight_ahead(run))


def train(config: TrainConfig) -> Run:
    """Run the search until its budget or target is reached.

    Raises:
        UserError: the configuration makes no sense, or the run folder does not fit it.
    """
    config.check()
    plan = make_plan(config)
    open_run = Run.resume if config.resume else Run.create
    run = open_run(config.out, {**config.identity(), **plan.identity()})
    state = run.load() if config.resume else first_checkpoint(config, plan)
    budget = Budget(config.iterations, config.minutes, config.target_m, config.validate_every)
    with WorkerPool(config.workers, start_worker, plan) as pool:
        strategy, objective = make_search(config, plan, run, pool, state.start)
        search = Search(budget, run, state, strategy, objective)
        if config.start is not None and not state.curve:
            search.weigh_start()
        search.go()
    return run


def make_plan(config: TrainConfig) -> Plan:
    """What the workers need to know."""
    frozen = None
    if config.task == "course":
        assert config.low_level is not None
        low_level = trained_low_level(config.low_level)
        frozen = low_level.matrix, low_level.bias
    return Plan(
        config.task,
        config.steps,
        config.encoder,
        config.scene,
        config.difficulty,
        config.distractors,
        frozen,
        make_randomisation(config.randomise, config.delays_from),
        config.mirror,
        parse_faults(config.faults),
    )


def make_search(
    config: TrainConfig, plan: Plan, run: Run, pool: WorkerPool, start: Array
) -> tuple[Strategy, Objective]:
    """What climbs, and what it climbs."""
    validation = config.validation_episodes, config.validation_steps
    if config.task == "imitate":
        imitation = Imitation(pool, plan, run, config.seed, config.dagger, validation)
        return imitation, imitation
    strategy = make_strategy(config.es, start, exploration_scale(plan, start.size), config.seed)
    objective = EpisodeReturns(pool, plan, config.es, config.seed, config.curriculum, *validation)
    return strategy, objective


def first_checkpoint(config: TrainConfig, plan: Plan) -> Checkpoint:
    """Fresh weights, or those of other runs to start from."""
    weights, normaliser = initial_weights(plan, config.seed), Normaliser.empty()
    own = weights.size - (LOW_LEVEL_WEIGHTS if config.task == "joint" else 0)
    if config.start is not None:
        start = load_checkpoint(config.start)
        if start.weights.size != own:
            raise UserError(f"{config.start}: {start.weights.size} weights, {own} are wanted")
        weights[:own], normaliser = start.weights, start.normaliser
    if config.task == "joint" and config.low_level is not None:
        low_level = load_checkpoint(config.low_level / "best.npz")
        weights[own:], normaliser = low_level.weights, low_level.normaliser
    return Checkpoint.first(weights, normaliser)


if __name__ == "__main__":
    main()
