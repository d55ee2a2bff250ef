"""Training loop: runs a task from its configuration to its last checkpoint, within a budget."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from pixelgait.policies.high_level import flat_weights, make_high_level
from pixelgait.policies.low_level import carried_over, widened
from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.curve_picture import PICTURE, draw_curve
from pixelgait.policies.runs.run import (
    BEST,
    CONFIG,
    DELAYS,
    GIT,
    LOW_LEVEL,
    SCENES,
    Checkpoint,
    Run,
    find_run,
    load_checkpoint,
    robot_of,
)
from pixelgait.policies.runs.tensorboard_events import open_board
from pixelgait.policies.runs.trained import network_options
from pixelgait.policies.training.config import (
    CameraConfig,
    CourseConfig,
    EvolutionConfig,
    ImitateConfig,
    JointConfig,
    TrainConfig,
    place_in_run,
    start_of,
)
from pixelgait.policies.training.dagger import DAgger, first_students
from pixelgait.policies.training.evolution import Evolution
from pixelgait.policies.training.fitting import find_device
from pixelgait.policies.training.plan import Plan
from pixelgait.policies.training.rollouts import Figures, Progress, Validation, start_worker
from pixelgait.robot.cli.processes import announced_interrupt, interrupt_later
from pixelgait.robot.control.low_level import PLANAR
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import locked, require_writable, write_atomic
from pixelgait.robot.spec import Array, moved_robot
from pixelgait.sim.body.randomisation import require_camera
from pixelgait.sim.scenes.registry import moved_scene
from pixelgait.sim.workers.process_pool import Pool

DRAWN_EVERY_S = 60.0  # a picture of the curve takes half a second


def train(config: TrainConfig) -> Run:
    """Train until the budget is spent or the target is reached.

    Raises:
        UserError: if options do not fit each other or the run folder, or the cluster or device is
            missing.
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
    with (
        announced_interrupt(),
        locked(config.out),
        config.open_pool(start_worker, plan, plan.spec) as pool,
    ):
        return _train(config, plan, fresh, pool)


def _train(config: TrainConfig, plan: Plan, fresh: Checkpoint | None, pool: Pool) -> Run:
    """Train in a locked folder, from a fresh checkpoint or the run's own."""
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
                "give a larger --iterations to continue"
            )
        run.resume(config.budget())
        run.save_curve(checkpoint)
    else:
        checkpoint = fresh
        run = Run.create(config.out, {"task": config.task, **config.origin(), **identity})
        keep_sources(config)
        run.save(checkpoint)
    budget = Budget(config.iterations, config.minutes, config.target_m, config.validate_every)
    loop = TrainingLoop(budget, run, make_trainer(config, plan, pool, checkpoint), checkpoint)
    if config.start is not None and not checkpoint.curve:
        loop.validate_start()
    loop.train()
    return run


def keep_sources(config: TrainConfig) -> None:
    """Copy into the run the other files that its continuation needs."""

    def keep(path: Path) -> Path:
        if path.is_file():
            write_atomic(config.out / SCENES / place_in_run(path), path.read_bytes())
        return path

    moved_robot(config.robot, keep)

    def keep_below(run: Path, path: Path) -> Path:
        file = run / SCENES / path
        write_atomic(config.out / LOW_LEVEL / SCENES / path, file.read_bytes())
        return file

    if config.delays_from is not None:
        write_atomic(config.out / DELAYS, config.delays_from.read_bytes())
    if isinstance(config, CameraConfig):
        moved_scene(config.scene, keep)
    if isinstance(config, CourseConfig):
        run = find_run(config.low_level, LOW_LEVEL)
        for name in (CONFIG, GIT, BEST):
            write_atomic(config.out / LOW_LEVEL / name, (run / name).read_bytes())
        moved_robot(str(Run(run).config.get("robot")), lambda path: keep_below(run, path))


def make_trainer(config: TrainConfig, plan: Plan, pool: Pool, checkpoint: Checkpoint) -> Trainer:
    """The trainer of a task, which continues from the checkpoint."""
    seed = config.seed
    validation = Validation(pool, plan, config.validation_episodes, config.validation_steps)
    if isinstance(config, ImitateConfig):
        trained = config.start is not None
        return DAgger(pool, plan, config.dagger, seed, config.out, validation, checkpoint, trained)
    assert isinstance(config, EvolutionConfig)
    return Evolution(pool, plan, config.es, seed, validation, checkpoint)


def first_checkpoint(config: TrainConfig, plan: Plan) -> Checkpoint:
    """Fresh weights, or those of the runs to start from.

    A high level begins with small random weights, a low level with zeros.

    Raises:
        UserError: if those runs are damaged, or have trained something else.
    """
    normaliser = Normaliser.empty(plan.shape)
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
        if plan.sees:
            start = load_start(file, high.size, config)
            high, normaliser = start.weights, start.normaliser
        else:
            planar = plan.omni and load_checkpoint(file).weights.size == PLANAR.weights
            start = load_start(file, PLANAR.weights if planar else low.size, config)
            low, normaliser = for_robot(file, start, plan)
            if planar:
                low, normaliser = widened(low, normaliser, plan.spec)
    if isinstance(config, JointConfig) and config.low_level is not None:
        file = find_run(config.low_level, LOW_LEVEL) / BEST
        low, normaliser = for_robot(file, load_start(file, low.size, config), plan)
    weights = np.concatenate([high, low])
    return Checkpoint.first(weights, normaliser, start=weights, history=np.zeros((0, 0)))


