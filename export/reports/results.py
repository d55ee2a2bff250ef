"""Results of the shipped bundles, for the documentation: tables, curves, paths, attention.

Run as `make results`. Evaluations are kept in docs/results.json and not repeated, as long as they
are of the same weights.
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
from pixelgait.export.reports.figure_store import Figures, FigureStore
from pixelgait.export.reports.generated import require_markers, write_between
from pixelgait.export.reports.navigation import NavigationConfig
from pixelgait.export.reports.result_tables import (
    COLUMNS,
    ELSEWHERE,
    RUN_COLUMNS,
    UNSEEING_COLUMNS,
    Measured,
    ResultRow,
    aims_table,
    elsewhere_table,
    full_table,
    runs_table,
    summary_table,
)
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.policies.runs.trained import provenance_of
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.cli.options import Episodes, parse
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.sim.body.camera import CHANNELS
from pixelgait.sim.eval_options import EvalConfig
from pixelgait.sim.evaluate import evaluate, film, run_episodes
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
from pixelgait.sim.tasks.options import WorkerOptions
from pixelgait.sim.world.seeds import Stream

POLICIES = {
    "iap": "IAP",
    "cnn": "CNN",
    "sit": "SieT",
    "iap-depth": "IAP on depth, with memory",
    "iap-rgbd": "IAP on RGB-D, with memory, in any light",
    "strided-gru": "strided CNN with memory",
    "rover": "strided CNN with memory, depth",
    "strided-looks": "strided CNN with memory, in any light",
}
# By the command of `sit`: rows of the page, not of the README.
COMPARED = {"sit-invariant": "SiT", "vit": "ViT"}
PATH_SEEDS = 6


@dataclass(frozen=True)
class ResultsConfig(WorkerOptions):
    """Evaluate the shipped policies and their baselines, and write what the documentation says."""

    page: Path = Path("docs/results.md")
    """Gets the tables of policies and of training runs, each between its two markers."""
    readme: Path = Path("README.md")
    """Gets the table of the shipped policies, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    figures: Path = Path("docs/results.json")
    """Everything that was measured."""
    out: Path = Path("runs/results")
    """Folder of the bundles of training runs that are not shipped."""
    episodes: Episodes = 100
    """Of every cell."""
    rows: tuple[str, ...] = ()
    """Policies to measure, as iap or teacher, or all; of the others is shown what is known."""
    columns: tuple[str, ...] = ()
    """Columns to measure, or all; of the others is shown what is known."""
    runs: bool = False
    """Also evaluate the training runs that are not shipped, and baselines: half of the time."""
    draw: bool = True
    """Draw the pictures."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_results(parse(ResultsConfig, "make results")))


def write_results(config: ResultsConfig) -> None:
    """Evaluate what is missing, then write tables and pictures.

    Raises:
        UserError: a page has no markers to write between, or there is no such row or column.
    """
    _require(config.columns, (*COLUMNS, *ELSEWHERE), "columns")
    _require(config.rows, [row.name for row in shipped_rows()], "rows")
    for page, part in (
        (config.page, "results"),
        (config.page, "elsewhere"),
        (config.page, "aims"),
        (config.page, "runs"),
        (config.readme, "results-summary"),
    ):
        require_markers(page, part, "results")
    measured = _measure(config, shipped_rows(), (*COLUMNS, *ELSEWHERE))
    table = full_table(measured)
    write_between(config.page, "results", "results", table)
    write_between(config.page, "elsewhere", "results", elsewhere_table(measured))
    write_between(config.page, "aims", "results", aims_table(measured))
    write_between(config.readme, "results-summary", "results", summary_table(measured))
    if config.runs:
        runs = runs_table(_measure(config, _run_rows(config), RUN_COLUMNS))
        write_between(config.page, "runs", "results", runs)
    if config.draw:
        _draw_curves(config.pictures / "curves.png")
        for name in POLICIES:
            _draw_paths(config, name)
        film(EvalConfig("iap", workers=1), config.pictures / "attention.png")
    print("\n".join(table))


def _require(chosen: Sequence[str], known: Sequence[str], option: str) -> None:
    if not set(chosen) <= set(known):
        raise UserError(f"--{option}: choose from {', '.join(known)}")


def _measure(config: ResultsConfig, rows: Sequence[ResultRow], columns: Sequence[str]) -> Measured:
    """Figures of every row and column that are known or shall be measured."""
    store = FigureStore(config.figures, NavigationConfig.figures)  # that has the teacher's
    measured: list[tuple[ResultRow, dict[str, Figures]]] = [(row, {}) for row in rows]
    for row, cells in measured:
        for column in columns:
            chosen = not config.rows or row.name in config.rows
            chosen = chosen and (not config.columns or column in config.columns)
            if figures := _figures(config, store, row, column, chosen):
                cells[column] = figures
    return measured


def shipped_rows() -> list[ResultRow]:
    """Teacher and shipped policies, and one of them without its eyes."""
    teacher, label = EvalConfig("walk", baseline="teacher"), "teacher (knows map and pose)"
    rows = [ResultRow(label, teacher, label, columns=UNSEEING_COLUMNS)]
    for name, title in {**POLICIES, **COMPARED}.items():
        weights = _weights(_runs(name)[0])
        label = f"`{name}`: {title}"
        summary = label if name in POLICIES else ""
        depth = _contract(SHIPPED / name)["camera"]["channels"] == CHANNELS["depth"]
        rows.append(ResultRow(label, EvalConfig(name), summary, weights, depth=depth))
    blind = EvalConfig("iap", baseline="blind")
    label = "IAP, blind (gray image)"
    return [*rows, ResultRow(label, blind, "", rows[1].weights, UNSEEING_COLUMNS)]


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
    frozen = EvalConfig("iap", baseline="freeze-image")
    random = EvalConfig("walk", baseline="random")
    return [
        *runs,
        ResultRow("IAP, first image frozen", frozen, "", weights, ("medium",)),
        ResultRow("random commands", random, "", None, ("medium",)),
    ]


def _runs(policy: str) -> list[Path]:
    """Training runs of a policy: the shipped one, then the others by name, bundles among them."""
    folder = SHIPPED / policy
    others = sorted(each for each in (folder / "others").glob("*") if each.is_dir())
    return [
        each / "high_level" if (each / CONTRACT).exists() else each for each in (folder, *others)
    ]


def _task(run: Path) -> str:
    return str(json.loads((run / "config.json").read_text())["task"])


def _title(run: Path) -> str:
    """What distinguishes a run: its name, or that of the bundle it is in."""
    folder = run.parent if run.name == "high_level" else run
    return "shipped" if folder.parent == SHIPPED else folder.name.replace("-", " ")


def _bundle(config: ResultsConfig, policy: str, run: Path) -> Path:
    """The bundle of a training run that is not shipped as one, exported once."""
    out = config.out / "bundles" / f"{policy}-{_title(run).replace(' ', '-')}"
    low_level = run if _task(run) == "joint" else SHIPPED / "walk" / "low_level"
    wanted = {"low_level": provenance_of(low_level), "high_level": provenance_of(run)}
    if not (out / CONTRACT).exists() or not wanted.items() <= _contract(out)["provenance"].items():
        export(ExportConfig(low_level, out, run, name=out.name))
    return out


def _contract(bundle: Path) -> dict[str, Any]:
    contract: dict[str, Any] = json.loads((bundle / CONTRACT).read_text())
    return contract


def _figures(
    config: ResultsConfig, store: FigureStore, row: ResultRow, column: str, chosen: bool
) -> Figures | None:
    """The evaluation of one row for one column: a known one, or, if it is chosen, a new one."""
    evaluation = replace(
        row.cell(column), episodes=config.episodes, workers=config.workers, cluster=config.cluster
    )
    if (kept := store.find(evaluation)) or not chosen or column not in row.columns:
        return kept
    print(f"{row.name}, {column}", flush=True)
    return store.keep(evaluation, evaluate(evaluation))


def _weights(run: Path) -> int:
    """Of both levels."""
    searched = int(load_checkpoint(run / "best.npz").weights.size)
    return searched if _task(run) == "joint" else searched + LOW_LEVEL_WEIGHTS


def _draw_curves(path: Path) -> None:
    imitated: dict[str, dict[str, plots.Curve]] = {}
    tried: dict[str, plots.Curve] = {}
    for name in (*POLICIES, *COMPARED):
        for run in _runs(name):
            curve = json.loads((run / "curve.json").read_text())
            if _task(run) == "imitate":
                imitated.setdefault(name, {})[_title(run)] = curve
            else:
                tried[f"{name}, {_title(run)}"] = curve
    plots.learning_curves(path, imitated, tried)


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
