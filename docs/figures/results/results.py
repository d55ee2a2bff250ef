"""Results of the shipped bundles, for the documentation: tables, curves, paths, attention.

Run as `make results`. Evaluations are kept in docs/results.json, and are repeated only for other
weights. Other training runs of the shipped policies are not in the repository: their figures are
kept there as well, and their learning curves in docs/seeds.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docs.figures.results.figure_store import Figures, FigureStore, read_figures
from docs.figures.results.navigation import NavigationConfig
from docs.figures.results.pictures import Curve, learning_curves, paths_on_courses
from docs.figures.results.result_tables import (
    COLUMNS,
    ELSEWHERE,
    SEED_COLUMNS,
    UNSEEING_COLUMNS,
    Measured,
    ResultRow,
    SeedRow,
    aims_table,
    elsewhere_table,
    full_table,
    seeds_table,
    summary_table,
)
from pixelgait.export.markdown_sections import require_markers, write_between
from pixelgait.policies.evaluation.evaluate import evaluate, film, run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import load_checkpoint
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.cli.options import Episodes, parse
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import read_json
from pixelgait.sim.body.camera import CHANNELS
from pixelgait.sim.options import WorkerOptions
from pixelgait.sim.scenes.courses.obstacle_course import ObstacleCourse
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
# By the command of `sit`.
COMPARED = {"sit-invariant": "SiT", "vit": "ViT"}
# Rows of the README: one without a camera, two of the paper, two for robots.
SUMMARY = {
    "iap": "`iap`: IAP on RGB",
    "cnn": "`cnn`: CNN on RGB",
    "iap-rgbd": "`iap-rgbd`: IAP, GRU, RGB-D",
    "rover": "`rover`: CNN, GRU, depth",
}
PATH_SEEDS = 6


@dataclass(frozen=True)
class ResultsConfig(WorkerOptions):
    """Evaluate the shipped policies and their baselines, and write what the documentation says."""

    page: Path = Path("docs/results.md")
    """Gets the tables of policies and of their other seeds, between their markers."""
    readme: Path = Path("README.md")
    """Gets the table of the shipped policies, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    figures: Path = Path("docs/results.json")
    """Everything that was measured."""
    seeds: Path = Path("docs/seeds.json")
    """Learning curves of training runs that are not shipped."""
    episodes: Episodes = 100
    """Episodes of a cell."""
    rows: tuple[str, ...] = ()
    """Rows to measure, as iap or teacher, or all; the others show what is known."""
    columns: tuple[str, ...] = ()
    """Columns to measure, or all; the others show what is known."""
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
    shipped = shipped_rows()
    _require(config.rows, [row.name for row in shipped], "rows")
    for page, part in (
        (config.page, "results"),
        (config.page, "elsewhere"),
        (config.page, "aims"),
        (config.page, "seeds"),
        (config.readme, "results-summary"),
    ):
        require_markers(page, part, "results")
    store = FigureStore(config.figures, NavigationConfig.figures)  # that has the teacher's
    measured = _measure(config, store, shipped)
    table = full_table(measured)
    write_between(config.page, "results", "results", table)
    write_between(config.page, "elsewhere", "results", elsewhere_table(measured))
    write_between(config.page, "aims", "results", aims_table(measured))
    write_between(config.readme, "results-summary", "results", summary_table(measured))
    rows = seed_rows(config, store, measured)
    write_between(config.page, "seeds", "results", seeds_table(rows))
    if config.draw:
        imitated, evolved = learned_curves(config.seeds)
        learning_curves(config.pictures / "curves.png", imitated, evolved)
        for name in POLICIES:
            _draw_paths(config, name)
        film(EvalConfig("iap", workers=1), config.pictures / "attention.png")
    print("\n".join(table))


def _require(chosen: Sequence[str], known: Sequence[str], option: str) -> None:
    if not set(chosen) <= set(known):
        raise UserError(f"--{option}: choose from {', '.join(known)}")


def _measure(config: ResultsConfig, store: FigureStore, rows: Sequence[ResultRow]) -> Measured:
    """Figures of every row and column that are known or are to be measured."""
    measured: list[tuple[ResultRow, dict[str, Figures]]] = [(row, {}) for row in rows]
    for row, cells in measured:
        for column in (*COLUMNS, *ELSEWHERE):
            chosen = not config.rows or row.name in config.rows
            chosen = chosen and (not config.columns or column in config.columns)
            if figures := _figures(config, store, row, column, chosen):
                cells[column] = figures
    return measured


