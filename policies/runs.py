"""Run folders: configuration, git state, checkpoints, learning curve. All writes are atomic."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.runtime.provenance import git_state
from pixelgait.robot.spec import Array

# Arrays of a checkpoint file that are not the trainer's own.
COMMON = ("weights", "count", "mean", "squares", "iteration", "best_score", "curve")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything training needs to go on exactly where it was."""

    weights: Array
    normaliser: Normaliser
    iteration: int
    curve: list[dict[str, float]]  # figures, one row per iteration
    best_score: float
    state: dict[str, Array]  # what else the trainer needs, by its own names

    @classmethod
    def first(cls, weights: Array, normaliser: Normaliser, **state: Array) -> Checkpoint:
        """Before the first iteration."""
        return cls(weights, normaliser, 0, [], -np.inf, state)


class Run:
    """One training run in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, config: dict[str, Any]) -> Run:
        """A new run folder.

        Raises:
            UserError: the folder already holds a run.
        """
        if (folder / "last.npz").exists():
            raise UserError(f"{folder} already holds a run; --resume continues it")
        write_atomic(folder / "config.json", json_bytes(config))
        write_atomic(folder / "git.json", json_bytes(git_state()))
        return cls(folder)

    @classmethod
    def resume(cls, folder: Path, config: dict[str, Any]) -> Run:
        """An existing run; the configuration must be the one it was started with.

        Raises:
            UserError: there is no run, or the configuration differs.
        """
        if not (folder / "last.npz").exists():
            raise UserError(f"{folder}: nothing to resume, there is no checkpoint last.npz")
        started = json.loads((folder / "config.json").read_text())
        for key, value in json.loads(json_bytes(config)).items():
            if started.get(key) != value:
                raise UserError(
                    f"{folder}: started with {key} = {started.get(key)}, cannot resume with {value}"
                )
        return cls(folder)

    def save(self, checkpoint: Checkpoint, name: str = "last") -> None:
        """Write a checkpoint and the learning curve."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {
            "weights": checkpoint.weights,
            "count": checkpoint.normaliser.count,
            "mean": checkpoint.normaliser.mean,
            "squares": checkpoint.normaliser.squares,
            "iteration": checkpoint.iteration,
            "best_score": checkpoint.best_score,
            "curve": json.dumps(checkpoint.curve),
            **checkpoint.state,
        }
        np.savez_compressed(buffer, **arrays)
        write_atomic(self.folder / f"{name}.npz", buffer.getvalue())
        write_atomic(self.folder / "curve.json", json_bytes(checkpoint.curve))

    def load(self, name: str = "last") -> Checkpoint:
        return load_checkpoint(self.folder / f"{name}.npz")

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return config


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; no pickle involved.

    Raises:
        UserError: the file is not a checkpoint.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            state = {name: data[name] for name in data.files if name not in COMMON}
            return Checkpoint(
                weights=data["weights"],
                normaliser=Normaliser(float(data["count"]), data["mean"], data["squares"]),
                iteration=int(data["iteration"]),
                curve=json.loads(str(data["curve"])),
                best_score=float(data["best_score"]),
                state=state,
            )
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a checkpoint of a training run ({error})") from None