def load_start(path: Path, size: int, config: TrainConfig) -> Checkpoint:
    """A checkpoint of `size` weights to start from.

    Raises:
        UserError: if it is damaged, or its weights are those of another network.
    """
    start = load_checkpoint(path)
    other = _other_network(path, config)
    if start.weights.size != size:
        raise UserError(f"{path}: {start.weights.size} weights, expected {size}{other}")
    if other:
        raise UserError(f"{path}: as many weights, of another network{other}")
    if (path.parent / CONFIG).is_file():
        mirrored = bool(Run(path.parent).config.get("mirror"))
        if mirrored != config.mirror:
            learned = "with" if mirrored else "without"
            raise UserError(f"{path} was trained {learned} --mirror: continue {learned} it")
    return start


def _other_network(path: Path, config: TrainConfig) -> str:
    """How these weights' network options differ from the configuration's, if known; else empty."""
    if not isinstance(config, CameraConfig) or not (path.parent / CONFIG).is_file():
        return ""
    learned = network_options(Run(path.parent).config)
    wanted = network_options(vars(config))
    if learned == wanted or not learned:
        return ""
    return f": it was trained with {learned}, this run has {wanted}: give the same"


def for_robot(file: Path, start: Checkpoint, plan: Plan) -> tuple[Array, Normaliser]:
    """A low level's weights and normaliser, carried over to the plan's robot."""
    if not (file.parent / CONFIG).is_file():
        return start.weights, start.normaliser
    return carried_over(start.weights, start.normaliser, robot_of(file.parent), plan.spec)


class Trainer(Protocol):
    """A training algorithm, made from the checkpoint where it begins or continues."""

    @property
    def weights(self) -> Array:
        """(n,) of the present policy."""

    @property
    def normaliser(self) -> Normaliser:
        """Normaliser of the low level's inputs; empty where none is trained."""

    def state(self) -> dict[str, Array]:
        """Further arrays that another trainer needs to continue exactly here."""

    def iterate(self, iteration: int, progress: Progress) -> Figures:
        """Train for one iteration, counted from 1; `train/return` is among the figures."""

    def validate(self) -> Figures:
        """Figures on validation seeds; `validation/return` decides which policy is best."""

    def histograms(self) -> dict[str, Array]:
        """Distributions since the last validation, for TensorBoard."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a run validates and when it ends."""

    iterations: int
    minutes: float = 0.0  # no limit
    target_m: float = 0.0  # none
    validate_every: int = 5


