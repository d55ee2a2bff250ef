"""What the size of patches, and mirror symmetry, mean to learning. Run as `make learning`.

Every variant learns by the command that people type, with the same budget and several seeds. A run
that is there is not repeated, and one that was killed goes on. What was measured is kept in
docs/learning.json, and its tables in docs/results.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median

from pixelgait.export.reports.figure_store import Figures, read_figures
from pixelgait.export.reports.generated import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.policies.runs import load_checkpoint
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, read_json, require_writable, write_atomic
from pixelgait.robot.runtime.options import Count, Episodes, parse
from pixelgait.robot.runtime.processes import die_with_parent
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import evaluate
from pixelgait.sim.exported import as_bundle
from pixelgait.sim.tasks.options import WorkerOptions

# Side and stride of a patch [pixels], and the reward the IAP paper gives for it (table 2).
PAPER = {
    **{(1, 1): 8.0, (4, 2): 6.9, (4, 4): 7.5, (8, 4): 6.3, (8, 8): 7.5},
    **{(16, 8): 6.6, (16, 16): 7.6},
}
IMAGE = 32  # pixels a side
SELECTED = 1 / 16  # of the patches: 64 of the smallest, one of the largest, as in figure 9; ours
COURSES = 8  # in a round of the learners whose images are counted
LEARNED = 0.9  # of the validation courses


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to learn."""

    study: str
    name: str
    options: str  # of pixelgait-train imitate, without --seed and --out
    walks: bool  # whether what was learned is evaluated on legs


