"""Store of measured figures: JSON files beside the pages that show them."""

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

from pixelgait.policies.evaluation.baselines import Baseline, files_sha256, source_sha256
from pixelgait.policies.evaluation.evaluate import evaluation_key
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import Bundle, load_bundle
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.sim.body.randomisation import Randomisation
from pixelgait.sim.scenes.registry import HOUSES

Figures = dict[str, Any]  # as pixelgait-eval writes them; `episodes` is their number
REQUESTED = "requested_episodes"
CODE = "baseline_sha256"  # of the code of a baseline without weights
RANGES = "randomisation_sha256"  # of the ranges of domain randomisation
MEASURES = "measures_sha256"  # of the code that measures paths, walked and shortest
VERSIONS = ("sha256", CODE, RANGES, MEASURES)
DEFINED = "defined"  # key of a cell's definition, besides its names


def read_figures(path: Path) -> list[Figures]:
    """The list of figures in a file.

    Raises:
        UserError: if the file holds something else.
    """
    try:
        return [dict(each) for each in json.loads(path.read_text())]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: no list of figures ({error})") from None


@contextmanager
def rewriting(path: Path) -> Iterator[list[Figures]]:
    """The current figures of a file, written back at the end. Other writers wait meanwhile."""
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
    """Figures by evaluation and by version: weights, baseline code, ranges, measuring code.

    Figures of another version are out of date: they are not found, and `keep` replaces them.
    `also` names files of other pages that may hold the same figures.

    Raises:
        UserError: if a file holds no figures.
    """

    def __init__(self, path: Path, *also: Path) -> None:
        self.path = path
        self._kept = read_figures(path) if path.exists() else []
        self._elsewhere = [each for file in also if file.exists() for each in read_figures(file)]
        self._bundles: dict[str, Bundle] = {}  # by name: a table asks for each many times

    def find(self, evaluation: EvalConfig, run: str | None = None) -> Figures | None:
        """Figures of an evaluation, if they are known.

        `run` names another training run of the evaluation's bundle, as iap/seed-0. Its weights are
        not in the repository, so they are not compared.
        """
        wanted = self._question(evaluation)
        if run is not None:
            del wanted["sha256"]
            wanted["bundle"] = run
        known = (*self._kept, *self._elsewhere)
        return next((each for each in known if wanted.items() <= each.items()), None)

    def keep(self, evaluation: EvalConfig, figures: Figures) -> Figures:
        """Keep the figures of `evaluate`, in place of those of other versions."""
        wanted = self._question(evaluation)
        kept = {**versions(**_versioned(wanted)), **figures, "episodes": len(figures["episodes"])}
        kept.pop(REQUESTED, None)
        anew = {k: v for k, v in wanted.items() if k not in VERSIONS}
        with rewriting(self.path) as known:
            others = [each for each in known if not anew.items() <= each.items()]
            known[:] = sorted([*others, kept], key=_order)
        self._kept = known
        return kept

    def _question(self, evaluation: EvalConfig) -> Figures:
        """Options, versions and number of episodes of an evaluation."""
        if (name := evaluation.bundle) not in self._bundles:
            self._bundles[name] = load_bundle(name)
        key = evaluation_key(evaluation, self._bundles[name])
        del key[REQUESTED]
        return {**key, **versions(**_versioned(key)), "episodes": evaluation.episodes}


def _order(figures: Figures) -> str:
    """Key of the order in a file: independent of versions, so that a restamp moves nothing."""
    named = {name: value for name, value in figures.items() if name not in VERSIONS}
    return json.dumps(named, sort_keys=True)


def _versioned(figures: Figures) -> Figures:
    return {name: figures[name] for name in ("baseline", "scene", "randomise")}


def versions(baseline: Baseline | None, scene: str, randomise: bool) -> Figures:
    """SHA-256 of the code and the ranges that an evaluation depends on, besides the weights."""
    found: Figures = {}
    if code := baseline and source_sha256(baseline):
        found[CODE] = code
    if scene.partition(":")[0] in HOUSES:
        world = ("sim.world.traversability", "sim.world.map_kernels")
        found[MEASURES] = files_sha256("sim.tasks.navigate", "sim.scenes.houses.indoor", *world)
    if randomise:
        ranges = json.dumps(asdict(Randomisation()), sort_keys=True)
        found[RANGES] = hashlib.sha256(ranges.encode()).hexdigest()
    return found


def restamp(path: Path) -> int:
    """Give the figures of a file the hashes of the present code; returns how many changed.

    Figures that were stored before such hashes were, stay as they are.
    """
    changed = 0
    with rewriting(path) as kept:
        for figures in kept:
            before = dict(figures)
            present = versions(**_versioned(figures))
            figures.update({name: value for name, value in present.items() if name in figures})
            changed += figures != before
    return changed


def find_cell(kept: Sequence[Figures], cell: Figures) -> Figures | None:
    """Figures of a cell with these names and this definition."""
    return next((each for each in kept if cell.items() <= each.items()), None)


def keep_cell(path: Path, kept: list[Figures], cell: Figures, figures: Figures) -> None:
    """Keep figures of a cell, in place of those of any former definition."""
    named = {name: value for name, value in cell.items() if name != DEFINED}
    keep_named(path, kept, named, {**cell, **figures, **git_state()})


def keep_named(path: Path, kept: list[Figures], named: Figures, figures: Figures) -> None:
    """Keep figures in place of those with these names; `kept` becomes the file's content."""
    with rewriting(path) as known:
        known[:] = [each for each in known if not named.items() <= each.items()] + [figures]
    kept[:] = known