class ProgressBar(tqdm):  # type: ignore[misc]
    """Iterations done, to a tenth, and the time left, which a time limit shortens."""

    def __init__(self, total: int, initial: int, ends_s: float) -> None:
        """ends_s: time limit, of the monotonic clock."""
        self.ends_s = ends_s
        shape = "{l_bar}{bar}| {done}/{total_fmt} [{elapsed}<{left}{postfix}]"
        every_s = 0.1 if sys.stderr.isatty() else 10.0  # not to fill a log
        super().__init__(
            total=total, initial=initial, bar_format=shape, mininterval=every_s, miniters=0
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        known: dict[str, Any] = super().format_dict
        done, limit_s = self.n - self.initial, self.ends_s - time.monotonic()
        left_s = known["elapsed"] * (self.total - self.n) / done if done > 0 else np.inf
        left_s = min(left_s, max(limit_s, 0.0))
        known["left"] = tqdm.format_interval(left_s) if np.isfinite(left_s) else "?"
        known["done"] = f"{np.floor(self.n * 10 + 1e-6) / 10:.1f}".removesuffix(".0")
        return known

    def reach(self, iterations: int, share: float) -> None:
        """Show that so many iterations are done, and a share of the next."""
        self.update(iterations + share - self.n)


class TrainingLoop:
    """Iterates one trainer over one run, from a checkpoint."""

    def __init__(self, budget: Budget, run: Run, trainer: Trainer, checkpoint: Checkpoint) -> None:
        self.budget, self.run, self.trainer = budget, run, trainer
        self.checkpoint = checkpoint
        curve = reversed(checkpoint.curve)
        self.validated: Figures = next((row for row in curve if "validation/return" in row), {})
        self._ends_s = np.inf  # monotonic

    def validate_start(self) -> None:
        """Validate the weights that a fresh run starts from: the best until others beat them."""
        self.validated = self.trainer.validate()
        self._save({"iteration": 0.0, **self.validated})

    def train(self) -> None:
        """Iterate until budget or target is reached, with a progress bar.

        No iteration runs if the starting weights have reached the target.
        """
        self._ends_s = time.monotonic() + 60.0 * (self.budget.minutes or np.inf)
        drawn = time.monotonic()
        first = self.checkpoint.iteration + 1
        end = first if self.reached_target() else self.budget.iterations + 1
        bar = self._bar = ProgressBar(self.budget.iterations, first - 1, self._ends_s)
        warn = partial(bar.write, file=sys.stderr)
        try:
            with bar, open_board(self.run.folder, first, warn) as board:
                if first == 1 and self.validated:
                    board.log(0, self.validated, dict)
                for iteration in range(first, end):
                    row, last = self._iterate(iteration)
                    fresh = any(name.startswith("validation/") for name in row)
                    board.log(iteration, row, self.trainer.histograms if fresh else dict)
                    bar.reach(iteration, 0.0)
                    bar.set_postfix_str(progress_line(row, self.validated))
                    if fresh and time.monotonic() - drawn > DRAWN_EVERY_S:
                        self._draw()
                        drawn = time.monotonic()
                    if warning := going_blind(self.checkpoint.curve):
                        warn(warning)
                    if last or self.reached_target():
                        break
        except OSError:  # a full disk has no room for a picture either
            raise
        except BaseException:  # Ctrl-C too
            self._draw()
            raise
        self._draw()
        if not np.isfinite(self.checkpoint.best_score):  # stopped before the first validation
            self.run.save(self.checkpoint, "best")

    def reached_target(self) -> bool:
        """Whether every validation episode advanced by the target without a fall."""
        target = self.budget.target_m
        return bool(
            target
            and self.validated.get("validation/shortest", 0.0) >= target
            and self.validated.get("validation/falls", 1.0) == 0.0
        )

    def _iterate(self, iteration: int) -> tuple[Figures, bool]:
        """One iteration: train, validate if due, save. Its figures, and whether it is the last."""
        started = time.monotonic()
        row = {
            "iteration": float(iteration),
            **self.trainer.iterate(iteration, partial(self._bar.reach, iteration - 1)),
        }
        every = self.budget.validate_every
        last = iteration == self.budget.iterations or time.monotonic() > self._ends_s
        comparable = iteration > every or np.isfinite(self.checkpoint.best_score)
        if iteration % every == 0 or (last and comparable):
            self.validated = self.trainer.validate()
            row |= self.validated
        row["perf/seconds"] = time.monotonic() - started
        self._save(row)
        return row, last

    def _save(self, row: Figures) -> None:
        """Save the checkpoint with a new row of the curve, also as best if it is."""
        score, best = row.get("validation/return", -np.inf), self.checkpoint.best_score
        self.checkpoint = Checkpoint(
            weights=self.trainer.weights,
            normaliser=self.trainer.normaliser,
            iteration=int(row["iteration"]),
            curve=[*self.checkpoint.curve, row],
            best_score=max(best, score),
            state=self.trainer.state(),
        )
        if score > best:
            self.run.save(self.checkpoint, "best")
        self.run.save(self.checkpoint)

    def _draw(self) -> None:
        if not self.checkpoint.curve:
            return
        with interrupt_later():
            draw_curve(self.run.folder / PICTURE, self.checkpoint.curve)


def progress_line(row: Figures, validated: Figures) -> str:
    """Text behind the progress bar."""
    parts = [f"return {row['train/return']:.2f}"]
    follows = "validation/speed_error" in validated  # no distance to cover and no goal
    if "train/distance" in row and "train/speed_error" not in row:
        parts.append(f"distance {row['train/distance']:.2f} m")
    if validated:
        parts.append(f"| validation: return {validated['validation/return']:.2f}")
    if "validation/falls" in validated:
        parts.append(f"falls {validated['validation/falls']:.0%}")
    if follows:
        parts.append(f"errors {validated['validation/speed_error']:.2f} m/s")
        parts.append(f"{validated['validation/yaw_rate_error']:.2f} rad/s")
    elif "validation/success" in validated:
        for name in ("success", "collision_free", "contact_free"):
            parts.append(f"{name.replace('_', ' ')} {validated[f'validation/{name}']:.0%}")
        if "validation/spl" in validated:
            parts.append(f"SPL {validated['validation/spl']:.2f}")
    return ", ".join(parts).replace(", |", " |")


# Mean duration [control steps] that counts as blind: half a metre or more per image; assumption.
BLIND_STEPS = 100.0


def going_blind(curve: list[Figures]) -> str | None:
    """A warning if the newest validation uses far fewer images than an earlier one; None: no.

    With long durations a policy learns to do without its camera, and does not recover.
    """
    name = "validation/duration_steps"
    if not curve or name not in curve[-1]:
        return None
    durations = [row[name] for row in curve if name in row]
    if durations[-1] < BLIND_STEPS or durations[-1] < 2.0 * min(durations):
        return None
    return (
        f"warning: iteration {curve[-1]['iteration']:.0f}: the policy goes blind, a decision "
        f"lasts {durations[-1]:.0f} steps on average, once {min(durations):.0f}"
    )
