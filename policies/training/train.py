"""pixelgait-train: trains the low level, the high level, or both."""

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
from pixelgait.policies.runs.run import BEST, CONFIG, Run
from pixelgait.policies.training.config import (
    KINDS,
    CameraConfig,
    CourseConfig,
    FollowConfig,
    ImitateConfig,
    JointConfig,
    TrainConfig,
    WalkConfig,
    config_of_file,
    config_of_run,
)
from pixelgait.policies.training.plan import DeviceName
from pixelgait.robot.cli.commands import own_arguments
from pixelgait.robot.cli.options import check_outputs, parse, parse_known
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable
from pixelgait.sim.options import WorkerOptions, check_film

PROGRAM = "pixelgait-train"
DESCRIPTION = f"""Train a policy and write a run folder. {PROGRAM} TASK --help: its options.

{PROGRAM} TASK --config FILE: with the settings of a YAML file, such as a run's {CONFIG}.

{PROGRAM} --out RUN --resume: continue a run.

{PROGRAM} --recipe NAME: train as a shipped policy was trained; with --help, its options."""


@dataclass(frozen=True)
class EncodersConfig:
    """List all image encoders with their numbers of weights."""


@dataclass(frozen=True)
class RecipeConfig(WorkerOptions):
    """Train as a shipped policy was trained, or by a recipe file."""

    recipe: str
    """Name of a shipped bundle, or a file."""
    out: Path | None = None
    """Folder of the recipe's runs; default: runs/NAME."""
    video: Path | None = None
    """Film the last run's best policy at the end (.mp4, .gif, or .png for a strip of frames)."""
    device: DeviceName = "cpu"
    """Device that the students of imitate are fitted on."""


@dataclass(frozen=True)
class ResumeConfig:
    """Continue the run in a folder."""

    out: Path
    """Run folder."""
    resume: bool = True


@dataclass(frozen=True)
class FileConfig:
    """Train with the settings of a file."""

    config: Path
    """YAML file."""


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
    """Train, then print the result and the next command; after Ctrl-C, the command to resume."""
    config.check_inputs()
    from pixelgait.policies.training.loop import train
    from pixelgait.policies.training.rollouts import straight_ahead

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
        raise KeyboardInterrupt(f"{again} continues") from None
    if isinstance(config, WalkConfig) or (isinstance(config, FollowConfig) and not config.omni):
        print(straight_ahead(run))
    if config.video is not None:
        film(config.out, config.video)
    print(closing(config, run))


def film_so_far(folder: Path, path: Path | None) -> None:
    """Film an interrupted run, if that was asked for and there is a policy."""
    if path is not None and (folder / BEST).exists():
        print("filming the best policy so far; Ctrl-C skips it", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            film(folder, path)


def film(folder: Path, path: Path) -> None:
    """Film the best policy of a run."""
    from pixelgait.policies.training.rollouts import film_best

    config = config_of_run(folder)
    episode = film_best(Run(folder), config.plan(), config.validation_steps, path)
    fell = ", it falls" if episode.fell else ""
    print(f"wrote {path}: validation seed {episode.seed}, {episode.distance_m:.1f} m{fell}")


def run_recipe(config: RecipeConfig) -> None:
    """Train all steps of a recipe, each from where it stopped.

    Raises:
        UserError: if there is no such recipe, a line of it is wrong, or no step uses the device.
    """
    check_film(config.video)
    check_outputs(("video", config.video))
    out = config.out or Path("runs") / Path(config.recipe).stem
    stages = read_recipe(config.recipe, out)
    if config.device != "cpu" and not any(stage.fits for stage in stages):
        raise UserError(f"--device {config.device} has no effect: the recipe has no task imitate")
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
        again = shlex.join([PROGRAM, *own_arguments()])
        raise KeyboardInterrupt(f"the same line continues: {again}") from None
    if not any(worked):
        print(f"all runs are done: {', '.join(str(stage.folder) for stage in stages)}")
    if config.video is not None:
        film(stages[-1].folder, config.video)


def line_of(config: RecipeConfig, stage: RecipeStep) -> TrainConfig:
    """The configuration of a recipe's line, with the recipe's workers, cluster and device.

    Raises:
        UserError: names the recipe's file and line, if the line is wrong.
    """
    line = [*stage.arguments, "--out", str(stage.folder)]
    where = ("--cluster", config.cluster), ("--workers", str(config.workers))
    line += next([option, value] for option, value in where if value)
    if stage.fits and config.device != "cpu":
        line += ["--device", config.device]
    try:
        wanted = parse_training(line)
    except UserError as error:
        raise UserError(f"{stage.place}: {error}") from None
    if stage.calibrate and isinstance(wanted, ImitateConfig | CourseConfig):
        raise UserError(f"{stage.place}: {CALIBRATE}: task {wanted.task} trains no low level")
    assert isinstance(wanted, TrainConfig)
    return wanted


def train_stage(progress: Progress, stage: RecipeStep, wanted: TrainConfig) -> bool:
    """Train a step of a recipe from where it stopped, and calibrate it; False if it was done.

    A run that ended by another line is resumed with this one, if it can be.

    Raises:
        UserError: if it cannot be resumed, or a run it began from has other weights by now.
    """
    print(f"{PROGRAM} {' '.join(stage.arguments)}", flush=True)
    begun = (stage.folder / "last.npz").exists()
    if begun:
        progress.require_same_start(stage)
    else:
        progress.begin(stage)
    # The line by which it ended, which minutes or a target may have done before its iterations.
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
    """The command line as a configuration."""
    arguments = own_arguments()
    if "--encoder=list" in arguments or ("--encoder", "list") in pairwise(arguments):
        return EncodersConfig()
    if any(each.split("=")[0] == "--recipe" for each in arguments):
        return parse(RecipeConfig, PROGRAM, arguments)
    return parse_training(arguments)


def parse_training(arguments: list[str]) -> TrainConfig | EncodersConfig:
    """A task's options; those of a resumed run or of --config are defaults.

    Raises:
        UserError: if the arguments, the run or the file is wrong.
    """
    names = {word.partition("=")[0] for word in arguments}
    if not names & {"--resume", "--config"} or names & {"-h", "--help"}:
        return parse(Command, PROGRAM, arguments, description=DESCRIPTION)  # type: ignore[arg-type]
    task, options = "", list(arguments)
    if options[0] in KINDS:
        task = options.pop(0)
    if "--resume" in names:
        folder = parse_known(ResumeConfig, PROGRAM, options).out
        config = config_of_run(folder)
        if task not in ("", config.task):
            raise UserError(f"{folder}: a run of task {config.task}, not {task}")
    else:
        file = parse_known(FileConfig, PROGRAM, options).config
        config = config_of_file(file, KINDS[task] if task else None)
    return parse(type(config), f"{PROGRAM} {config.task}", options, default=config)


def closing(config: TrainConfig, run: Run) -> str:
    """Summary of a finished run, and commands that show it."""
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
        f"as a film: {trial} --episodes 1 --video film.mp4\n"
        f"next: {trial}"
    )


if __name__ == "__main__":
    main()
