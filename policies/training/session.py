"""A training run, from its configuration to its last checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pixelgait.policies.high_level import flat_weights, make_high_level
from pixelgait.policies.low_level import carried_over
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import (
    CONFIG,
    DELAYS,
    GIT,
    LOW_LEVEL,
    SCENES,
    Checkpoint,
    Run,
    find_run,
    load_checkpoint,
)
from pixelgait.policies.runs.trained import network_options, robot_of
from pixelgait.policies.training.base_configs import (
    CameraConfig,
    EvolutionConfig,
    TrainConfig,
    place_in_run,
)
from pixelgait.policies.training.configs import (
    CourseConfig,
    ImitateConfig,
    JointConfig,
)
from pixelgait.policies.training.evolution.search import Evolution
from pixelgait.policies.training.imitation.dagger import DAgger, first_students
from pixelgait.policies.training.imitation.fitting import find_device
from pixelgait.policies.training.loop import Budget, Trainer, TrainingLoop
from pixelgait.policies.training.rollouts.plan import Plan
from pixelgait.policies.training.rollouts.validation import Validation
from pixelgait.policies.training.rollouts.worker import start_worker
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import locked, require_writable, write_atomic
from pixelgait.robot.spec import Array
from pixelgait.sim.body.measured_delays import require_camera
from pixelgait.sim.scenes.registry import moved_scene
from pixelgait.sim.workers.process_pool import Pool

BEST = "best.npz"


def train(config: TrainConfig) -> Run:
    """Train until the budget is spent or the target is reached.

    Raises:
        UserError: the configuration makes no sense, or the run folder does not fit it; there is no
            such cluster or device.
    """
    config.check()
    plan = config.plan()
    if isinstance(config, ImitateConfig):
        if not config.resume:
            require_camera(config.delays_from)
        plan = replace(plan, device=find_device(config.device))
    fresh = None if config.resume else first_checkpoint(config, plan)
    if isinstance(config, ImitateConfig):
        print(f"students are fitted on: {plan.device}", flush=True)
    require_writable(config.out / CONFIG)
    with locked(config.out), config.open_pool(start_worker, plan, plan.robot) as pool:
        return _train(config, plan, fresh, pool)


def _train(config: TrainConfig, plan: Plan, fresh: Checkpoint | None, pool: Pool) -> Run:
    """Train in a folder that is ours alone, from a fresh checkpoint or the run's own."""
    identity = {**config.identity(), **plan.identity()}
    if fresh is None:
        run = Run.begun(config.out, identity)
        checkpoint = run.load()
        high = flat_weights(make_high_level(plan.high_level, 0)).size if plan.high_level else 0
        if (size := checkpoint.weights.size) != (needed := high + plan.low_level_weights):
            raise UserError(f"{config.out}: {size} weights, task {plan.task} trains {needed}")
        if run.is_done(config.iterations):
            raise UserError(
                f"{config.out}: all {config.iterations} iterations are done; "
                "--iterations with more of them goes on"
            )
        run.resume(config.budget())
        run.save_curve(checkpoint)
    else:
        checkpoint = fresh
        run = Run.create(config.out, {**config.origin(), **identity})
        keep_sources(config)
        run.save(checkpoint)
    budget = Budget(config.iterations, config.minutes, config.target_m, config.validate_every)
    loop = TrainingLoop(budget, run, make_trainer(config, plan, pool, checkpoint), checkpoint)
    if config.start is not None and not checkpoint.curve:
        loop.validate_start()
    loop.train()
    return run


def keep_sources(config: TrainConfig) -> None:
    """Copy into the run what its continuation needs of other files."""

    def keep(path: Path) -> Path:
        if path.is_file():
            write_atomic(config.out / SCENES / place_in_run(path), path.read_bytes())
        return path

    if config.delays_from is not None:
        write_atomic(config.out / DELAYS, config.delays_from.read_bytes())
    if isinstance(config, CameraConfig):
        moved_scene(config.scene, keep)
    if isinstance(config, CourseConfig):
        run = find_run(config.low_level, LOW_LEVEL)
        for name in (CONFIG, GIT, BEST):
            write_atomic(config.out / LOW_LEVEL / name, (run / name).read_bytes())


def make_trainer(config: TrainConfig, plan: Plan, pool: Pool, checkpoint: Checkpoint) -> Trainer:
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
            other = start_of(config.start, config.level)
            students = load_start(other, students[0].size, config).weights[None]
        return Checkpoint.first(students[0], normaliser, students=students)
    assert isinstance(config, EvolutionConfig)
    high = np.zeros(0)
    if plan.high_level:
        high = flat_weights(make_high_level(plan.high_level, config.seed))
    low = np.zeros(plan.low_level_weights)
    if config.start is not None:
        file = start_of(config.start, config.level)
        start = load_start(file, (high if plan.sees else low).size, config)
        if plan.sees:
            high, normaliser = start.weights, start.normaliser
        else:
            low, normaliser = for_robot(file, start, plan)
    if isinstance(config, JointConfig) and config.low_level is not None:
        file = find_run(config.low_level, LOW_LEVEL) / BEST
        low, normaliser = for_robot(file, load_start(file, low.size, config), plan)
    weights = np.concatenate([high, low])
    return Checkpoint.first(weights, normaliser, start=weights, history=np.zeros((0, 0)))


def start_of(path: Path, level: str) -> Path:
    """The checkpoint to start from: a file, or the best of a run or of a shipped bundle."""
    return path if path.suffix == ".npz" else find_run(path, level) / BEST


def load_start(path: Path, size: int, config: TrainConfig) -> Checkpoint:
    """A checkpoint of so many weights to go on from, left-right symmetric if that is wanted.

    Raises:
        UserError: it is no checkpoint, or has other weights, or they mean something else.
    """
    start = load_checkpoint(path)
    other = _other_network(path, config)
    if start.weights.size != size:
        raise UserError(f"{path}: {start.weights.size} weights, {size} are wanted{other}")
    if other:
        raise UserError(f"{path}: as many weights, of another network{other}")
    if (path.parent / CONFIG).is_file():
        mirrored = bool(Run(path.parent).config.get("mirror"))
        if mirrored != config.mirror:
            learned = "with" if mirrored else "without"
            raise UserError(f"{path} has learned {learned} --mirror: go on {learned} it")
    return start


def _other_network(path: Path, config: TrainConfig) -> str:
    """By which options the network of these weights and the one that is wanted differ, if known."""
    if not isinstance(config, CameraConfig) or not (path.parent / CONFIG).is_file():
        return ""
    learned = network_options(Run(path.parent).config)
    wanted = network_options(vars(config))
    if learned == wanted or not learned:
        return ""
    return f": it has learned with {learned}, this run has {wanted}: give the same"


def for_robot(file: Path, start: Checkpoint, plan: Plan) -> tuple[Array, Normaliser]:
    """A low level's weights and normaliser on the plan's robot, if it is known where it learned."""
    if not (file.parent / CONFIG).is_file():
        return start.weights, start.normaliser
    return carried_over(start.weights, start.normaliser, robot_of(file.parent), plan.spec)
