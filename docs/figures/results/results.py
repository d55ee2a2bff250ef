"""Results of the shipped bundles, for the documentation: tables, curves, paths, attention.

Run as `make results`. Evaluations are kept in docs/results.json and not repeated, as long as they
are of the same weights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docs.figures.results.figure_store import Figures, FigureStore
from docs.figures.results.navigation import NavigationConfig
from docs.figures.results.result_tables import (
    COLUMNS,
    ELSEWHERE,
    SEED_COLUMNS,
    UNSEEING_COLUMNS,
    Measured,
    ResultRow,
    aims_table,
    elsewhere_table,
    full_table,
    seeds_table,
    summary_table,
)
from pixelgait.export import plots
from pixelgait.export.markdown_sections import require_markers, write_between
from pixelgait.policies.evaluation.evaluate import evaluate, film, run_episodes
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.policies.runs.run import Run, load_checkpoint
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
    """Gets the tables of policies and of their other seeds, each between its two markers."""
    readme: Path = Path("README.md")
    """Gets the table of the shipped policies, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    figures: Path = Path("docs/results.json")
    """Everything that was measured."""
    episodes: Episodes = 100
    """Of every cell."""
    rows: tuple[str, ...] = ()
    """Rows to measure, as iap, iap/others/seed-0 or teacher, or all; of others what is known."""
    columns: tuple[str, ...] = ()
    """Columns to measure, or all; of the others is shown what is known."""
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
    shipped, seeds = shipped_rows(), seed_rows()
    _require(config.rows, [row.name for row in (*shipped, *seeds)], "rows")
    for page, part in (
        (config.page, "results"),
        (config.page, "elsewhere"),
        (config.page, "aims"),
        (config.page, "seeds"),
        (config.readme, "results-summary"),
    ):
        require_markers(page, part, "results")
    measured = _measure(config, shipped, (*COLUMNS, *ELSEWHERE))
    table = full_table(measured)
    write_between(config.page, "results", "results", table)
    write_between(config.page, "elsewhere", "results", elsewhere_table(measured))
    write_between(config.page, "aims", "results", aims_table(measured))
    write_between(config.readme, "results-summary", "results", summary_table(measured))
    of_seeds = seeds_table(_measure(config, seeds, SEED_COLUMNS))
    write_between(config.page, "seeds", "results", of_seeds)
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
    """Teacher and shipped policies, one of them without its eyes, and chance."""
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


def seed_rows() -> list[ResultRow]:
    """Every shipped policy that walks courses, each followed by the other bundles in its folder."""
    rows = []
    for policy in (*POLICIES, *COMPARED):
        others = sorted((SHIPPED / policy / "others").glob(f"*/{CONTRACT}"))
        for bundle in (SHIPPED / policy, *(each.parent for each in others)):
            name = bundle.relative_to(SHIPPED).as_posix()
            # Under looks is measured who has learned under looks.
            under_looks = Run(bundle / "high_level").config["appearance"] == "train"
            columns = SEED_COLUMNS if under_looks else SEED_COLUMNS[:-1]
            rows.append(_row(name, f"`{name}`", columns))
    return rows


def _row(name: str, label: str, columns: tuple[str, ...]) -> ResultRow:
    """Of a bundle, by its name; its weights are those of both levels."""
    folder = SHIPPED / name
    contract = read_json(folder / CONTRACT)
    depth = contract["camera"]["channels"] == CHANNELS["depth"]
    weights = load_checkpoint(folder / "high_level" / "best.npz").weights.size + LOW_LEVEL_WEIGHTS
    return ResultRow(label, EvalConfig(name), "", weights, columns, depth)


def _runs(policy: str) -> list[Path]:
    """Training runs of a policy: the shipped one, then the others by name, bundles among them."""
    folder = SHIPPED / policy
    others = sorted(each for each in (folder / "others").glob("*") if each.is_dir())
    return [
        each / "high_level" if (each / CONTRACT).exists() else each for each in (folder, *others)
    ]


def _title(run: Path) -> str:
    """What distinguishes a run: its name, or that of the bundle it is in."""
    folder = run.parent if run.name == "high_level" else run
    return "shipped" if folder.parent == SHIPPED else folder.name.replace("-", " ")


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


def _draw_curves(path: Path) -> None:
    imitated: dict[str, dict[str, plots.Curve]] = {}
    tried: dict[str, plots.Curve] = {}
    for name in (*POLICIES, *COMPARED):
        for run in _runs(name):
            curve = json.loads((run / "curve.json").read_text())
            if Run(run).config["task"] == "imitate":
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
