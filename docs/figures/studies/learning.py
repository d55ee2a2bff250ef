"""Learning studies (`make learning`): patch sizes, mirror symmetry and encoders.

Every variant is trained by a command line, with the budget of its study. A finished run is not
repeated, a killed one is resumed. Figures: docs/learning.json; tables: docs/studies.md.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from docs.figures.results.figure_store import Figures, keep_named, read_figures
from docs.figures.results.result_tables import COLUMNS, ELSEWHERE
from docs.figures.studies import encoders, patches, symmetry
from docs.figures.studies.variant import Variant
from pixelgait.export.markdown_sections import require_markers, write_between
from pixelgait.policies.evaluation.evaluate import as_bundle, evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import Run, load_checkpoint
from pixelgait.robot.bundle import CONTRACT, HIGH_LEVEL, load_bundle
from pixelgait.robot.cli.options import Count, parse
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import file_sha256, read_json, require_writable, write_atomic
from pixelgait.sim.options import WorkerOptions

STUDIES = {study.STUDY: study for study in (patches, symmetry, encoders)}
TABLES = {part: study for study in STUDIES.values() for part in study.TABLES}
COURSES: dict[str, dict[str, Any]] = {
    **COLUMNS,
    **ELSEWHERE,
    "camera on its side": {"camera_roll": 90.0},
    "camera upside down": {"camera_roll": 180.0},
    "camera mirrored": {"faults": ("camera-mirrored:at=0,for=60",)},
}
FIGURES = ("success_rate", "collision_free_rate", "fall_rate", "distance_m")
TRAIN, MODULE = "pixelgait-train imitate", "pixelgait.policies.training.train"
TIMED = 300  # images
BUNDLE = "bundle"  # written by examples/ppo_steer.py
WEIGHTS = "weights_sha256"  # of the best checkpoint, which all figures of a row belong to


@dataclass(frozen=True)
class LearningConfig(WorkerOptions):
    """Train every variant with every seed, evaluate it, and write the tables."""

    page: Path = Path("docs/studies.md")
    """Gets the tables, each between its two markers."""
    figures: Path = Path("docs/learning.json")
    """Everything that was measured."""
    out: Path = Path("runs/learning")
    """Folder of the training runs."""
    studies: tuple[str, ...] = ()
    """Studies to measure (patches, mirror, encoders), or all."""
    variants: tuple[str, ...] = ()
    """Variants to measure, as the tables call them, or all."""
    courses: tuple[str, ...] = ()
    """Courses to evaluate on, or all."""
    seeds: Count = 3
    """Seeds of every variant, from 0 on."""
    measure: bool = True
    """Train and evaluate what is missing; otherwise only write what is known."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(LearningConfig, "make learning")))


def write_tables(config: LearningConfig) -> None:
    """Measure what is missing, run by run, and write what is known between the page's markers.

    Failed runs are reported at the end.

    Raises:
        UserError: if the page has no markers, a study or variant is unknown, a run has failed, or
            the file holds other figures.
    """
    for part in TABLES:
        require_markers(config.page, part, "learning")
    require_writable(config.figures)
    kept = read_figures(config.figures) if config.figures.exists() else []
    failed, chosen = [], list(_chosen(config))
    for variant, seed in chosen if config.measure else []:
        try:
            _measure(config, variant, seed, kept)
        except UserError as error:  # the others are worth hours
            failed.append(f"{variant.name}, seed {seed}: {error}")
            print(failed[-1], file=sys.stderr)
    for part, study in TABLES.items():
        rows = [each for each in kept if each["study"] == study.STUDY]
        lines = study.TABLES[part](rows) if rows else ["Not measured yet."]
        print("\n".join(lines))
        write_between(config.page, part, "learning", lines)
    if failed:
        raise UserError("; ".join(failed))


def _chosen(config: LearningConfig) -> Iterator[tuple[Variant, int]]:
    """Variants and seeds to measure: the first seed of all, then the second."""
    known = [variant for study in STUDIES.values() for variant in study.VARIANTS]
    for option, named, names in (
        ("studies", config.studies, list(STUDIES)),
        ("variants", config.variants, [variant.name for variant in known]),
        ("courses", config.courses, list(COURSES)),
    ):
        if not set(named) <= set(names):
            raise UserError(f"--{option}: choose from {', '.join(names)}")
    for seed in range(config.seeds):
        for variant in known:
            if config.studies and variant.study not in config.studies:
                continue
            if not config.variants or variant.name in config.variants:
                yield variant, seed


