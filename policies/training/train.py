"""pixelgait-train: train the low level, the high level, or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from pixelgait.policies.high_level import encoder_table, flat_weights, make_high_level
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs import Checkpoint, Run, load_checkpoint
from pixelgait.policies.trained import find_run
from pixelgait.policies.training.configs import (
    CourseConfig,
    EvolutionConfig,
    FollowConfig,
    ImitateConfig,
    JointConfig,
    TrainConfig,
    WalkConfig,
)
from pixelgait.policies.training.evolution import Evolution
from pixelgait.policies.training.imitation import DAgger, first_students
from pixelgait.policies.training.loop import Budget, Trainer, TrainingLoop
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import start_worker
from pixelgait.policies.training.straight_ahead import straight_ahead
from pixelgait.policies.training.validation import Validation
from pixelgait.robot.errors import UserError, run_command
from pixelgait.sim.tasks.pool import WorkerPool


@dataclass(frozen=True)
class EncodersConfig:
    """List all image encoders with their numbers of weights."""


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
    command: Command = tyro.cli(
        Command,
        prog="pixelgait-train",
        description="Train a policy and write a run folder; pixelgait-train TASK --help says more.",
    )
    if isinstance(command, EncodersConfig):
        print(encoder_table())
        return
    run = train(command)
    if isinstance(command, (WalkConfig, FollowConfig)):
        print(straight_ahead(run))


def train(config: TrainConfig) -> Run:
    """Train until the budget is spent or the target is reached.

    Raises:
        UserError: the configuration makes no sense, or the run folder does not fit it.
    """
    config.check()
    plan = config.plan()
    open_run = Run.resume if config.resume else Run.create
    run = open_run(config.out, {**config.identity(), **plan.identity()})
    checkpoint = run.load() if config.resume else first_checkpoint(config, plan)
    budget = Budget(config.iterations, config.minutes, config.target_m, config.validate_every)
    with WorkerPool(config.workers, start_worker, plan) as pool:
        loop = TrainingLoop(budget, run, make_trainer(config, plan, pool, checkpoint), checkpoint)
        started = isinstance(config, EvolutionConfig) and config.start is not None
        if started and not checkpoint.curve:
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
        return DAgger(pool, plan, config.dagger, seed, config.out, validation, checkpoint)
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
        return Checkpoint.first(students[0], normaliser, students=students)
    assert isinstance(config, EvolutionConfig)
    high = np.zeros(0)
    if plan.high_level:
        high = flat_weights(make_high_level(plan.high_level, config.seed))
    low = np.zeros(plan.low_level_weights)
    if config.start is not None:
        fresh = high if plan.sees else low
        start = load_start(config.start, fresh.size)
        fresh[:], normaliser = start.weights, start.normaliser
    if isinstance(config, JointConfig) and config.low_level is not None:
        start = load_start(find_run(config.low_level, "low_level") / "best.npz", low.size)
        low, normaliser = start.weights, start.normaliser
    weights = np.concatenate([high, low])
    return Checkpoint.first(weights, normaliser, start=weights, history=np.zeros((0, 0)))


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
