"""Run folders: configuration, git state, checkpoints, learning curve; all writes are atomic."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.curve_picture import PICTURE
from pixelgait.robot.bundle import CONTRACT, FILES, SHIPPED, shipped_names
from pixelgait.robot.cli.processes import interrupt_later
from pixelgait.robot.cli.provenance import git_state, version
from pixelgait.robot.control.low_level import OMNI, PLANAR
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
from pixelgait.robot.spec import A1, Array, RobotSpec, find_robot, moved_robot

CONFIG, GIT, CURVE, BEST = "config.yaml", "git.json", "curve.json", "best.npz"
LOW_LEVEL, DELAYS, SCENES = "low_level", "delays.json", "scenes"  # copies in the run folder
BEGUN = {CONFIG, GIT, LOW_LEVEL, DELAYS, SCENES}  # written before the first checkpoint
# Files of a run or a bundle, which no output may overwrite.
KEPT = (CONFIG, GIT, CURVE, BEST, "last.npz", CONTRACT, *FILES)
MOST_NAMED = 9  # runs that an error message lists

# Arrays of a checkpoint file besides the trainer's own.
COMMON = ("weights", "count", "mean", "squares", "iteration", "best_score", "curve")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything that training needs to continue exactly where it was."""

    weights: Array
    normaliser: Normaliser
    iteration: int
    curve: list[dict[str, float]]  # figures, one row per iteration
    best_score: float
    state: dict[str, Array]  # further arrays of the trainer, by its own names

    @classmethod
    def first(cls, weights: Array, normaliser: Normaliser, **state: Array) -> Checkpoint:
        """A checkpoint before the first iteration."""
        return cls(weights, normaliser, 0, [], -np.inf, state)

    def check(self) -> None:
        """Raises ValueError if the arrays cannot be those of a policy."""
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all():
            raise ValueError("its weights are not finite numbers in a row")
        for name, values in self.state.items():
            if not np.isfinite(values).all():
                raise ValueError(f"its {name} are not finite numbers")
        for values in (self.normaliser.mean, self.normaliser.squares):
            fits = values.shape in ((PLANAR.inputs,), (OMNI.inputs,))
            if not fits or not np.isfinite(values).all():
                raise ValueError(f"its normaliser is not of {PLANAR.inputs} finite inputs")
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
            UserError: if the folder already holds a run, or other files.
        """
        if (folder / "last.npz").exists():
            again = f"pixelgait-train --out {folder} --resume"
            raise UserError(f"{folder} already holds a run; {again} continues it")
        remove_leftovers(folder, *KEPT, DELAYS, PICTURE)
        held = {path.name for path in folder.iterdir()} - {LOCK} if folder.exists() else set()
        if CONFIG in held and cls(folder).config:  # a run killed before its first checkpoint
            held -= BEGUN
        if held:
            raise UserError(f"{folder} holds other files ({min(held)}), choose another folder")
        _remove_copies(folder)
        write_atomic(folder / CONFIG, yaml_bytes(config))
        write_atomic(folder / GIT, json_bytes({**git_state(), "version": version()}))
        return cls(folder)

    @classmethod
    def begun(cls, folder: Path, config: dict[str, Any]) -> Run:
        """An existing run, to be continued with the configuration it was started with.

        Raises:
            UserError: if there is no run, or a setting in `config` differs.
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
        """Record the new budget, and the code's version if it has changed."""
        write_atomic(self.folder / CONFIG, yaml_bytes({**self.config, **budget}))
        remove_leftovers(self.folder, *KEPT, DELAYS, PICTURE)
        self._note_code()

    def _note_code(self) -> None:
        """Record further versions of the code under `resumed` of git.json."""
        begun = read_json(self.folder / GIT)
        later = begun.pop("resumed", [])
        now = {**git_state(), "version": version()}
        if now != [begun, *later][-1]:
            noted = {**begun, "resumed": [*later, now]}
            write_atomic(self.folder / GIT, json_bytes(noted))
            changed = " with changes" if now["modified"] else ""
            other = f"commit {now['commit']}{changed}, it began at {begun['commit']}"
            print(f"warning: {self.folder} continues at {other}", file=sys.stderr)

    def save(self, checkpoint: Checkpoint, name: str = "last") -> None:
        """Write a checkpoint; with the last one also the learning curve."""
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
        if name == "last":  # the best ends earlier, and may be calibrated long after
            self.save_curve(checkpoint)

    def save_curve(self, checkpoint: Checkpoint) -> None:
        """Write the learning curve, which the checkpoint holds as well, as a file of its own."""
        write_atomic(self.folder / CURVE, json_bytes(checkpoint.curve))

    def load(self, name: str = "last") -> Checkpoint:
        return load_checkpoint(self.folder / f"{name}.npz")

    def is_done(self, iterations: int) -> bool:
        """Whether all iterations are done and all files of a finished run are there.

        A run killed right after its last checkpoint lacks the newest curve, the best, or the
        picture.

        Raises:
            UserError: if there is no checkpoint.
        """
        last, curve = self.load(), self.folder / CURVE
        left = all((self.folder / name).exists() for name in ("best.npz", PICTURE))
        if last.iteration < iterations or not left:
            return False
        return curve.is_file() and curve.read_bytes() == json_bytes(last.curve)

    @property
    def config(self) -> dict[str, Any]:
        """Settings that the run was started with.

        Raises:
            UserError: if config.yaml is not that of a run.
        """
        config = read_yaml(self.folder / CONFIG)
        if not isinstance(config.get("task"), str):
            raise UserError(f"{self.folder / CONFIG}: names no task, not that of a training run")
        return config


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes a list in one line."""


_Dumper.add_representer(
    list, lambda dumper, values: dumper.represent_sequence("tag:yaml.org,2002:seq", values, True)
)


def yaml_bytes(content: Mapping[str, Any]) -> bytes:
    """Settings as YAML; tuples as lists."""
    plain = json.loads(json.dumps(content))
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False)
    return text.encode()


def read_yaml(path: Path) -> dict[str, Any]:
    """Settings of a YAML file.

    Raises:
        UserError: if the file is missing or damaged, or does not hold keys and values.
    """
    try:
        content = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as cause:
        raise UserError(f"{path}: not readable as YAML ({' '.join(str(cause).split())})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected keys and values (YAML)")
    return content


def write_arrays(path: Path, *, compressed: bool = True, **arrays: Any) -> None:
    """Write arrays as numpy's archive, atomically; Ctrl-C is deferred until then.

    The archive would report an interrupt as an error of its own.
    """
    save = np.savez_compressed if compressed else np.savez
    with interrupt_later(), replacing(path) as aside, aside.open("wb") as file:
        save(file, **arrays)


@contextmanager
def reading_arrays(file: Readable, what: str) -> Iterator[Any]:
    """Arrays of a file by `write_arrays`, by name, for a block that makes `what` of them.

    Raises:
        UserError: if the file is damaged, or the block raises an exception.
        OSError: if it cannot be read.
    """
    content = io.BytesIO(file.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as data:
            yield data
    except Exception as error:  # a damaged file raises many kinds in numpy, zipfile and zlib
        # numpy's advice to allow pickles does not apply: the file should hold none
        why = "" if "pickle" in str(error) else f" ({' '.join(str(error).split())})"
        raise UserError(f"{file}: not {what}{why}") from None


def checked_figures(row: Any) -> dict[str, float]:
    """Figures from JSON; raises ValueError unless they are an object of numbers."""
    if not isinstance(row, dict) or not all(type(each) in (int, float) for each in row.values()):
        raise ValueError(f"{row} are no figures by name")
    return row


def _remove_copies(folder: Path) -> None:
    """Remove the copies of a run without a checkpoint: the next run may not need them."""
    (folder / DELAYS).unlink(missing_ok=True)
    for name in (LOW_LEVEL, SCENES):
        if (folder / name).exists():
            shutil.rmtree(folder / name)


def read_run_config(folder: Path) -> dict[str, Any]:
    """Settings of a run that can be resumed.

    Raises:
        UserError: if there is no such run, or there are several.
    """
    if not (folder / "last.npz").exists():
        refuse_many(folder)
        raise UserError(f"{folder}: nothing to resume, there is no checkpoint last.npz")
    return Run(folder).config


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; no pickle involved.

    Raises:
        UserError: if the file is not a checkpoint, or holds NaN or infinity.
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
    """The run folder of a level: the path itself, or the run beside the bundle of that name.

    Raises:
        UserError: if there is none, or there are several.
    """
    for folder in (path / level, path, SHIPPED / path / level):
        if (folder / CONFIG).is_file():
            return folder
    refuse_many(path)
    raise UserError(
        f"{path}: not a run folder, {CONFIG} is missing; nor a bundle with a {level} run beside "
        f"it (shipped: {', '.join(shipped_names(level))})"
    )


def refuse_many(folder: Path) -> None:
    """Raises UserError, which names the runs, if a folder holds runs and is not one itself."""
    runs = sorted(str(file.parent) for file in folder.glob(f"*/{CONFIG}"))
    if runs and not any((folder / name).is_file() for name in (CONFIG, CONTRACT)):
        named = runs if len(runs) <= MOST_NAMED else [*runs[:MOST_NAMED], "..."]
        raise UserError(f"{folder} holds runs, name one of them: {', '.join(named)}")


def files_of(folder: Path) -> list[Path]:
    """Files of a run or bundle in this folder."""
    return [folder / name for name in KEPT]


def robot_of(folder: Path) -> RobotSpec:
    """The robot of a run; A1 if the run names none.

    Raises:
        UserError: if there is no such robot or run.
    """
    return find_robot(robot_name_of(folder))


def robot_name_of(folder: Path) -> str:
    """The name of a run's robot, or its robot file in the run; A1 if the run names none."""
    name = str(Run(folder).config.get("robot", A1.name))
    return moved_robot(name, lambda path: folder / SCENES / path)
