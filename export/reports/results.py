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

import tyro

from pixelgait.export.bundle.export import ExportConfig, export
from pixelgait.export.reports import plots
from pixelgait.export.reports.generated import require_markers, write_between
from pixelgait.policies.runs import load_checkpoint
from pixelgait.policies.trained import provenance_of
from pixelgait.robot.bundle import CONTRACT, SHIPPED
from pixelgait.robot.errors import run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.sim.evaluate import EvalConfig, describe, evaluate, film, run_episodes
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.world.seeds import Stream

POLICIES = {"iap": "IAP", "cnn": "CNN", "sit": "SieT", "iap-depth": "IAP on depth"}
# Columns: difficulty, whether robots are randomised, and the simulator.
COLUMNS = {
    "low": (0.0, False, "pybullet"),
    "medium": (0.5, False, "pybullet"),
    "high": (1.0, False, "pybullet"),
    "medium, randomised": (0.5, True, "pybullet"),
    "high, randomised": (1.0, True, "pybullet"),
    "medium, MuJoCo": (0.5, False, "mujoco"),
    "high, MuJoCo": (1.0, False, "mujoco"),
}
CLEAN_COLUMNS = ("medium", "high")  # where clean success stands in columns of its own
SUMMARY_COLUMNS = ("medium", "high", "medium, randomised", "medium, MuJoCo")
PATH_SEEDS = 6
Figures = dict[str, Any]  # as pixelgait-eval writes them


@dataclass(frozen=True)
class ResultsConfig:
    """Evaluate the shipped policies and their baselines, and write what the documentation says."""

    page: Path = Path("docs/results.md")
    """Gets the table of all runs, between its two markers."""
    readme: Path = Path("README.md")
    """Gets the table of the shipped policies, between its two markers."""
    pictures: Path = Path("docs")
    """Folder of the pictures."""
    out: Path = Path("runs/results")
    """Folder of the figures, one JSON per row and difficulty."""
    episodes: int = 100
    workers: int = 2


@dataclass(frozen=True)
class ResultRow:
    """One line of the table."""

    label: str
    evaluation: EvalConfig
    summary: str = ""  # what the README calls it; empty: it is not there
    weights: int | None = None  # None: it does not see
    columns: tuple[str, ...] = tuple(COLUMNS)  # what is measured, medium at least

    @property
    def key(self) -> str:
        """What its files are called."""
        return f"{Path(self.evaluation.bundle).name}-{self.evaluation.baseline or 'policy'}"


def main() -> None:
    """Command line."""
    run_command(lambda: write_results(tyro.cli(ResultsConfig, prog="make results")))


def write_results(config: ResultsConfig) -> None:
    """Evaluate what is missing, then write tables and pictures.

    Raises:
        UserError: a page has no markers to write between.
    """
    require_markers(config.page, "results", "results")
    require_markers(config.readme, "results-summary", "results")
    measured = [(row, {c: _figures(config, row, c) for c in row.columns}) for row in _rows(config)]
    table = full_table(measured)
    write_between(config.page, "results", "results", table)
    write_between(config.readme, "results-summary", "results", summary_table(measured))
    _draw_curves(config.pictures / "curves.png")
    for name in POLICIES:
        _draw_paths(config, name)
    film(EvalConfig("iap", workers=1), config.pictures / "attention.png")
    print("\n".join(table))


Measured = Sequence[tuple[ResultRow, dict[str, Figures]]]  # figures by column


def full_table(measured: Measured) -> list[str]:
    """All rows and columns, as Markdown; metres, falls and images are those of medium courses."""
    clean = (f"{name}, clean" for name in CLEAN_COLUMNS)
    lines = _head(("high level", "weights", *COLUMNS, *clean, "metres", "falls", "images"))
    for row, figures in measured:
        medium = figures["medium"]
        cells = [
            row.label,
            str(row.weights or "-"),
            *(_cell(figures.get(name)) for name in COLUMNS),
            *(_cell(figures.get(name), "clean_success_rate") for name in CLEAN_COLUMNS),
            f"{medium['distance_m']:.1f}",
            _rate(medium, "fall_rate"),
            f"{medium['images_per_episode']:.0f}" if row.weights else "-",
        ]
        lines.append(_line(cells))
    return lines


def summary_table(measured: Measured) -> list[str]:
    """The shipped policies beside the teacher, as Markdown."""
    clean = (f"{name}, clean" for name in CLEAN_COLUMNS)
    lines = _head(("high level", "weights", *SUMMARY_COLUMNS, *clean))
    for row, figures in measured:
        if row.summary:
            cells = [_cell(figures.get(name)) for name in SUMMARY_COLUMNS]
            cells += [_cell(figures.get(name), "clean_success_rate") for name in CLEAN_COLUMNS]
            lines.append(_line([row.summary, str(row.weights or "-"), *cells]))
    return lines


def _head(names: Sequence[str]) -> list[str]:
    return [_line(names), f"|{'---|' * len(names)}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(figures: Figures | None, rate: str = "success_rate") -> str:
    return "-" if figures is None else _rate(figures, rate)


def _rows(config: ResultsConfig) -> list[ResultRow]:
    """Teacher, all training runs of every policy with the shipped one first, and the controls."""
    teacher = EvalConfig("walk", baseline="teacher")
    rows = [ResultRow("teacher (knows map and pose)", teacher, "teacher (knows map and pose)")]
    for name, label in POLICIES.items():
        shipped, *others = _runs(name)
        weights = _weights(shipped)
        rows.append(ResultRow(f"**{label}**, shipped", EvalConfig(name), label, weights))
        for run in others:
            bundle = EvalConfig(str(_bundle(config, name, run)))
            columns = "medium", "medium, randomised"
            rows.append(ResultRow(f"{label}, {_title(run)}", bundle, "", _weights(run), columns))
    nominal = "low", "medium", "high"
    blind = EvalConfig("iap", baseline="blind")
    frozen = EvalConfig("iap", baseline="freeze-image")
    random = EvalConfig("walk", baseline="random")
    weights = _weights(_runs("iap")[0])
    rows.append(ResultRow("IAP, blind (gray image)", blind, "", weights, nominal))
    rows.append(ResultRow("IAP, first image frozen", frozen, "", weights, nominal))
    return [*rows, ResultRow("random commands", random, "", None, nominal)]


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


def _rate(figures: dict[str, Any], name: str) -> str:
    low, high = (100.0 * value for value in figures["interval_95"][name])
    return f"{100.0 * figures[name]:.0f} % [{low:.0f}, {high:.0f}]"


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
    wanted = {k: v for k, v in describe(evaluation).items() if k not in ("version", "commit")}
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
    evaluation = EvalConfig(name, episodes=PATH_SEEDS, workers=config.workers)
    courses, tracks = [], []
    for episode in run_episodes(evaluation):
        course = ObstacleCourse(evaluation.difficulty)
        course.layout(Stream.LAYOUT.rng(episode.seed))
        courses.append(course)
        tracks.append(episode.path)
    plots.paths_on_courses(config.pictures / f"paths-{name}.png", courses, tracks)


if __name__ == "__main__":
    main()
