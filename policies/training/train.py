"""pixelgait-train: train the low level, the high level, or both."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from pixelgait.policies.runs.recipe import (
    CALIBRATE,
    Progress,
    RecipeStep,
    read_recipe,
    say_where_exact,
)
from pixelgait.policies.runs.run import CONFIG, Run
from pixelgait.policies.training.base_configs import CameraConfig, TrainConfig
from pixelgait.policies.training.configs import (
    KINDS,
    CourseConfig,
    FollowConfig,
    ImitateConfig,
    JointConfig,
    WalkConfig,
)
from pixelgait.policies.training.rollouts.plan import DeviceName
from pixelgait.policies.training.stored_config import config_of_run
from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.cli.options import check_outputs, parse
from pixelgait.robot.cli.usage import understand
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable
from pixelgait.sim.options import WorkerOptions, check_film

PROGRAM = "pixelgait-train"
DESCRIPTION = f"""Train a policy and write a run folder. {PROGRAM} TASK --help has a task's options.

{PROGRAM} --out RUN --resume: go on with a run.

{PROGRAM} --recipe NAME: train as a shipped policy was trained; with --help, its options."""


@dataclass(frozen=True)
class EncodersConfig:
    """List all image encoders with their numbers of weights."""


@dataclass(frozen=True)
class RecipeConfig(WorkerOptions):
    """Train as a shipped policy was trained, or as a file of one's own says."""

    recipe: str
    """Name of a shipped bundle, or a file."""
    out: Path | None = None
    """Folder of its runs; runs/NAME if none is given."""
    video: Path | None = None
    """Film the last run's best policy at the end (.mp4 or .gif; .png for a strip of frames)."""
    device: DeviceName = "cpu"
    """Where the students of its imitation are fitted."""


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
        from pixelgait.policies.high_level import encoder_table

        print(encoder_table())
    elif isinstance(command, RecipeConfig):
        run_recipe(command)
    else:
        run_and_report(command)


def run_and_report(config: TrainConfig) -> None:
    """Train, and say what came of it and what to type next; after Ctrl-C, how to go on."""
    config.check_names()
    from pixelgait.policies.training.rollouts.validation import straight_ahead
    from pixelgait.policies.training.session import train

    try:
        run = train(config)
    except KeyboardInterrupt:
        if not (config.out / "last.npz").exists():
            raise
        film_so_far(config.out, config.video)
        where = ["--cluster", config.cluster] if config.cluster else []
        if isinstance(config, ImitateConfig) and config.device != ImitateConfig.device:
            where += ["--device", config.device]
        again = shlex.join([PROGRAM, "--out", str(config.out), "--resume", *where])
        raise KeyboardInterrupt(f"{again} goes on") from None
    if isinstance(config, (WalkConfig, FollowConfig)):
        print(straight_ahead(run))
    if config.video is not None:
        film(config.out, config.video)
    print(closing(config, run))


