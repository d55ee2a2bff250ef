"""pixelgait-train: train the low level, the high level, or both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from pixelgait.policies.high_level import encoder_table, flat_weights, make_high_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.recipe import read_recipe
from pixelgait.policies.runs import CONFIG, Checkpoint, Run, load_checkpoint
from pixelgait.policies.trained import find_run
from pixelgait.policies.training.calibration import CalibrateConfig, calibrate_run
from pixelgait.policies.training.configs import (
    KINDS,
    CourseConfig,
    EvolutionConfig,
    FollowConfig,
    ImitateConfig,
    JointConfig,
    TrainConfig,
    WalkConfig,
    config_of_run,
)
from pixelgait.policies.training.evolution import Evolution
from pixelgait.policies.training.imitation import DAgger, first_students
from pixelgait.policies.training.loop import Budget, Trainer, TrainingLoop
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import start_worker
from pixelgait.policies.training.straight_ahead import straight_ahead
from pixelgait.policies.training.validation import Validation
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import locked, require_writable, write_atomic
from pixelgait.robot.runtime.commands import own_arguments
from pixelgait.robot.runtime.options import Workers, check_numbers, parse
from pixelgait.sim.tasks.pool import WorkerPool

PROGRAM = "pixelgait-train"
# What says most about a low level, behind pixelgait-eval RUN.
TRIALS = {"walk": " --scene flat", "follow": " --task follow --scene flat"}


@dataclass(frozen=True)
class EncodersConfig:
    """List all image encoders with their numbers of weights."""


@dataclass(frozen=True)
class RecipeConfig:
    """Train as a shipped policy was trained, or as a file of one's own says."""

    recipe: str
    """Name of a shipped bundle, or a file."""
    out: Path | None = None
    """Folder of its runs; runs/NAME if none is given."""
    workers: Workers = 2
    """Worker processes."""


@dataclass(frozen=True)
class WhereConfig:
    """Continue the run in a folder."""

    out: Path
    """Run folder."""
    resume: bool = True


Command = (
    Annotated[WalkConfig, tyro.conf.subcommand("walk")]
    | Annotated[FollowConfig, tyro.conf.subcommand("follow")]
    | Annotated[ImitateConfig, tyro.conf.subcommand("imitate")]
    | Annotated[CourseConfig, tyro.conf.subcommand("course")]
    | Annotated[JointConfig, tyro.conf.subcommand("joint")]
    | Annotated[EncodersConfig, tyro.conf.subcommand("encoders")]
)


def main() -> None:
    """Console entry point."""
    run_command(_main)


def _main() -> None:
    command = command_line()
    if isinstance(command, EncodersConfig):
        print(encoder_table())
    elif isinstance(command, RecipeConfig):
        cook(command)
    else:
        run_and_report(command)


def run_and_report(config: TrainConfig) -> None:
    """Train, and say what came of it and what to type next; after Ctrl-C, how to go on."""
    try:
        run = train(config)
    except KeyboardInterrupt:
        if not (config.out / "last.npz").exists():
            raise
        again = f"{PROGRAM} --out {config.out} --resume"
        raise KeyboardInterrupt(f"{again} goes on") from None
    if isinstance(config, (WalkConfig, FollowConfig)):
        print(straight_ahead(run))
    print(closing(config, run))


def cook(config: RecipeConfig) -> None:
    """Train all stages of a recipe, each where it was left.

    Raises:
        UserError: there is no such recipe, or one of its lines is wrong.
    """
    check_numbers(config)
    out = config.out or Path("runs") / Path(config.recipe).stem
    stages = read_recipe(config.recipe, out)
    for stage in stages:
        print(f"{PROGRAM} {' '.join(stage.arguments)}", flush=True)
        line = [*stage.arguments, "--out", str(stage.folder), "--workers", str(config.workers)]
        wanted: TrainConfig = parse(Command, PROGRAM, line)  # type: ignore[arg-type]
        begun = (stage.folder / "last.npz").exists()
        if not begun or Run(stage.folder).load().iteration < wanted.iterations:
            run_and_report(replace(wanted, resume=begun))
        if stage.calibrate and not (marker := stage.folder / "calibrated").exists():
            calibrate_run(CalibrateConfig(stage.folder))
            write_atomic(marker, b"")


def command_line() -> TrainConfig | EncodersConfig | RecipeConfig:
    """What shall be done. A run that goes on knows its task and options; those given come on top.

    Raises:
        UserError: there is no such run.
    """
    arguments = own_arguments()
    if "--recipe" in arguments and "--help" not in arguments:
        return parse(RecipeConfig, PROGRAM, arguments)
    if "--resume" not in arguments or "--help" in arguments:
        command: TrainConfig | EncodersConfig = parse(
            Command,  # type: ignore[arg-type]
            PROGRAM,
            description="Train a policy and write a run folder; pixelgait-train TASK --help says "
            "more. To go on with a run: pixelgait-train --out RUN --resume. As a shipped policy "
            "was trained: pixelgait-train --recipe NAME [--out FOLDER] [--workers N].",
        )
        return command
    where, _ = tyro.cli(WhereConfig, prog=PROGRAM, args=arguments, return_unknown_args=True)
    config = config_of_run(where.out)
    if arguments[0] in KINDS and (task := arguments.pop(0)) != config.task:
        raise UserError(f"{where.out}: a run of task {config.task}, not {task}")
    return parse(type(config), f"{PROGRAM} {config.task}", arguments, default=config)


