"""pixelgait-train: evolution strategies for the low level and for the high level."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from tqdm import tqdm

from pixelgait.policies import es
from pixelgait.policies.es import ESConfig
from pixelgait.policies.low_level import Statistics
from pixelgait.policies.pool import RolloutPool
from pixelgait.policies.rollouts import (
    Plan,
    TaskName,
    exploration_scale,
    initial_weights,
    run_job,
    start_worker,
)
from pixelgait.policies.runs import Checkpoint, Run, load_checkpoint
from pixelgait.policies.straight_ahead import straight_ahead
from pixelgait.policies.trained import trained_low_level
from pixelgait.robot.errors import UserError, run_command
from pixelgait.sim.episode import Episode
from pixelgait.sim.randomisation import Randomisation

VALIDATION_SEEDS = range(9000, 9008)  # training draws below 9000, evaluation from 10000


@dataclass(frozen=True)
class TrainConfig:
    """Train a policy with ARS in PyBullet and write a run folder.

    walk: the low level learns to walk straight ahead, from zero weights. follow: it learns to
    follow speed and yaw-rate commands under pushes. course: the high level learns to steer through
    the obstacle course by camera, on top of a frozen low level (--low-level).
    """

    task: Annotated[TaskName, tyro.conf.Positional]
    """walk, follow or course."""
    out: Path
    """Run folder: config, git state, checkpoints, learning curve, TensorBoard events."""
    resume: bool = False
    """Continue the run in that folder exactly where it was."""
    seed: int = 0
    workers: int = 2
    """Worker processes."""
    iterations: int = 200
    minutes: float = 0.0
    """Stop after so many minutes; 0 for no limit."""
    target_m: float = 0.0
    """Stop once every validation episode advances so far without a fall; 0 to go on."""
    steps: int = 500
    """Control steps (10 ms) of a training episode."""
    validation_steps: int = 1000
    validate_every: int = 5
    encoder: Literal["iap", "cnn"] = "iap"
    """High level of the task course."""
    difficulty: float = 0.5
    """Difficulty of the course, 0 to 1."""
    low_level: Path | None = None
    """Run folder of the frozen low level of the task course."""
    randomise: bool = False
    """Draw mass, friction, motor strength, action delay and sensor noise anew every episode."""
    start: Path | None = None
    """Checkpoint (.npz) to start from instead of fresh weights."""
    es: ESConfig = field(default_factory=ESConfig)

    def check(self) -> None:
        """Raises UserError if a value makes no sense."""
        for name in ("workers", "iterations", "steps", "validation_steps", "validate_every"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} is {getattr(self, name)}, needs >= 1")
        if self.seed < 0:
            raise UserError(f"--seed is {self.seed}, needs >= 0")
        if not 0.0 <= self.difficulty <= 1.0:
            raise UserError(f"--difficulty is {self.difficulty}, expected 0 to 1")
        if not 1 <= self.es.top <= self.es.directions:
            raise UserError(f"--es.top is {self.es.top}, expected 1 to {self.es.directions}")
        if self.task == "course" and self.low_level is None:
            raise UserError("the task course needs --low-level, the run folder of a low level")

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its continuation."""
        budget = ("out", "resume", "workers", "iterations", "minutes", "target_m")
        values = {k: v for k, v in asdict(self).items() if k not in budget}
        return {k: str(v) if isinstance(v, Path) else v for k, v in values.items()}


def main() -> None:
    """Console entry point."""
    run_command(lambda: _main(tyro.cli(TrainConfig, prog="pixelgait-train")))


def _main(config: TrainConfig) -> None:
    run = train(config)
    if config.task != "course":
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
    pool = RolloutPool(config.workers, start_worker, plan)
    try:
        Search(config, plan, run, state, pool).go()
    finally:
        pool.close()
    return run


def make_plan(config: TrainConfig) -> Plan:
    """What the workers need to know."""
    low_level = None
    if config.task == "course":
        assert config.low_level is not None
        frozen = trained_low_level(config.low_level)
        low_level = frozen.matrix, frozen.bias
    return Plan(
        config.task,
        config.steps,
        config.encoder,
        config.difficulty,
        low_level,
        Randomisation() if config.randomise else None,
    )


def first_checkpoint(config: TrainConfig, plan: Plan) -> Checkpoint:
    """Fresh weights, or those of another run to start from."""
    fresh = Checkpoint(initial_weights(plan, config.seed), Statistics.empty(), 0, [], -np.inf)
    if config.start is None:
        return fresh
    start = load_checkpoint(config.start)
    if start.weights.shape != fresh.weights.shape:
        raise UserError(
            f"{config.start}: {start.weights.size} weights, this task has {fresh.weights.size}"
        )
    return replace(fresh, weights=start.weights, statistics=start.statistics)


