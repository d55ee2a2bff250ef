"""From run folders to networks: what has been trained, ready to run or to export."""

from __future__ import annotations

import json
from pathlib import Path

from pixelgait.policies.high_level import HighLevel
from pixelgait.policies.rollouts import make_high_level, set_weights
from pixelgait.policies.runs import Run, load_checkpoint
from pixelgait.robot.errors import UserError
from pixelgait.robot.low_level import WEIGHTS, LinearLowLevel
from pixelgait.robot.spec import A1


def trained_low_level(folder: Path) -> LinearLowLevel:
    """The best low level of a run, observation normalisation folded in.

    Raises:
        UserError: the folder holds no run of a low level.
    """
    best = load_checkpoint(folder / "best.npz")
    if best.weights.size != WEIGHTS:
        raise UserError(f"{folder}: {best.weights.size} weights, a low level has {WEIGHTS}")
    return best.statistics.fold_into(LinearLowLevel.from_weights(A1, best.weights))


def trained_high_level(folder: Path) -> HighLevel:
    """The best high level of a run.

    Raises:
        UserError: the folder holds no run of a high level.
    """
    if not (folder / "config.json").exists():
        raise UserError(f"{folder}: not a run folder, config.json is missing")
    config = Run(folder).config
    if config["task"] != "course":
        raise UserError(f"{folder}: a run of task {config['task']}, a high level needs course")
    high_level = make_high_level(config["encoder"], seed=0)
    set_weights(high_level, load_checkpoint(folder / "best.npz").weights)
    return high_level


def provenance_of(folder: Path) -> dict[str, object]:
    """Where a run's weights came from: configuration, commit, iterations, best validation."""
    best = load_checkpoint(folder / "best.npz")
    return {
        "config": Run(folder).config,
        "git": json.loads((folder / "git.json").read_text()),
        "iterations": best.iteration,
        "validation_return": best.best_score,
    }
