"""Trained networks, from run folders: ready to run or to export."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from pixelgait.policies.high_level import (
    Architecture,
    HighLevelNetwork,
    make_high_level,
    set_weights,
)
from pixelgait.policies.low_level import searched_low_level
from pixelgait.policies.runs import Run, load_checkpoint
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.errors import UserError
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel


def find_run(path: Path, level: str) -> Path:
    """The run folder of a level: the path itself, or what lies beside the bundle of that name.

    Raises:
        UserError: there is none.
    """
    for folder in (path, path / level, SHIPPED / path / level):
        if (folder / "config.json").is_file():
            return folder
    shipped = sorted(folder.parent.name for folder in SHIPPED.glob(f"*/{level}"))
    raise UserError(
        f"{path}: not a run folder, config.json is missing; nor a bundle with a {level} run beside "
        f"it (shipped: {', '.join(shipped)})"
    )


def trained_low_level(folder: Path) -> LinearLowLevel:
    """The best low level of a run, observation normalisation folded in.

    Raises:
        UserError: the folder holds no run of a low level.
    """
    if (task := _task(folder)) in ("imitate", "course"):
        raise UserError(f"{folder}: a run of task {task}, which trains no low level")
    best = load_checkpoint(folder / "best.npz")
    mirror = bool(Run(folder).config.get("mirror"))
    return searched_low_level(best.weights, best.normaliser, mirror)


def trained_high_level(folder: Path) -> HighLevelNetwork:
    """The best high level of a run.

    Raises:
        UserError: the folder holds no run of a high level.
    """
    if (task := _task(folder)) in ("walk", "follow"):
        raise UserError(f"{folder}: a run of task {task}, which trains no high level")
    high_level = make_high_level(_architecture(Run(folder).config), 0)
    weights = load_checkpoint(folder / "best.npz").weights
    set_weights(high_level, weights[:-LOW_LEVEL_WEIGHTS] if task == "joint" else weights)
    return high_level


def _architecture(config: dict[str, Any]) -> Architecture:
    """Of a run's high level; what its configuration does not name it has not."""
    known = [each.name for each in fields(Architecture)]
    return Architecture(**{name: config[name] for name in known if name in config})


def _task(folder: Path) -> str:
    if not (folder / "config.json").exists():
        raise UserError(f"{folder}: not a run folder, config.json is missing")
    return str(Run(folder).config["task"])


def provenance_of(folder: Path) -> dict[str, object]:
    """Where a run's weights came from: configuration, commit, iterations, best validation."""
    best = load_checkpoint(folder / "best.npz")
    return {
        "config": Run(folder).config,
        "git": json.loads((folder / "git.json").read_text()),
        "iterations": best.iteration,
        "validation_return": best.best_score,
    }