class Search:
    """The search loop over one run."""

    def __init__(
        self, config: TrainConfig, plan: Plan, run: Run, state: Checkpoint, pool: RolloutPool
    ) -> None:
        self.config, self.plan, self.run, self.state, self.pool = config, plan, run, state, pool
        self.scale = exploration_scale(plan, state.weights.size)
        self.validated: dict[str, float] = {}

    def go(self) -> None:
        """Iterate, validate, save; shows a progress bar with return and distance."""
        from torch.utils.tensorboard import SummaryWriter

        config = self.config
        started = time.monotonic()
        bar = tqdm(total=config.iterations, initial=self.state.iteration, unit="it")
        with SummaryWriter(str(self.run.folder), purge_step=self.state.iteration + 1) as board, bar:
            while self.state.iteration < config.iterations:
                row = self.iterate()
                for name, value in row.items():
                    board.add_scalar(name, value, self.state.iteration)
                bar.update()
                bar.set_postfix_str(progress_line(row, self.validated))
                if self.reached_target():
                    break
                if config.minutes and time.monotonic() - started > 60.0 * config.minutes:
                    break
        if not np.isfinite(self.state.best_score):  # stopped before the first validation
            self.run.save(self.state, "best")

    def iterate(self) -> dict[str, float]:
        """One step of the search, with everything about it on disk afterwards."""
        config, state = self.config, self.state
        started = time.monotonic()
        iteration = state.iteration + 1
        settings = es.cooled(config.es, iteration)
        deltas = es.directions(settings, self.scale, config.seed, iteration)
        trials = es.candidates(settings, state.weights, deltas)
        seeds = es.training_seeds(settings, config.seed, iteration)
        jobs = [(trial, state.statistics, seeds, config.steps) for trial in trials]
        episodes: list[list[Episode]] = self.pool.map(run_job, jobs)
        returns = np.array([np.mean([e.return_m for e in each]) for each in episodes])
        weights = es.update(settings, state.weights, deltas, returns)
        statistics = state.statistics
        for each in episodes:
            for episode in each:
                statistics = statistics.including(episode.observations)
        row = {"iteration": float(iteration), **summary("train", episodes)}
        row["train/best_return"] = float(returns.max())
        self.state = replace(state, weights=weights, statistics=statistics, iteration=iteration)
        if iteration % config.validate_every == 0:
            self.validated = self.validate()
            row |= self.validated
        row["perf/seconds"] = time.monotonic() - started
        self.save(row)
        return row

    def validate(self) -> dict[str, float]:
        """Figures of the current weights on seeds that training never sees."""
        state, steps = self.state, self.config.validation_steps
        jobs = [(state.weights, state.statistics, [seed], steps) for seed in VALIDATION_SEEDS]
        return summary("validation", self.pool.map(run_job, jobs))

    def save(self, row: dict[str, float]) -> None:
        """The checkpoint, and the best one so far by validation return."""
        self.state = replace(self.state, curve=[*self.state.curve, row])
        score = row.get("validation/return", -np.inf)
        if score > self.state.best_score:
            self.state = replace(self.state, best_score=score)
            self.run.save(self.state, "best")
        self.run.save(self.state)

    def reached_target(self) -> bool:
        target = self.config.target_m
        return bool(
            target
            and self.validated.get("validation/shortest", 0.0) >= target
            and self.validated.get("validation/falls", 1.0) == 0.0
        )


def summary(group: str, episodes: list[list[Episode]]) -> dict[str, float]:
    """Mean figures of many episodes, named for TensorBoard."""
    flat = [episode for each in episodes for episode in each]
    figures = {
        "return": np.mean([e.return_m for e in flat]),
        "distance": np.mean([e.distance_m for e in flat]),
        "shortest": np.min([e.distance_m for e in flat]),
        "falls": np.mean([e.fell for e in flat]),
        "success": np.mean([e.success for e in flat]),
        "images": np.mean([e.images for e in flat]),
        "hold_steps": np.sum([e.steps for e in flat]) / np.sum([e.images for e in flat]),
    }
    for name in flat[0].metrics:
        figures[name] = np.mean([e.metrics[name] for e in flat if name in e.metrics])
    return {f"{group}/{name}": float(value) for name, value in figures.items()}


def progress_line(row: dict[str, float], validated: dict[str, float]) -> str:
    """What stands behind the progress bar."""
    line = f"return {row['train/return']:.2f}, distance {row['train/distance']:.2f} m"
    if validated:
        line += (
            f" | validation: {validated['validation/distance']:.2f} m, "
            f"falls {validated['validation/falls']:.0%}"
        )
    return line


if __name__ == "__main__":
    main()
