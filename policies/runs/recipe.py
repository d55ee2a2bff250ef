"""Recipes: files of pixelgait-train lines that lead to a policy, one line per run.

    # from zero weights
    follow --mirror --iterations 60
    calibrate
    follow --mirror --start {1} --iterations 13 --es.noise 0.012

Every line but `calibrate` is a run; {1} stands for the folder of the first.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

from pixelgait.policies.runs.run import GIT
from pixelgait.robot.bundle import SHIPPED, shipped_names
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import file_sha256, json_bytes, read_json, write_atomic

FILE = "recipe.txt"
PROGRESS = "recipe.json"
CALIBRATE = "calibrate"


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """One run of a recipe."""

    folder: Path
    place: str  # FILE:LINE
    line: str  # as written, without comment
    arguments: list[str]  # task and options, without --out
    needs: tuple[Path, ...] = ()  # folders of the runs that the line names
    calibrate: bool = False  # afterwards

    @property
    def fits(self) -> bool:
        """Whether it fits by gradient, on --device."""
        return self.arguments[0] == "imitate"


def read_recipe(name: str, out: Path) -> list[RecipeStep]:
    """The steps of a shipped policy's recipe, or of a file; their folders lie below `out`.

    Raises:
        UserError: if there is no such recipe, or a line names a run that does not precede it.
    """
    path = SHIPPED / name / FILE if (SHIPPED / name / FILE).is_file() else Path(name)
    if not path.is_file():
        shipped = ", ".join(shipped_names(FILE))
        raise UserError(f"recipe '{name}': no such file, and none shipped ({shipped})")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"recipe {path}: expected lines of text") from None
    stages: list[RecipeStep] = []
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}:{number}"
        try:
            written = shlex.split(line, comments=True)
            folders = [str(stage.folder) for stage in stages]
            words = [word.format("", *folders) for word in written]  # the first is {1}
            needs = tuple(stages[number - 1].folder for number in _numbers(written))
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise UserError(f"{place}: {error}") from None
        if words == [CALIBRATE] and stages:
            stages[-1] = replace(stages[-1], calibrate=True)
        elif words:
            folder = out / f"{len(stages) + 1}-{words[0]}"
            stages.append(RecipeStep(folder, place, shlex.join(written), words, needs))
    if not stages:
        raise UserError(f"{path}: expected lines of pixelgait-train, the recipe has none")
    return stages


def _numbers(words: list[str]) -> list[int]:
    """Numbers of the runs that a line names, as {1}; raises LookupError for {0} and {}."""
    names = {name for word in words for _, name, _, _ in Formatter().parse(word)} - {None}
    if names & {"", "0"}:
        raise LookupError("the first run is {1}")
    return sorted(int(name) for name in names if name)


class Progress:
    """Progress of a recipe, in `recipe.json` of its folder.

    For every run: the line by which it ended, whether it was calibrated since, and the weights of
    earlier runs it began with (SHA-256 of their `best.npz`).
    """

    def __init__(self, out: Path) -> None:
        self.path = out / PROGRESS

    def of(self, stage: RecipeStep) -> dict[str, Any]:
        """Record of a run; empty if it has not begun."""
        return dict(self._known().get(stage.folder.name, {}))

    def note(self, stage: RecipeStep, **figures: Any) -> None:
        """Update the record of a run."""
        known = {**self._known(), stage.folder.name: {**self.of(stage), **figures}}
        write_atomic(self.path, json_bytes(known))

    def begin(self, stage: RecipeStep) -> None:
        """Record that a run begins, with the present weights of the runs it names."""
        self.note(stage, line=None, calibrated=False, began_with=_weights(stage))

    def require_same_start(self, stage: RecipeStep) -> None:
        """Raises UserError if a run that it began from has other weights by now."""
        began_with, now = self.of(stage).get("began_with", {}), _weights(stage)
        for name, weights in began_with.items():
            if now.get(name, weights) != weights:
                raise UserError(
                    f"{stage.folder} began with other weights of {name}: remove it to begin anew"
                )

    def _known(self) -> dict[str, Any]:
        return read_json(self.path) if self.path.exists() else {}


def _weights(stage: RecipeStep) -> dict[str, str]:
    """SHA-256 of the best weights of the runs that a step names, by folder name."""
    return {folder.name: file_sha256(folder / "best.npz") for folder in stage.needs}


def say_where_exact(name: str) -> None:
    """Print the commit a shipped policy was trained at, if it is not this one."""
    now = git_state()
    for path in (SHIPPED / name).glob(f"*_level/{GIT}"):
        shipped = read_json(path)["commit"]
        if shipped != now["commit"] or now["modified"]:
            print(
                f"{name} was trained at commit {shipped[:7]}, this is {_called(now)}: "
                "the same lines may lead to other weights"
            )


def _called(state: dict[str, Any]) -> str:
    """A git state in words."""
    if state["commit"] is None:
        return "an installed package"
    return f"{state['commit'][:7]}{', modified' if state['modified'] else ''}"