def _measure(config: LearningConfig, variant: Variant, seed: int, kept: list[Figures]) -> None:
    """Train one run if it is unknown, evaluate it where it was not yet, and keep its figures.

    A row belongs to one command and one set of weights. Evaluations of other weights are dropped.
    """
    key = {"study": variant.study, "variant": variant.name, "seed": seed}
    command = f"{variant.command} --seed {seed}"
    trained = {**key, "command": command}
    figures = next((each for each in kept if trained.items() <= each.items()), None)
    courses = [each for each in variant.walks if not config.courses or each in config.courses]
    if figures is not None and set(courses) <= set(figures["walking"]):
        return
    print(f"{variant.study}: {variant.name}, seed {seed}", flush=True)
    name = variant.name.replace(" ", "").replace("/", "-").replace(",", "-")
    run = config.out / f"{variant.study}-{name}-{seed}"
    _train(run, command, config)
    learned = _learned(run)
    if figures is None or figures.get(WEIGHTS) != learned[WEIGHTS]:
        figures = {**trained, **learned}
        keep_named(config.figures, kept, key, figures)
    if not courses:
        return
    with as_bundle(str(run / BUNDLE if (run / BUNDLE).exists() else run)) as bundle:
        figures["image_ms"] = _image_ms(bundle)
        for course in courses:
            if course not in figures["walking"]:
                figures["walking"][course] = _walked(config, bundle, course, variant.episodes)
                keep_named(config.figures, kept, key, figures)


def _learned(run: Path) -> Figures:
    """Learning curve and provenance of a training run."""
    if (run / BUNDLE).exists():
        return {**_by_ppo(run), WEIGHTS: file_sha256(run / BUNDLE / HIGH_LEVEL), "walking": {}}
    return {**_imitated(run), WEIGHTS: file_sha256(run / "best.npz"), "walking": {}}


def _imitated(run: Path) -> Figures:
    """A run of pixelgait-train: figures by round, of validation courses."""
    rounds = read_figures(run / "curve.json")
    courses = Run(run).config["dagger"]["courses"]
    return {
        **{name: read_json(run / "git.json")[name] for name in ("commit", "modified")},
        "weights": int(load_checkpoint(run / "best.npz").weights.size),
        "images": list(accumulate(round(courses * each["train/images"]) for each in rounds)),
        "gliding": [each["validation/success"] for each in rounds],
    }


def _by_ppo(run: Path) -> Figures:
    """A run of examples/ppo_steer.py: figures of the last 100 episodes, ten times to the end."""
    curve = read_figures(run / "curve.json")
    points = [curve[i] for i in np.linspace(0, len(curve) - 1, 10).round().astype(int)]
    provenance = read_json(run / BUNDLE / CONTRACT)["provenance"]
    return {
        **{name: provenance["export"][name] for name in ("commit", "modified")},
        "weights": provenance["high_level"]["weights"],
        "images": [each["images"] for each in points],
        "gliding": [each["success"] for each in points],
    }


def _image_ms(bundle: str) -> float:
    """Median time of the high level for an image [ms], on one thread of this machine."""
    high_level = load_bundle(bundle)
    images = np.random.default_rng(0).integers(0, 256, (8, *high_level.image_shape), np.uint8)
    times = []
    for i in range(TIMED):
        start = time.perf_counter()
        high_level.high_level(images[i % len(images)])
        times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def _walked(config: LearningConfig, bundle: str, course: str, episodes: int) -> Figures:
    """Figures of walking so many courses of a kind."""
    evaluation = EvalConfig(
        bundle,
        episodes=episodes,
        workers=config.workers,
        cluster=config.cluster,
        **COURSES[course],
    )
    figures = evaluate(evaluation)
    return {name: figures[name] for name in FIGURES}


def _train(run: Path, command: str, config: LearningConfig) -> None:
    """Train a run unless it is done; a killed run of pixelgait-train is resumed.

    Raises:
        UserError: if the folder holds a run of another command, or training failed.
    """
    former = run.with_name(f"{run.name}.command")
    if run.exists() and former.exists() and former.read_text() != command:
        raise UserError(f"{run}: expected a run by '{command}'; remove it, or choose another --out")
    write_atomic(former, command.encode())
    if _is_done(run):
        return
    words = [sys.executable, *shlex.split(command)[1:], "--out", str(run)]
    if command.startswith(TRAIN):
        options = ["--resume"] if (run / "last.npz").exists() else shlex.split(command)[2:]
        words = [sys.executable, "-m", MODULE, "imitate", "--out", str(run), *options]
        if config.cluster is not None:
            words += ["--cluster", config.cluster]
        else:
            words += ["--workers", str(config.workers)]
    done = subprocess.run(words, check=False, preexec_fn=partial(die_with_parent, os.getpid()))
    if done.returncode in (-signal.SIGINT, 128 + signal.SIGINT):
        raise KeyboardInterrupt
    if done.returncode:
        raise UserError(f"{shlex.join(words)}: exit code {done.returncode}")


def _is_done(run: Path) -> bool:
    """Whether all rounds are done; a run of another command ends with a bundle."""
    if not (run / "last.npz").exists():
        return (run / BUNDLE / CONTRACT).exists()  # the last of its files
    return Run(run).is_done(Run(run).config["iterations"])


if __name__ == "__main__":
    main()
