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
from typing import Any

from pixelgait.policies.runs.run import GIT
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json

FILE = "recipe.txt"
CALIBRATE = "calibrate"


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of a recipe."""

    folder: Path
    line: str  # as it is written, without comment
    arguments: list[str]  # task and options, without --out
    calibrate: bool = False  # afterwards

    @property
    def fits(self) -> bool:
        """Whether it is fitted by gradient, which a device may do."""
        return self.arguments[0] == "imitate"


def read_recipe(name: str, out: Path) -> list[Stage]:
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
    stages: list[Stage] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            written = shlex.split(line, comments=True)
            folders = [str(stage.folder) for stage in stages]
            words = [word.format("", *folders) for word in written]  # the first is {1}
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise UserError(f"{path}:{number}: {error}") from None
        if words == [CALIBRATE] and stages:
            stages[-1] = replace(stages[-1], calibrate=True)
        elif words:
            folder = out / f"{len(stages) + 1}-{words[0]}"
            stages.append(Stage(folder, shlex.join(written), words))
    if not stages:
        raise UserError(f"{path}: a recipe without lines")
    return stages


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
