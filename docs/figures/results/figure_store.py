"""Figures that were measured, kept in one file beside the pages that show them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pixelgait.policies.evaluation.baselines import behaviour_sha256, source_sha256
from pixelgait.policies.evaluation.evaluate import evaluation_key
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.scenes.houses import indoor, path_length
from pixelgait.sim.scenes.registry import HOUSES
from pixelgait.sim.tasks import navigate
from pixelgait.sim.world import traversability

Figures = dict[str, Any]  # as pixelgait-eval writes them; `episodes` is their number
REQUESTED = "requested_episodes"  # all of them are there: `episodes`
CODE = "baseline_sha256"  # of a baseline that decides by itself, instead of weights
RANGES = "randomisation_sha256"  # of those that randomised robots are drawn from
MEASURES = "measures_sha256"  # of the code that says how long ways are, walked and shortest
WHO = ("sha256", CODE, RANGES, MEASURES)
DEFINED = "defined"  # by what else than its names a cell of a table is what it is


def read_figures(path: Path) -> list[Figures]:
    """A list of figures in a file.

    Raises:
        UserError: there is something else in it.
    """
    try:
        return [dict(each) for each in json.loads(path.read_text())]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: no list of figures ({error})") from None


@contextmanager
def rewriting(path: Path) -> Iterator[list[Figures]]:
    """The figures in a file as they are by now, to be changed; at the end they are its content.

    Others that measure into the same folder wait meanwhile: nobody writes over what they have kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        kept = read_figures(path) if path.exists() else []
        yield kept
        write_atomic(path, json_bytes(kept))
    finally:
        os.close(folder)


class FigureStore:
    """Figures by what was evaluated, policies by their weights: new ones are other policies.

    So is other code of a baseline that decides by itself, robots randomised within other ranges
    are other robots, and ways that are measured otherwise are other ways: what was kept without
    knowing that is out of date. `also` are files of other pages, in which the same may have been
    measured.

    Raises:
        UserError: the file is there, but does not hold such figures.
    """

    def __init__(self, path: Path, *also: Path) -> None:
        self.path = path
        self._kept = read_figures(path) if path.exists() else []
        self._elsewhere = [each for file in also if file.exists() for each in read_figures(file)]
        self._bundles: dict[str, Bundle] = {}  # by name: a table asks for each many times

    def find(self, evaluation: EvalConfig) -> Figures | None:
        """Figures of this evaluation, by whatever version of the code."""
        wanted = self._question(evaluation)
        known = (*self._kept, *self._elsewhere)
        return next((each for each in known if wanted.items() <= each.items()), None)

    def keep(self, evaluation: EvalConfig, figures: Figures) -> Figures:
        """Keep what `evaluate` returned, in place of the same of other weights."""
        wanted = self._question(evaluation)
        kept = {**_identity(evaluation), **figures, "episodes": len(figures["episodes"])}
        kept.pop(REQUESTED, None)
        anew = {k: v for k, v in wanted.items() if k not in WHO}
        with rewriting(self.path) as known:
            others = [each for each in known if not anew.items() <= each.items()]
            known[:] = sorted([*others, kept], key=lambda each: json.dumps(each, sort_keys=True))
        self._kept = known
        return kept

    def _question(self, evaluation: EvalConfig) -> Figures:
        """What is evaluated, of which weights or code, on how many episodes."""
        if (name := evaluation.bundle) not in self._bundles:
            self._bundles[name] = load_bundle(name)
        what = evaluation_key(evaluation, self._bundles[name])
        del what[REQUESTED]
        return {**what, **_identity(evaluation), "episodes": evaluation.episodes}


def _identity(evaluation: EvalConfig) -> Figures:
    """By what an evaluation is the same, besides its options and weights."""
    found: Figures = {}
    if code := evaluation.baseline and source_sha256(evaluation.baseline, evaluation.scene):
        found[CODE] = code
    if evaluation.scene.partition(":")[0] in HOUSES:
        found[MEASURES] = behaviour_sha256(navigate, path_length, indoor, traversability)
    if evaluation.randomise:
        ranges = json.dumps(asdict(Randomisation()), sort_keys=True)
        found[RANGES] = hashlib.sha256(ranges.encode()).hexdigest()
    return found


def find_cell(kept: Sequence[Figures], cell: Figures) -> Figures | None:
    """Figures of a cell by its names and its definition: with another one it is another cell."""
    return next((each for each in kept if cell.items() <= each.items()), None)


def keep_cell(path: Path, kept: list[Figures], cell: Figures, figures: Figures) -> None:
    """Keep figures of a cell, in place of those of the same as it was defined before."""
    named = {name: value for name, value in cell.items() if name != DEFINED}
    keep_named(path, kept, named, {**cell, **figures, **git_state()})


def keep_named(path: Path, kept: list[Figures], named: Figures, figures: Figures) -> None:
    """Keep figures in place of those with these names; `kept` becomes all that is in the file."""
    with rewriting(path) as known:
        known[:] = [each for each in known if not named.items() <= each.items()] + [figures]
    kept[:] = known
