"""Run folders: configuration, git state, checkpoints, learning curve. All writes are atomic."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.curve_picture import PICTURE
from pixelgait.robot.bundle import CONTRACT, FILES, SHIPPED
from pixelgait.robot.cli.processes import interrupt_later
from pixelgait.robot.cli.provenance import git_state, version
from pixelgait.robot.control.low_level import INPUT_SIZE
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import (
    LOCK,
    Readable,
    json_bytes,
    read_json,
    remove_leftovers,
    replacing,
    write_atomic,
)
from pixelgait.robot.spec import Array

CONFIG, GIT, CURVE = "config.json", "git.json", "curve.json"
LOW_LEVEL, DELAYS, SCENES = "low_level", "delays.json", "scenes"  # copies in the run folder
BEGUN = {CONFIG, GIT, LOW_LEVEL, DELAYS, SCENES}  # in it before its first checkpoint
# What makes a folder a run or a bundle, and may not be written over.
KEPT = (CONFIG, GIT, CURVE, "best.npz", "last.npz", CONTRACT, *FILES)
MOST_NAMED = 9  # of the runs in a folder that is none

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

    def check(self) -> None:
        """Raises ValueError if its arrays cannot be those of a policy."""
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all():
            raise ValueError("its weights are not finite numbers in a row")
        for name, values in self.state.items():
            if not np.isfinite(values).all():
                raise ValueError(f"its {name} are not finite numbers")
        for values in (self.normaliser.mean, self.normaliser.squares):
            if values.shape != (INPUT_SIZE,) or not np.isfinite(values).all():
                raise ValueError(f"its normaliser is not of {INPUT_SIZE} finite inputs")
        if self.iteration < 0 or not all("iteration" in row for row in self.curve):
            raise ValueError(f"its curve is not one of {self.iteration} iterations")


class Run:
    """One training run in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path, config: dict[str, Any]) -> Run:
        """A new run folder.

        Raises:
            UserError: the folder already holds a run, or something else.
        """
        if (folder / "last.npz").exists():
            again = f"pixelgait-train --out {folder} --resume"
            raise UserError(f"{folder} already holds a run; {again} continues it")
        remove_leftovers(folder, *KEPT, DELAYS, PICTURE)
        held = {path.name for path in folder.iterdir()} - {LOCK} if folder.exists() else set()
        if CONFIG in held and cls(folder).config:  # a run that was killed before it
            held -= BEGUN
        if held:
            raise UserError(f"{folder} holds something else ({min(held)}), choose another")
        _remove_copies(folder)
        write_atomic(folder / CONFIG, json_bytes(config))
        write_atomic(folder / GIT, json_bytes({**git_state(), "version": version()}))
        return cls(folder)

    @classmethod
    def begun(cls, folder: Path, config: dict[str, Any]) -> Run:
        """An existing run; what `config` says must be what it was started with.

        Raises:
            UserError: there is no run, or the configuration differs.
        """
        started = read_run_config(folder)
        wanted = json.loads(json_bytes(config))
        changed = [
            f"{key} = {started.get(key, 'unknown')}, cannot resume with {value}"
            for key, value in wanted.items()
            if key not in started or started[key] != value
        ]
        if changed:
            raise UserError(f"{folder}: started with {'; with '.join(changed)}")
        return cls(folder)

    def resume(self, budget: dict[str, Any]) -> None:
        """Note when it shall end now, and by which code it goes on, if that is another."""
        write_atomic(self.folder / CONFIG, json_bytes({**self.config, "budget": budget}))
        remove_leftovers(self.folder, *KEPT, DELAYS, PICTURE)
        self._note_code()

    def _note_code(self) -> None:
        """Beside the code that began it, under `resumed`, every other one."""
        begun = read_json(self.folder / GIT)
        later = begun.pop("resumed", [])
        now = {**git_state(), "version": version()}
        if now != [begun, *later][-1]:
            noted = {**begun, "resumed": [*later, now]}
            write_atomic(self.folder / GIT, json_bytes(noted))
            changed = " with changes" if now["modified"] else ""
            other = f"commit {now['commit']}{changed}, it began at {begun['commit']}"
            print(f"warning: {self.folder} goes on at {other}", file=sys.stderr)

    def save(self, checkpoint: Checkpoint, name: str = "last") -> None:
        """Write a checkpoint, with the last one the learning curve."""
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
        write_arrays(self.folder / f"{name}.npz", **arrays)
        if name == "last":  # the best may be calibrated long after, and ends earlier
            self.save_curve(checkpoint)

    def save_curve(self, checkpoint: Checkpoint) -> None:
        """Write the learning curve beside the checkpoint, which has it as well."""
        write_atomic(self.folder / CURVE, json_bytes(checkpoint.curve))

    def load(self, name: str = "last") -> Checkpoint:
        return load_checkpoint(self.folder / f"{name}.npz")

    def is_done(self, iterations: int) -> bool:
        """Whether so many iterations are, and all that a run leaves is there.

        Who was killed right behind the last checkpoint has left a shorter curve, or no best, or no
        picture.

        Raises:
            UserError: there is no checkpoint.
        """
        last, curve = self.load(), self.folder / CURVE
        left = all((self.folder / name).exists() for name in ("best.npz", PICTURE))
        if last.iteration < iterations or not left:
            return False
        return curve.is_file() and curve.read_bytes() == json_bytes(last.curve)

    @property
    def config(self) -> dict[str, Any]:
        """What the run was started with.

        Raises:
            UserError: config.json is not that of a run.
        """
        config = read_json(self.folder / CONFIG)
        if not isinstance(config.get("task"), str):
            raise UserError(f"{self.folder / CONFIG}: names no task, not that of a training run")
        return config


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write arrays as `numpy.savez_compressed`, atomically; Ctrl-C waits until they are written.

    An interrupt on its way to the archive would end as an error of the archive.
    """
    with interrupt_later(), replacing(path) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)


@contextmanager
def reading_arrays(file: Readable, what: str) -> Iterator[Any]:
    """Arrays as `write_arrays` writes them, by name, for a block that makes `what` of them.

    Raises:
        UserError: the file is damaged, or the block finds that it is something else.
        OSError: it cannot be read.
    """
    content = io.BytesIO(file.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as data:
            yield data
    except Exception as error:  # whatever numpy, zipfile or zlib trip over in a damaged file
        # numpy's advice to allow pickles is no advice for a file that should hold none
        why = "" if "pickle" in str(error) else f" ({' '.join(str(error).split())})"
        raise UserError(f"{file}: not {what}{why}") from None


def checked_figures(row: Any) -> dict[str, float]:
    """Figures as JSON holds them.

    Raises:
        ValueError: they are no object of numbers.
    """
    if not isinstance(row, dict) or not all(type(each) in (int, float) for each in row.values()):
        raise ValueError(f"{row} are no figures by name")
    return row


def _remove_copies(folder: Path) -> None:
    """Remove what a run without a checkpoint had copied: the next one may not need it."""
    (folder / DELAYS).unlink(missing_ok=True)
    for name in (LOW_LEVEL, SCENES):
        if (folder / name).exists():
            shutil.rmtree(folder / name)


def read_run_config(folder: Path) -> dict[str, Any]:
    """What a run that can go on was started with.

    Raises:
        UserError: there is no such run, or there are several.
    """
    if not (folder / "last.npz").exists():
        refuse_many(folder)
        raise UserError(f"{folder}: nothing to resume, there is no checkpoint last.npz")
    return Run(folder).config


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; no pickle involved.

    Raises:
        UserError: the file is not a checkpoint, or one of numbers that are none.
    """
    if not path.exists():
        raise UserError(f"{path}: there is no such checkpoint")
    with reading_arrays(path, "a checkpoint of a training run") as data:
        checkpoint = Checkpoint(
            weights=data["weights"],
            normaliser=Normaliser(float(data["count"]), data["mean"], data["squares"]),
            iteration=int(data["iteration"]),
            curve=[checked_figures(row) for row in json.loads(str(data["curve"]))],
            best_score=float(data["best_score"]),
            state={name: data[name] for name in data.files if name not in COMMON},
        )
        checkpoint.check()
    return checkpoint


def find_run(path: Path, level: str) -> Path:
    """The run folder of a level: the path itself, or what lies beside the bundle of that name.

    Raises:
        UserError: there is none, or there are several.
    """
    for folder in (path / level, path, SHIPPED / path / level):
        if (folder / CONFIG).is_file():
            return folder
    refuse_many(path)
    shipped = sorted(folder.parent.name for folder in SHIPPED.glob(f"*/{level}"))
    raise UserError(
        f"{path}: not a run folder, config.json is missing; nor a bundle with a {level} run beside "
        f"it (shipped: {', '.join(shipped)})"
    )


def refuse_many(folder: Path) -> None:
    """Raises UserError if a folder holds runs, as a recipe's does, and is none; it names them."""
    runs = sorted(str(file.parent) for file in folder.glob(f"*/{CONFIG}"))
    if runs and not any((folder / name).is_file() for name in (CONFIG, CONTRACT)):
        named = runs if len(runs) <= MOST_NAMED else [*runs[:MOST_NAMED], "..."]
        raise UserError(f"{folder} holds runs, name one of them: {', '.join(named)}")


def files_of(folder: Path) -> list[Path]:
    """Files that a run or bundle in this folder is made of."""
    return [folder / name for name in KEPT]
