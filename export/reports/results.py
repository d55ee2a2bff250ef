"""Results of the shipped bundles, for the documentation: tables, curves, paths, attention.

Run as `make results`. Evaluations that are already in the output folder are not repeated, as long
as they are of the same bundle.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pixelgait.export.bundle.export import export
from pixelgait.export.bundle.options import ExportConfig
from pixelgait.export.reports import plots
from pixelgait.export.reports.generated import require_markers, write_between
from pixelgait.export.reports.result_tables import (
    COLUMNS,
    RUN_COLUMNS,
    Figures,
    Measured,
    ResultRow,
    full_table,
    runs_table,
    summary_table,
)
from pixelgait.policies.runs import load_checkpoint
from pixelgait.policies.trained import provenance_of
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.runtime.options import Count, parse
from pixelgait.sim.evaluate import EvalConfig, describe, evaluate, film, run_episodes
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.options import WorkerOptions
from pixelgait.sim.world.seeds import Stream

POLICIES = {
    "iap": "IAP",
    "cnn": "CNN",
    "sit": "SieT",
    "iap-depth": "IAP on depth",
    "strided-gru": "strided CNN with memory",
}
PATH_SEEDS = 6
MAKER = ("version", "commit", "modified")  # who measured, not what


@dataclass(frozen=True)
class ResultsConfig(WorkerOptions):
    """Evaluate the shipped policies and their baselines, and write what the documentation says."""

    page: Path = Path("docs/results.md")
    """Gets the tables of policies and of training runs, each between its two markers."""
    readme: Path = Path("README.md")
    """Gets the table of the shipped policies, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    out: Path = Path("runs/results")
    """Folder of the figures, one JSON per row and difficulty."""
    episodes: Count = 100
    columns: tuple[str, ...] = tuple(COLUMNS)
    """Columns to measure; the others are left out. medium must be among them."""
    runs: bool = True
    """Also evaluate the training runs that are not shipped, and baselines: half of the time."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_results(parse(ResultsConfig, "make results")))


def write_results(config: ResultsConfig) -> None:
    """Evaluate what is missing, then write tables and pictures.

    Raises:
        UserError: a page has no markers to write between, or there is no such column.
    """
    if not {"medium"} <= set(config.columns) <= set(COLUMNS):
        raise UserError(f"--columns: choose from {', '.join(COLUMNS)}, medium among them")
    for page, part in ((config.page, "results"), (config.readme, "results-summary")):
        require_markers(page, part, "results")
    measured = _measure(config, _rows())
    table = full_table(measured)
    write_between(config.page, "results", "results", table)
    write_between(config.readme, "results-summary", "results", summary_table(measured))
    if config.runs:
        require_markers(config.page, "runs", "results")
        runs = runs_table(_measure(config, _run_rows(config)))
        write_between(config.page, "runs", "results", runs)
    _draw_curves(config.pictures / "curves.png")
    for name in POLICIES:
        _draw_paths(config, name)
    film(EvalConfig("iap", workers=1), config.pictures / "attention.png")
    print("\n".join(table))


def _measure(config: ResultsConfig, rows: Sequence[ResultRow]) -> Measured:
    wanted = {row.key: [name for name in row.columns if name in config.columns] for row in rows}
    return [(row, {name: _figures(config, row, name) for name in wanted[row.key]}) for row in rows]


def _rows() -> list[ResultRow]:
    """Teacher and shipped policies."""
    teacher = EvalConfig("walk", baseline="teacher")
    rows = [ResultRow("teacher (knows map and pose)", teacher, "teacher (knows map and pose)")]
    for name, label in POLICIES.items():
        weights = _weights(_runs(name)[0])
        rows.append(ResultRow(f"**{label}**", EvalConfig(name), label, weights))
    return rows


def _run_rows(config: ResultsConfig) -> list[ResultRow]:
    """Training runs of every policy that are not shipped, then baselines."""
    runs = [
        ResultRow(
            f"{label}, {_title(run)}",
            EvalConfig(str(_bundle(config, name, run))),
            "",
            _weights(run),
            RUN_COLUMNS,
        )
        for name, label in POLICIES.items()
        for run in _runs(name)[1:]
    ]
    weights = _weights(_runs("iap")[0])
    blind = EvalConfig("iap", baseline="blind")
    frozen = EvalConfig("iap", baseline="freeze-image")
    random = EvalConfig("walk", baseline="random")
    return [
        *runs,
        ResultRow("IAP, blind (gray image)", blind, "", weights, ("medium",)),
        ResultRow("IAP, first image frozen", frozen, "", weights, ("medium",)),
        ResultRow("random commands", random, "", None, ("medium",)),
    ]


def _runs(policy: str) -> list[Path]:
    """Training runs of a policy: the shipped one, then the others by name."""
    folder = SHIPPED / policy
    return [folder / "high_level", *sorted(p for p in (folder / "others").glob("*") if p.is_dir())]


def _task(run: Path) -> str:
    return str(json.loads((run / "config.json").read_text())["task"])


def _title(run: Path) -> str:
    """What distinguishes a run: its name."""
    return "shipped" if run.name == "high_level" else run.name.replace("-", " ")


def _bundle(config: ResultsConfig, policy: str, run: Path) -> Path:
    """The bundle of a training run that is not shipped as one, exported once."""
    out = config.out / "bundles" / f"{policy}-{run.name}"
    low_level = run if _task(run) == "joint" else SHIPPED / "walk" / "low_level"
    wanted = {"low_level": provenance_of(low_level), "high_level": provenance_of(run)}
    if not (out / CONTRACT).exists() or not wanted.items() <= _contract(out)["provenance"].items():
        export(ExportConfig(low_level, out, run, name=out.name))
    return out


def _contract(bundle: Path) -> dict[str, Any]:
    contract: dict[str, Any] = json.loads((bundle / CONTRACT).read_text())
    return contract


def _figures(config: ResultsConfig, row: ResultRow, column: str) -> Figures:
    """The evaluation of one row for one column, from the output folder if it is there."""
    difficulty, randomise, body = COLUMNS[column]
    name = f"{row.key}-{difficulty}{'-randomised' * randomise}{'-mujoco' * (body == 'mujoco')}"
    path = config.out / f"{name}.json"
    evaluation = replace(
        row.evaluation,
        difficulty=difficulty,
        randomise=randomise,
        body=body,
        episodes=config.episodes,
        workers=config.workers,
        cluster=config.cluster,
    )
    if path.exists():
        kept: Figures = json.loads(path.read_text())
        if is_of(kept, evaluation):
            return kept
    print(name, flush=True)
    figures = evaluate(evaluation)
    write_atomic(path, json_bytes(figures))
    return figures


def is_of(kept: Figures, evaluation: EvalConfig) -> bool:
    """Whether figures are of this evaluation, by whatever version of the code."""
    wanted = {k: v for k, v in describe(evaluation).items() if k not in MAKER}
    kept = {"looks": "plain", **kept}  # older ones do not say so
    return wanted.items() <= kept.items() and len(kept["episodes"]) == evaluation.episodes


def _weights(run: Path) -> int:
    """Of both levels."""
    searched = int(load_checkpoint(run / "best.npz").weights.size)
    return searched if _task(run) == "joint" else searched + LOW_LEVEL_WEIGHTS


def _draw_curves(path: Path) -> None:
    curves: tuple[dict[str, plots.Curve], dict[str, plots.Curve]] = {}, {}
    for name, label in POLICIES.items():
        for run in _runs(name):
            panel = curves[_task(run) != "imitate"]
            panel[f"{label}, {_title(run)}"] = json.loads((run / "curve.json").read_text())
    plots.learning_curves(path, *curves)


def _draw_paths(config: ResultsConfig, name: str) -> None:
    evaluation = EvalConfig(
        name, episodes=PATH_SEEDS, workers=config.workers, cluster=config.cluster
    )
    courses, tracks = [], []
    for episode in run_episodes(evaluation):
        course = ObstacleCourse(evaluation.difficulty)
        course.layout(Stream.LAYOUT.rng(episode.seed))
        courses.append(course)
        tracks.append(episode.path)
    plots.paths_on_courses(config.pictures / f"paths-{name}.png", courses, tracks)


if __name__ == "__main__":
    main()
