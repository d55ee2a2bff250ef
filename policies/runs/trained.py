"""Trained networks, loaded from run folders."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pixelgait.policies.high_level import (
    Architecture,
    HighLevelNetwork,
    flat_weights,
    make_high_level,
    set_weights,
)
from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.runs.run import CONFIG, GIT, SCENES, Run, load_checkpoint, robot_of
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel, shape_with
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.spec import CameraMount, RobotSpec
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.registry import moved_scene

USUAL_SCENE = ObstacleCourse.name  # default of pixelgait-train and pixelgait-eval
FOLLOW = "--task follow --scene flat"
SWITCHES = ("goal", "ahead", "approach", "map")  # options of a network that are on or off
# Evaluation options of a low level alone, by the task that trained it.
TRIALS = {"walk": "--scene flat", "follow": FOLLOW, "joint": FOLLOW}


def trained_low_level(folder: Path) -> LinearLowLevel:
    """The best low level of a run, normaliser folded in.

    Raises:
        UserError: if the folder holds no run of a low level.
    """
    if (task := _task(folder)) in ("imitate", "course"):
        raise UserError(f"{folder}: a run of task {task}, which trains no low level")
    best = load_checkpoint(folder / "best.npz")
    size, needed = best.weights.size, shape_with(best.normaliser.mean.size).weights
    if size < needed or (task != "joint" and size > needed):
        raise UserError(f"{folder}: {size} weights, a low level has {needed}")
    mirror = bool(Run(folder).config.get("mirror"))
    return searched_low_level(robot_of(folder), best.weights, best.normaliser, mirror)


def trained_mount(folder: Path, robot: RobotSpec) -> CameraMount:
    """The camera's mount in a high level's training; the robot's own if it learned on another."""
    config = Run(folder).config
    if robot_of(folder).name != robot.name:
        return robot.camera
    names = {"position_m": "camera", "pitch_down_rad": "pitch", "vertical_fov_rad": "camera_fov"}
    given = {field: config.get(name) for field, name in names.items()}
    if given["position_m"] is not None:
        given["position_m"] = tuple(given["position_m"])
    return replace(robot.camera, **{k: v for k, v in given.items() if v is not None})


def body_of(folder: Path) -> str:
    """The simulator of a run, or mixture; PyBullet if the run names none."""
    return str(Run(folder).config.get("body", "pybullet"))


def trained_high_level(folder: Path) -> HighLevelNetwork:
    """The best high level of a run.

    Raises:
        UserError: if the folder holds no run of a high level.
    """
    if (task := _task(folder)) in ("walk", "follow"):
        raise UserError(f"{folder}: a run of task {task}, which trains no high level")
    try:
        high_level = make_high_level(_architecture(Run(folder).config), 0)
    except (TypeError, ValueError) as error:
        raise UserError(f"{folder / CONFIG}: encoder or memory: {error}") from None
    weights = load_checkpoint(folder / "best.npz").weights
    weights = weights[:-LOW_LEVEL_WEIGHTS] if task == "joint" else weights
    if weights.size != (needed := flat_weights(high_level).size):
        raise UserError(f"{folder}: {weights.size} weights, its encoder and head have {needed}")
    set_weights(high_level, weights)
    return high_level


def _architecture(config: dict[str, Any]) -> Architecture:
    """Architecture of a run's high level; options that its configuration lacks are off."""
    known = [each.name for each in fields(Architecture)]
    return Architecture(**{name: config[name] for name in known if name in config})


def network_options(config: dict[str, Any]) -> str:
    """The options of a run's high level; empty if it has none."""
    named = [f"--{name} {config[name]}" for name in ("encoder", "memory") if config.get(name)]
    return " ".join([*named, *(f"--{name}" for name in ("goal", "ahead") if config.get(name))])


def _task(folder: Path) -> str:
    return str(Run(folder).config["task"])


def provenance_of(folder: Path) -> dict[str, object]:
    """Provenance of a run's weights: configuration, commit, iterations, best validation."""
    best = load_checkpoint(folder / "best.npz")
    return {
        "config": Run(folder).config,
        "git": read_json(folder / GIT),
        "iterations": best.iteration,
        "validation_return": best.best_score,
    }


def trial_line(bundle: Path, options: str = "") -> str:
    """Command line that evaluates a bundle or a run."""
    return f"pixelgait-eval {shlex.quote(str(bundle))} {options}".rstrip()


def trial_in(scene: str) -> str:
    """Evaluation options for the scene that a high level was trained in."""
    return "" if scene == USUAL_SCENE else f"--scene {shlex.quote(scene)}"


def trial_of(low_level: Path, high_level: Path | None) -> str:
    """Evaluation options for a bundle made of these runs.

    Without the scene if the run has no copy of its file any more.
    """
    if high_level is None:
        return TRIALS.get(_task(low_level), "")
    files: list[Path] = []

    def in_run(path: Path) -> Path:
        files.append(high_level / SCENES / path)
        return files[-1]

    options = trial_in(moved_scene(str(Run(high_level).config.get("scene", USUAL_SCENE)), in_run))
    return options if all(file.exists() for file in files) else ""
