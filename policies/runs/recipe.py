"""Recipes: the lines of pixelgait-train that lead to a policy, one below the other in a file.

    # from zero weights
    follow --mirror --iterations 60
    calibrate
    follow --mirror --start {1} --iterations 13 --es.noise 0.012

Every line but `calibrate` is a run of its own; {1} stands for the folder of the first.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

from pixelgait.policies.runs.run import GIT
from pixelgait.robot.bundle import SHIPPED
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
    line: str  # as it is written, without comment
    arguments: list[str]  # task and options, without --out
    needs: tuple[Path, ...] = ()  # folders of the runs it names
    calibrate: bool = False  # afterwards

    @property
    def fits(self) -> bool:
        """Whether it is fitted by gradient, which a device may do."""
        return self.arguments[0] == "imitate"


def read_recipe(name: str, out: Path) -> list[RecipeStep]:
    """The stages of a shipped policy by its name, or of a file; their folders lie below `out`.

    Raises:
        UserError: there is no such recipe, or it calibrates nothing or names what is not there.
    """
    path = SHIPPED / name / FILE if (SHIPPED / name / FILE).is_file() else Path(name)
    if not path.is_file():
        shipped = sorted(file.parent.name for file in SHIPPED.glob(f"*/{FILE}"))
        raise UserError(f"recipe '{name}': no such file, and none shipped ({', '.join(shipped)})")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"recipe {path}: expected lines of text") from None
    stages: list[RecipeStep] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            written = shlex.split(line, comments=True)
            folders = [str(stage.folder) for stage in stages]
            words = [word.format("", *folders) for word in written]  # the first is {1}
            needs = tuple(stages[number - 1].folder for number in _numbers(written))
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise UserError(f"{path}:{number}: {error}") from None
        if words == [CALIBRATE] and stages:
            stages[-1] = replace(stages[-1], calibrate=True)
        elif words:
            folder = out / f"{len(stages) + 1}-{words[0]}"
            stages.append(RecipeStep(folder, shlex.join(written), words, needs))
    if not stages:
        raise UserError(f"{path}: a recipe without lines")
    return stages


def _numbers(words: list[str]) -> list[int]:
    """Of the runs that a line names, as {1}; raises LookupError for one that is none."""
    names = {name for word in words for _, name, _, _ in Formatter().parse(word)} - {None}
    if names & {"", "0"}:
        raise LookupError("the first run is {1}")
    return sorted(int(name) for name in names if name)


class Progress:
    """How far a recipe is, in `recipe.json` of its folder.

    Of every run: by which line it ended, whether it was calibrated since, and from which weights
    of earlier runs it began (SHA-256 of their `best.npz`).
    """

    def __init__(self, out: Path) -> None:
        self.path = out / PROGRESS

    def of(self, stage: RecipeStep) -> dict[str, Any]:
        """What is known of a run; empty if it has not begun."""
        return dict(self._known().get(stage.folder.name, {}))

    def note(self, stage: RecipeStep, **figures: Any) -> None:
        """Keep that of a run, beside what was known of it."""
        known = {**self._known(), stage.folder.name: {**self.of(stage), **figures}}
        write_atomic(self.path, json_bytes(known))

    def begin(self, stage: RecipeStep) -> None:
        """A run begins: from the weights that the runs it names have now."""
        self.note(stage, line=None, calibrated=False, began_with=_weights(stage))

    def require_same_start(self, stage: RecipeStep) -> None:
        """Raises UserError if a run it names, and began from, has other weights by now."""
        began_with, now = self.of(stage).get("began_with", {}), _weights(stage)
        for name, weights in began_with.items():
            if now.get(name, weights) != weights:
                raise UserError(
                    f"{stage.folder} began with other weights of {name}: remove it to begin anew"
                )

    def _known(self) -> dict[str, Any]:
        return read_json(self.path) if self.path.exists() else {}


def _weights(stage: RecipeStep) -> dict[str, str]:
    """Of the runs it names, by their folders' names."""
    return {folder.name: file_sha256(folder / "best.npz") for folder in stage.needs}


def say_where_exact(name: str) -> None:
    """Print which commit's weights a shipped policy's recipe leads to, if not to this one's."""
    now = git_state()
    for path in (SHIPPED / name).glob(f"*_level/{GIT}"):
        shipped = read_json(path)["commit"]
        if shipped != now["commit"] or now["modified"]:
            print(
                f"{name} was trained at commit {shipped[:7]}, this is {_called(now)}: "
                "the same lines may lead to other weights"
            )


def _called(state: dict[str, Any]) -> str:
    """What people call a git state."""
    if state["commit"] is None:
        return "an installed package"
    return f"{state['commit'][:7]}{', modified' if state['modified'] else ''}"