def shipped_rows() -> list[ResultRow]:
    """Rows of the teacher, the shipped policies, a policy without images, and random commands."""
    teacher, label = EvalConfig("walk", baseline="teacher"), "teacher (knows map and pose)"
    policies = [
        _row(name, f"`{name}`: {title}", (*COLUMNS, *ELSEWHERE))
        for name, title in {**POLICIES, **COMPARED}.items()
    ]
    weights = next(row.weights for row in policies if row.name == "iap")
    blind, frozen = (EvalConfig("iap", baseline=each) for each in ("blind", "freeze-image"))
    random = EvalConfig("walk", baseline="random")
    return [
        ResultRow(label, teacher, "teacher (has map)", columns=UNSEEING_COLUMNS),
        *(replace(row, summary=SUMMARY.get(row.name, "")) for row in policies),
        ResultRow("IAP, blind (gray image)", blind, "", weights, UNSEEING_COLUMNS),
        ResultRow("IAP, first image frozen", frozen, "", weights, ("medium",)),
        ResultRow("random commands", random, "", None, ("medium",)),
    ]


def seed_rows(config: ResultsConfig, store: FigureStore, measured: Measured) -> list[SeedRow]:
    """Every shipped policy with the figures that are known of its other training runs."""
    rows = []
    runs = sorted({figures["bundle"] for figures in read_figures(config.figures)})
    for row, cells in measured:
        if row.name not in (*POLICIES, *COMPARED):
            continue
        rows.append((f"`{row.name}`", cells))
        for run in runs:
            if run.startswith(f"{row.name}/"):
                evaluations = {
                    column: replace(row.cell(column), episodes=config.episodes)
                    for column in SEED_COLUMNS
                }
                found = {
                    column: figures
                    for column, evaluation in evaluations.items()
                    if (figures := store.find(evaluation, run))
                }
                rows.append((_title(run), found))
    return rows


def _title(run: str) -> str:
    """A training run as the tables name it: `iap`, seed 0."""
    policy, _, name = run.partition("/")
    return f"`{policy}`, {name.replace('-', ' ')}"


def _row(name: str, label: str, columns: tuple[str, ...]) -> ResultRow:
    """The row of a shipped bundle, with the number of weights of both levels."""
    folder = SHIPPED / name
    contract = read_json(folder / CONTRACT)
    depth = contract["camera"]["channels"] == CHANNELS["depth"]
    weights = load_checkpoint(folder / "high_level" / "best.npz").weights.size + LOW_LEVEL_WEIGHTS
    return ResultRow(label, EvalConfig(name), "", weights, columns, depth)


def _figures(
    config: ResultsConfig, store: FigureStore, row: ResultRow, column: str, chosen: bool
) -> Figures | None:
    """Figures of one row for one column: known ones, or, if it is chosen, new ones."""
    evaluation = replace(
        row.cell(column), episodes=config.episodes, workers=config.workers, cluster=config.cluster
    )
    if (kept := store.find(evaluation)) or not chosen or column not in row.columns:
        return kept
    print(f"{row.name}, {column}", flush=True)
    return store.keep(evaluation, evaluate(evaluation))


def learned_curves(seeds: Path) -> tuple[dict[str, dict[str, Curve]], dict[str, Curve]]:
    """Learning curves by policy and run, the shipped run first; and by run those by evolution."""
    imitated: dict[str, dict[str, Curve]] = {}
    evolved: dict[str, Curve] = {}
    for policy in (*POLICIES, *COMPARED):
        rows = json.loads((SHIPPED / policy / "high_level" / "curve.json").read_text())
        shipped = [
            (row["iteration"], row["validation/success"])
            for row in rows
            if "validation/success" in row
        ]
        imitated[policy] = {"shipped": shipped}
    for run in json.loads(seeds.read_text()):
        policy, _, name = run["run"].partition("/")
        if policy in imitated and run["task"] == "imitate":
            imitated[policy][name.replace("-", " ")] = run["validation_success"]
        elif policy in imitated:
            evolved[f"{policy}, {name.replace('-', ' ')}"] = run["validation_success"]
    return imitated, evolved


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
    paths_on_courses(config.pictures / f"paths-{name}.png", courses, tracks)


if __name__ == "__main__":
    main()