def closing(config: TrainConfig, run: Run) -> str:
    """What a finished run leaves behind, and what to type next."""
    best, score = run.load("best"), "not validated"
    if np.isfinite(best.best_score):
        score = f"validation return {best.best_score:.2f}"
    done = run.load().iteration
    return (
        f"wrote {config.out}: best of {done} iterations is {best.iteration}, {score}\n"
        f"next: pixelgait-eval {config.out}{TRIALS.get(config.task, '')}"
    )


def train(config: TrainConfig) -> Run:
    """Train until the budget is spent or the target is reached.

    Raises:
        UserError: the configuration makes no sense, or the run folder does not fit it.
    """
    config.check()
    plan = config.plan()
    fresh = None if config.resume else first_checkpoint(config, plan)
    require_writable(config.out / CONFIG)
    with locked(config.out):
        return _train(config, plan, fresh)


def _train(config: TrainConfig, plan: Plan, fresh: Checkpoint | None) -> Run:
    """Train in a folder that is ours alone, from a fresh checkpoint or the run's own."""
    identity = {**config.identity(), **plan.identity()}
    if fresh is None:
        run = Run.resume(config.out, identity)
        checkpoint = run.load()
        high = flat_weights(make_high_level(plan.high_level, 0)).size if plan.high_level else 0
        if (size := checkpoint.weights.size) != (needed := high + plan.low_level_weights):
            raise UserError(f"{config.out}: {size} weights, task {plan.task} trains {needed}")
        if checkpoint.iteration >= config.iterations:
            raise UserError(
                f"{config.out}: all {config.iterations} iterations are done; "
                "--iterations with more of them goes on"
            )
    else:
        checkpoint = fresh
        run = Run.create(config.out, {**config.origin(), **identity})
        config.keep_sources()
        run.save(checkpoint)
    budget = Budget(config.iterations, config.minutes, config.target_m, config.validate_every)
    with WorkerPool(config.workers, start_worker, plan) as pool:
        loop = TrainingLoop(budget, run, make_trainer(config, plan, pool, checkpoint), checkpoint)
        if config.start is not None and not checkpoint.curve:
            loop.validate_start()
        loop.go()
    return run


def make_trainer(
    config: TrainConfig, plan: Plan, pool: WorkerPool, checkpoint: Checkpoint
) -> Trainer:
    """The trainer of a task, where the checkpoint was taken."""
    seed = config.seed
    validation = Validation(pool, plan, config.validation_episodes, config.validation_steps)
    if isinstance(config, ImitateConfig):
        trained = config.start is not None
        return DAgger(pool, plan, config.dagger, seed, config.out, validation, checkpoint, trained)
    assert isinstance(config, EvolutionConfig)
    return Evolution(pool, plan, config.es, seed, validation, checkpoint)


def first_checkpoint(config: TrainConfig, plan: Plan) -> Checkpoint:
    """Fresh weights, or those of other runs to start from.

    A high level begins with small random weights, a low level with zeros.

    Raises:
        UserError: the other runs are none, or have trained something else.
    """
    normaliser = Normaliser.empty()
    if isinstance(config, ImitateConfig):
        students = first_students(config.architecture(), config.dagger, config.seed)
        if config.start is not None:
            other = start_of(config.start, "high_level")
            students = load_start(other, students[0].size).weights[None]
        return Checkpoint.first(students[0], normaliser, students=students)
    assert isinstance(config, EvolutionConfig)
    high = np.zeros(0)
    if plan.high_level:
        high = flat_weights(make_high_level(plan.high_level, config.seed))
    low = np.zeros(plan.low_level_weights)
    if config.start is not None:
        fresh = high if plan.sees else low
        level = "high_level" if plan.sees else "low_level"
        start = load_start(start_of(config.start, level), fresh.size)
        fresh[:], normaliser = start.weights, start.normaliser
    if isinstance(config, JointConfig) and config.low_level is not None:
        start = load_start(find_run(config.low_level, "low_level") / "best.npz", low.size)
        low, normaliser = start.weights, start.normaliser
    weights = np.concatenate([high, low])
    return Checkpoint.first(weights, normaliser, start=weights, history=np.zeros((0, 0)))


def start_of(path: Path, level: str) -> Path:
    """The checkpoint to start from: a file, or the best of a run or of a shipped bundle."""
    return path if path.suffix == ".npz" else find_run(path, level) / "best.npz"


def load_start(path: Path, size: int) -> Checkpoint:
    """A checkpoint of so many weights.

    Raises:
        UserError: it is no checkpoint, or has other weights.
    """
    start = load_checkpoint(path)
    if start.weights.size != size:
        raise UserError(f"{path}: {start.weights.size} weights, {size} are wanted")
    return start


if __name__ == "__main__":
    main()