def film_so_far(folder: Path, path: Path | None) -> None:
    """Film a run that was interrupted, if that is wanted and there is a policy to be seen."""
    if path is not None and (folder / "best.npz").exists():
        print("filming the best policy so far; Ctrl-C leaves it out", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            film(folder, path)


def film(folder: Path, path: Path) -> None:
    """Film the best policy of a run, as `pixelgait-eval` films a bundle."""
    from pixelgait.policies.training.rollouts.validation import film_best

    config = config_of_run(folder)
    episode = film_best(Run(folder), config.plan(), config.validation_steps, path)
    fell = ", it falls" if episode.fell else ""
    print(f"wrote {path}: validation seed {episode.seed}, {episode.distance_m:.1f} m{fell}")


def run_recipe(config: RecipeConfig) -> None:
    """Train all stages of a recipe, each where it was left.

    Raises:
        UserError: there is no such recipe, a line of it is wrong, or none is fitted on a device.
    """
    check_film(config.video)
    check_outputs(("video", config.video))
    out = config.out or Path("runs") / Path(config.recipe).stem
    stages = read_recipe(config.recipe, out)
    if config.device != "cpu" and not any(stage.fits for stage in stages):
        raise UserError(f"--device {config.device}: nothing in this recipe is fitted by gradient")
    lines = [line_of(config, stage) for stage in stages]  # all, before the first is trained
    require_writable(stages[0].folder / CONFIG)
    say_where_exact(config.recipe)
    try:
        progress = Progress(out)
        worked = [train_stage(progress, *each) for each in zip(stages, lines, strict=True)]
    except KeyboardInterrupt:
        begun = [stage.folder for stage in stages if (stage.folder / "last.npz").exists()]
        if not begun:
            raise
        film_so_far(begun[-1], config.video)
        again = shlex.join([PROGRAM, *own_arguments()])  # with whoever does the work, and its film
        raise KeyboardInterrupt(f"the same line goes on: {again}") from None
    if not any(worked):
        print(f"all runs are done: {', '.join(str(stage.folder) for stage in stages)}")
    if config.video is not None:
        film(stages[-1].folder, config.video)


def line_of(config: RecipeConfig, stage: RecipeStep) -> TrainConfig:
    """What a recipe's line asks for, by whoever does the work; raises UserError for a wrong one."""
    line = [*stage.arguments, "--out", str(stage.folder)]
    where = ("--cluster", config.cluster), ("--workers", str(config.workers))
    line += next([option, value] for option, value in where if value)
    if stage.fits and config.device != "cpu":
        line += ["--device", config.device]
    wanted: TrainConfig = parse(Command, PROGRAM, line)  # type: ignore[arg-type]
    if stage.calibrate and isinstance(wanted, ImitateConfig | CourseConfig):
        raise UserError(f"{CALIBRATE}: task {wanted.task} trains a high level, expected a low one")
    return wanted


def train_stage(progress: Progress, stage: RecipeStep, wanted: TrainConfig) -> bool:
    """Train a recipe's run from where it was left, and calibrate it; whether there was work.

    One that ended by another line goes on by this one, if it can.

    Raises:
        UserError: it cannot, or a run it began from has other weights by now.
    """
    print(f"{PROGRAM} {' '.join(stage.arguments)}", flush=True)
    begun = (stage.folder / "last.npz").exists()
    if begun:
        progress.require_same_start(stage)
    else:
        progress.begin(stage)
    # By which line it ended; by minutes or a target that may be before its iterations.
    ended = progress.of(stage).get("line")
    train = ended != stage.line
    if train:
        if ended or not (begun and Run(stage.folder).is_done(wanted.iterations)):
            run_and_report(replace(wanted, resume=begun))
        progress.note(stage, line=stage.line, calibrated=False)
    calibrate = stage.calibrate and not progress.of(stage).get("calibrated", False)
    if calibrate:
        from pixelgait.policies.training.calibration import CalibrateConfig, calibrate_run

        calibrate_run(CalibrateConfig(stage.folder))
        progress.note(stage, calibrated=True)
    return train or calibrate


def command_line() -> TrainConfig | EncodersConfig | RecipeConfig:
    """What shall be done. A run that goes on knows its task and options; those given come on top.

    Raises:
        UserError: there is no such run.
    """
    arguments = own_arguments()
    if "--encoder=list" in arguments or ("--encoder", "list") in pairwise(arguments):
        return EncodersConfig()
    if any(each.split("=")[0] == "--recipe" for each in arguments):
        return parse(RecipeConfig, PROGRAM, arguments)
    if "--resume" not in arguments or {"-h", "--help"} & set(arguments):
        return parse(Command, PROGRAM, description=DESCRIPTION)  # type: ignore[arg-type]
    where, _ = understand(WhereConfig, PROGRAM, arguments, return_unknown_args=True)
    config = config_of_run(where.out)
    if arguments[0] in KINDS and (task := arguments.pop(0)) != config.task:
        raise UserError(f"{where.out}: a run of task {config.task}, not {task}")
    return parse(type(config), f"{PROGRAM} {config.task}", arguments, default=config)


def closing(config: TrainConfig, run: Run) -> str:
    """What a finished run leaves behind, and what to type next."""
    from pixelgait.policies.runs.trained import TRIALS, trial_in, trial_line

    best, score = run.load("best"), "not validated"
    if np.isfinite(best.best_score):
        score = f"validation return {best.best_score:.2f}"
    done = run.load().iteration
    where = trial_in(config.scene) if isinstance(config, CameraConfig) else TRIALS[config.task]
    trial = trial_line(config.out, where)
    return (
        f"wrote {config.out}: best of {done} iterations is {best.iteration}, {score}\n"
        f"to watch it: {trial} --episodes 3 --gui\n"
        f"on film: {trial} --episodes 1 --video film.mp4\n"
        f"next: {trial}"
    )


if __name__ == "__main__":
    main()
