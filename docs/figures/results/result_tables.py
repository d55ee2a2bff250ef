"""Tables of the results, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docs.figures.results.figure_store import Figures
from pixelgait.export.markdown_sections import table_head, table_line
from pixelgait.policies.evaluation.options import EvalConfig

# Columns: options that differ from the defaults, which are those of medium.
COLUMNS: dict[str, dict[str, Any]] = {
    "low": {"difficulty": 0.0},
    "medium": {},
    "high": {"difficulty": 1.0},
    "medium, randomised": {"randomise": True},
    "high, randomised": {"difficulty": 1.0, "randomise": True},
    "medium, MuJoCo": {"body": "mujoco"},
    "high, MuJoCo": {"difficulty": 1.0, "body": "mujoco"},
}
LAYOUTS = (
    *("gates", "free-standing", "slalom", "clutter", "rough"),
    *("bridges", "room-chain", "ramps", "steps", "passers-by"),
)
AT_ONCE = "all at once"
# Columns of a second table: conditions beyond the paper's course.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "unseen appearance": {"appearance": "test"},
    "unseen appearance, high": {"appearance": "test", "difficulty": 1.0},
    "unseen appearance, MuJoCo": {"appearance": "test", "body": "mujoco"},
    AT_ONCE: {"appearance": "test", "difficulty": 1.0, "randomise": True},
    **{name: {"scene": name} for name in LAYOUTS},
    "camera 5° down": {"camera_pitch": 5.0},
    "camera 5° up": {"camera_pitch": -5.0},
    "forest": {"scene": "examples/forest.py"},
}
# Options without an effect on rows that see nothing.
SEEN = ("appearance", "camera_pitch")
UNSEEING_COLUMNS = tuple(
    name for name, other in {**COLUMNS, **ELSEWHERE}.items() if not set(SEEN) & set(other)
)
SEED_COLUMNS = ("high", "high, randomised", "unseen appearance")  # of other training runs
SUMMARY_COLUMNS = ("high", "clutter", "unseen appearance", AT_ONCE)  # of the README
AT_MEDIUM = ("metres", "falls", "images")


@dataclass(frozen=True)
class ResultRow:
    """One line of the table."""

    label: str
    evaluation: EvalConfig
    summary: str = ""  # its name in the README; empty: not shown there
    weights: int | None = None  # None: it sees nothing
    columns: tuple[str, ...] = (*COLUMNS, *ELSEWHERE)  # what is measured
    depth: bool = False  # it sees depth alone, so appearance has no effect

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.evaluation.baseline or self.evaluation.bundle

    def cell(self, column: str) -> EvalConfig:
        """Evaluation of a column; depth alone is evaluated without appearance."""
        other = {**COLUMNS, **ELSEWHERE}[column]
        if self.depth:
            other = {name: value for name, value in other.items() if name != "appearance"}
        return replace(self.evaluation, **other)


Measured = Sequence[tuple[ResultRow, dict[str, Figures]]]  # figures by column
SeedRow = tuple[str, dict[str, Figures]]  # label, figures by column


@dataclass(frozen=True)
class Aim:
    """A share of episodes that rows must reach in columns; no rows: all that see."""

    what: str
    at_least: float
    columns: tuple[str, ...]
    rows: tuple[str, ...] = ()
    measure: str = "success_rate"


AIMS = (
    Aim(
        f"`iap-depth`, everywhere but *{AT_ONCE}*",
        0.95,
        tuple(name for name in (*COLUMNS, *ELSEWHERE) if name not in ("low", AT_ONCE)),
        ("iap-depth",),
    ),
    Aim(f"`iap-depth`, *{AT_ONCE}*", 0.85, (AT_ONCE,), ("iap-depth",)),
    Aim(
        "`strided-looks`, `iap-rgbd`, *unseen appearance*",
        0.9,
        ("unseen appearance",),
        ("strided-looks", "iap-rgbd"),
    ),
    Aim("*medium, randomised*", 0.95, ("medium, randomised",)),
    Aim("collision-free, *medium*", 0.9, ("medium",), measure="collision_free_rate"),
    Aim("collision-free, *high*", 0.8, ("high",), measure="collision_free_rate"),
)


def full_table(measured: Measured) -> list[str]:
    """All rows and measured columns; metres, falls and images are of medium courses."""
    columns = _measured(measured, COLUMNS)
    lines = table_head(("high level", "weights", *columns, *AT_MEDIUM))
    for row, figures in measured:
        cells = [_cell(figures.get(name)) for name in columns]
        lines.append(table_line([*_title_cells(row), *cells, *_at_medium(row, figures)]))
    return lines


def elsewhere_table(measured: Measured) -> list[str]:
    """All rows measured with other appearances or in other scenes, as Markdown."""
    columns = _measured(measured, ELSEWHERE)
    lines = table_head(("high level", *columns))
    for row, figures in measured:
        cells = [_cell(figures.get(name)) for name in columns]
        if any(cell != "-" for cell in cells):
            lines.append(table_line([row.label, *cells]))
    return lines


def aims_table(measured: Measured) -> list[str]:
    """Aims, and the cells that missed them, as Markdown."""
    lines = table_head(("aim", "at least", "met", "missed", "not measured"))
    for aim in AIMS:
        shares = _aimed_at(aim, measured)
        known = [(cell, share) for cell, share in shares if share is not None]
        missed = [
            f"{cell} ({100.0 * share:.0f} %)" for cell, share in known if share < aim.at_least
        ]
        unknown = [cell for cell, share in shares if share is None]
        met = str(len(known) - len(missed))
        listed = [", ".join(cells) or "-" for cells in (missed, unknown)]
        lines.append(table_line([aim.what, f"{100.0 * aim.at_least:.0f} %", met, *listed]))
    return lines


def _aimed_at(aim: Aim, measured: Measured) -> list[tuple[str, float | None]]:
    """Cells of an aim, each once, and their measured shares, if any."""
    shares = []
    for row, figures in measured:
        sees = row.weights is not None and not row.evaluation.baseline
        if sees and (not aim.rows or row.name in aim.rows):
            evaluations: dict[EvalConfig, str] = {}
            for column in aim.columns:
                evaluations.setdefault(row.cell(column), column)
            for column in evaluations.values():
                cell = column if len(aim.columns) > 1 else f"`{row.name}`"
                shares.append((cell, figures.get(column, {}).get(aim.measure)))
    return shares


def seeds_table(rows: Sequence[SeedRow]) -> list[str]:
    """Policies and their other training runs, as Markdown."""
    columns = [name for name in SEED_COLUMNS if any(name in figures for _, figures in rows)]
    lines = table_head(("training run", *columns))
    for label, figures in rows:
        lines.append(table_line([label, *(_cell(figures.get(name)) for name in columns)]))
    return lines


def summary_table(measured: Measured) -> list[str]:
    """Some policies beside the teacher as Markdown: success / collision-free success [%]."""
    columns = _measured(measured, SUMMARY_COLUMNS)
    lines = table_head(("policy", "weights", *columns))
    for row, figures in measured:
        if row.summary:
            cells = [_summary_cell(figures.get(name)) for name in columns]
            lines.append(table_line([row.summary, str(row.weights or "-"), *cells]))
    return lines


def _measured(measured: Measured, columns: Iterable[str]) -> list[str]:
    """Columns with any measurement."""
    return [name for name in columns if any(name in figures for _, figures in measured)]


def _title_cells(row: ResultRow) -> list[str]:
    return [row.label, str(row.weights or "-")]


def _at_medium(row: ResultRow, figures: dict[str, Figures]) -> list[str]:
    """Cells of `AT_MEDIUM`; images only for rows that see."""
    medium = figures.get("medium")
    if medium is None:
        return ["-"] * len(AT_MEDIUM)
    images = f"{medium['images_per_episode']:.0f}" if row.weights else "-"
    return [f"{medium['distance_m']:.1f}", rate(medium, "fall_rate"), images]


def _cell(figures: Figures | None) -> str:
    """Success, and collision-free success where contacts were measured."""
    if figures is None:
        return "-"
    clean = figures.get("collision_free_rate")
    success = rate(figures, "success_rate")
    return success if clean is None else f"{success} / {100.0 * clean:.0f} %"


def _summary_cell(figures: Figures | None) -> str:
    """Success / collision-free success [%]."""
    if figures is None:
        return "-"
    rates = ("success_rate", "collision_free_rate")
    return " / ".join(f"{100.0 * figures[name]:.0f}" for name in rates)


def rate(figures: Figures, name: str) -> str:
    """A share of episodes and its 95 % interval [%]."""
    low, high = (100.0 * value for value in figures["interval_95"][name])
    return f"{100.0 * figures[name]:.0f} % [{low:.0f}, {high:.0f}]"