def count_patches(patch: int, stride: int) -> int:
    """In an image."""
    return ((IMAGE - patch) // stride + 1) ** 2


def selected(patch: int, stride: int) -> int:
    """How many of them the policy sees the places of."""
    return max(1, round(SELECTED * count_patches(patch, stride)))


VARIANTS = (
    *(
        Variant(
            "patches",
            f"{patch} / {stride}",
            f"--encoder iap:patch={patch},stride={stride},selected={selected(patch, stride)} "
            "--mirror --iterations 3 --dagger.students 16",
            walks=True,
        )
        for patch, stride in PAPER
    ),
    *(
        Variant(
            "mirror",
            f"{label}, {'symmetric' if mirror else 'free'}",
            f"{options} {mirror} --iterations 12 --dagger.courses {COURSES}",
            walks=False,
        )
        for label, options in (
            ("CNN", "--encoder cnn"),
            ("strided CNN", "--encoder strided --dagger.steps 200"),
        )
        for mirror in ("--mirror", "")
    ),
)


@dataclass(frozen=True)
class LearningConfig(WorkerOptions):
    """Train every variant with every seed, evaluate it, and write what is known."""

    page: Path = Path("docs/results.md")
    """Gets the tables, each between its two markers."""
    figures: Path = Path("docs/learning.json")
    """Everything that was measured."""
    out: Path = Path("runs/learning")
    """Folder of the training runs."""
    seeds: Count = 3
    """Of every variant, from 0 on."""
    episodes: Episodes = 100
    """On legs, of every run that is evaluated so."""
    measure: bool = True
    """Train what is missing; otherwise only write what is known."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(LearningConfig, "make learning")))


def write_tables(config: LearningConfig) -> None:
    """Measure what is missing, run by run, and write what is known between the page's markers.

    Raises:
        UserError: the page has no such lines, a training ends with an error, or there are figures
            of another kind.
    """
    for study in TABLES:
        require_markers(config.page, study, "learning")
    require_writable(config.figures)
    kept = read_figures(config.figures) if config.figures.exists() else []
    for variant, seed in _missing(config, kept):
        print(f"{variant.study}: {variant.name}, seed {seed}", flush=True)
        kept.append(_measure(config, variant, seed))
        write_atomic(config.figures, json_bytes(kept))
    for study, table in TABLES.items():
        rows = [each for each in kept if each["study"] == study]
        lines = table(rows) if rows else ["Not measured yet."]
        print("\n".join(lines))
        write_between(config.page, study, "learning", lines)


def _missing(config: LearningConfig, kept: Sequence[Figures]) -> Iterator[tuple[Variant, int]]:
    if not config.measure:
        return
    known = {(each["study"], each["variant"], each["seed"]) for each in kept}
    for seed in range(config.seeds):
        for variant in VARIANTS:
            if (variant.study, variant.name, seed) not in known:
                yield variant, seed


def _measure(config: LearningConfig, variant: Variant, seed: int) -> Figures:
    """Train one run and say what came of it."""
    name = variant.name.replace(" ", "").replace("/", "-").replace(",", "-")
    run = config.out / f"{variant.study}-{name}-{seed}"
    options = f"{variant.options} --seed {seed}"
    _train(run, options, config)
    rounds = read_figures(run / "curve.json")
    courses = read_json(run / "config.json")["dagger"]["courses"]
    figures: Figures = {
        "study": variant.study,
        "variant": variant.name,
        "seed": seed,
        "command": f"pixelgait-train imitate {options}",
        "commit": read_json(run / "git.json")["commit"],
        "weights": int(load_checkpoint(run / "best.npz").weights.size),
        "images": list(accumulate(round(courses * each["train/images"]) for each in rounds)),
        "gliding": [each["validation/success"] for each in rounds],
        "gliding_m": [each["validation/distance"] for each in rounds],
    }
    if variant.walks:
        with as_bundle(str(run)) as bundle:
            walked = evaluate(
                EvalConfig(
                    bundle,
                    episodes=config.episodes,
                    workers=config.workers,
                    cluster=config.cluster,
                )
            )
        names = ("success_rate", "clean_success_rate", "fall_rate", "distance_m")
        figures["walking"] = {name: walked[name] for name in names}
    return figures


def _train(run: Path, options: str, config: LearningConfig) -> None:
    """Unless it is there; a run that was killed goes on."""
    words = [sys.executable, "-m", "pixelgait.policies.training.train", "imitate"]
    words += ["--out", str(run)]
    words += ["--resume"] if (run / "config.json").exists() else shlex.split(options)
    if config.cluster is not None:
        words += ["--cluster", config.cluster]
    else:
        words += ["--workers", str(config.workers)]
    done = subprocess.run(words, check=False, preexec_fn=partial(die_with_parent, os.getpid()))
    if done.returncode < 0 or done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode:
        raise UserError(f"{shlex.join(words)}: exit code {done.returncode}")


def patch_table(rows: Sequence[Figures]) -> list[str]:
    """By size of a patch: gliding and walking success, mean of the seeds, each in brackets."""
    head = ("patch / stride", "patches", "selected", "weights", "gliding", "walking")
    lines = table_head([*head, "advance walking [m]", "reward in the paper"])
    for (patch, stride), reward in PAPER.items():
        name = f"{patch} / {stride}"
        if not (runs := [each for each in rows if each["variant"] == name]):
            continue
        cells = [
            name,
            str(count_patches(patch, stride)),
            str(selected(patch, stride)),
            str(runs[0]["weights"]),
            _rates([max(run["gliding"]) for run in runs]),
            _rates([run["walking"]["success_rate"] for run in runs]),
            f"{sum(run['walking']['distance_m'] for run in runs) / len(runs):.1f}",
            f"{reward:.1f}",
        ]
        lines.append(table_line(cells))
    return lines


def mirror_table(rows: Sequence[Figures]) -> list[str]:
    """Images until most validation courses are done, with and without symmetry."""
    lines = table_head(["network", "symmetric", "free", "ratio of medians"])
    for label in dict.fromkeys(each["variant"].partition(",")[0] for each in rows):
        needed = {
            kind: [_images(each) for each in rows if each["variant"] == f"{label}, {kind}"]
            for kind in ("symmetric", "free")
        }
        cells = [", ".join(_number(each) for each in column) for column in needed.values()]
        symmetric, free = (median(column or [float("inf")]) for column in needed.values())
        ratio = f"{free / symmetric:.1f}" if symmetric < free < float("inf") else "-"
        lines.append(table_line([label, *cells, ratio]))
    return lines


TABLES = {"patches": patch_table, "mirror": mirror_table}


def _images(run: Figures) -> float:
    """How many were shown when so much was learned first."""
    pairs = zip(run["images"], run["gliding"], strict=True)
    return next((images for images, rate in pairs if rate >= LEARNED), float("inf"))


def _number(images: float) -> str:
    return f"{images:.0f}" if images < float("inf") else "not"


def _rates(rates: Sequence[float]) -> str:
    """Mean, and each."""
    each = ", ".join(f"{100.0 * rate:.0f}" for rate in rates)
    return f"{100.0 * sum(rates) / len(rates):.0f} % ({each})"


if __name__ == "__main__":
    main()
