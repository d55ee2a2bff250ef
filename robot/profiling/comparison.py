"""Comparison of two latency reports."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.runtime.latency import PERCENTILES

COLUMNS = (*dict(PERCENTILES), "max_us")


def read_report(path: Path) -> dict[str, Any]:
    """Read a latency report (latency.json).

    Raises:
        UserError: if the file is no such report.
    """
    report = read_json(path)
    try:
        for row in {
            **report["stages"],
            "period": report["period"],
            **report["sensor_age_us"],
        }.values():
            _require_numbers(row, "count", *COLUMNS)
        for row in report.get("stalls", {}).values():
            _require_numbers(row, "count", "max_us")
        if pace := report.get("repeated_commands"):
            _require_numbers(pace, "period_nominal_us", "due", "late")
        for bars in report.get("histograms", {}).values():
            if not bars or not all(
                _number(edge) > 0.0 and _number(count) > 0 for edge, count in bars
            ):
                raise ValueError("a histogram without bars, or with empty ones")
        report["machine"]["processor"], report["deadline_misses"], report["ticks"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: no latency report ({error!r})") from None
    return report


def _require_numbers(row: dict[str, Any], *names: str) -> None:
    for name in names:
        _number(row[name], name)


def _number(value: Any, name: str = "a value") -> float:
    """A finite number: JSON also has larger integers, infinity and NaN."""
    if not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise TypeError(f"{name} is {str(value)[:20]}, expected a finite number")
    return float(value)


def rows(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Stages that occurred, and the control period, by name."""
    found: dict[str, dict[str, float]] = {**report["stages"], "period": report["period"]}
    return {name: row for name, row in found.items() if row["count"]}


def format_comparison(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Table for a terminal: times of both [us], and the ratio of second to first."""
    a, b = rows(first), rows(second)
    header = f"{'':<20}" + "".join(f"{column.removesuffix('_us'):>26}" for column in COLUMNS)
    lines = [f"{header}   [us]"]
    for name in [*a, *(each for each in b if each not in a)]:
        cells = [_cell(a.get(name), b.get(name), column) for column in COLUMNS]
        lines.append(f"{name:<20}" + "".join(f"{cell:>26}" for cell in cells))
    for report in (first, second):
        machine, missed = report["machine"]["processor"], report["deadline_misses"]
        lines.append(f"{report.get('bundle')}: {missed} of {report['ticks']} missed, {machine}")
    return "\n".join(lines)


def _cell(a: dict[str, float] | None, b: dict[str, float] | None, column: str) -> str:
    before, after = (math.nan if row is None else row[column] for row in (a, b))
    share = f" ({after / before:.2f})" if before > 0.0 and after >= 0.0 else ""
    return " -> ".join("-" if math.isnan(v) else f"{v:.0f}" for v in (before, after)) + share
