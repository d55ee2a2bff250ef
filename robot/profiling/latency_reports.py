"""Latency reports: reading and checking, comparison of two, page with tables and histograms."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.runtime.latency import PERCENTILES, STAGES

# Histogram [px]: place of its axes, and margins.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 150, 56, 8, 10, 38
MOST_TICKS = 9  # of the time axis
NS_PER_US = math.log2(1000.0)
MEANINGS = {**STAGES, "period": "from one control step to the next"}
COLOURS = ("#3366cc", "#dc7f2f")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
small { font-weight: normal; color: #555; }
svg { display: block; margin: .3rem 0 1.2rem; } text { font-size: 11px; fill: #555; }
"""
COLUMNS = (*dict(PERCENTILES), "max_us")


def page(reports: Sequence[Mapping[str, Any]]) -> str:
    """The HTML page of one report, or of two that are compared."""
    title = " and ".join(html.escape(str(report.get("bundle"))) for report in reports)
    parts = [_about(report, COLOURS[i]) for i, report in enumerate(reports)]
    names = dict.fromkeys(name for report in reports for name in report.get("histograms", {}))
    parts += [_histogram(name, reports) for name in names]
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Latency of {title}</title>"
        f"<style>{STYLE}</style><h1>Latency of {title}</h1>{''.join(parts)}</html>\n"
    )


def _about(report: Mapping[str, Any], colour: str) -> str:
    machine = ", ".join(f"{k} {v}" for k, v in report["machine"].items())
    head = "".join(f"<th>{column.removesuffix('_us')}</th>" for column in ("count", *COLUMNS))
    body = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{row['count']:.0f}</td>"
        + "".join(f"<td>{row[column]:.0f}</td>" for column in COLUMNS)
        + "</tr>"
        for name, row in rows(dict(report)).items()
    )
    late = "; ".join(
        f"{cause}: {row['count']}, at most {row['max_us'] / 1e3:.0f} ms"
        for cause, row in report.get("stalls", {}).items()
    )
    return (
        f"<h2 style='color:{colour}'>{html.escape(str(report.get('bundle')))}</h2>"
        f"<p>{html.escape(machine)}.<br>{report['ticks']} steps, "
        f"{report['deadline_misses']} deadlines missed. "
        f"Late by: {html.escape(late or 'nothing')}.</p>"
        f"<table><tr><th>[us]</th>{head}</tr>{body}</table>"
    )


def _histogram(name: str, reports: Sequence[Mapping[str, Any]]) -> str:
    """Durations of a stage, both axes logarithmic: rare long ones matter most."""
    found = [report.get("histograms", {}).get(name, []) for report in reports]
    edges = [(_lower_edge(edge), edge) for bars in found for edge, _ in bars]
    least = math.log2(min(lower for lower, _ in edges)) - 0.1
    most = math.log2(max(upper for _, upper in edges)) + 0.1
    tallest = max(math.log1p(count) for bars in found for _, count in bars)

    def x(edge_us: float) -> float:
        return LEFT + (math.log2(edge_us) - least) / (most - least) * (WIDTH - LEFT - RIGHT)

    def y(count: float) -> float:
        return HEIGHT - (HEIGHT - TOP) * math.log1p(count) / tallest

    bars = "".join(
        f"<rect x='{x(lower):.2f}' y='{y(count):.1f}' width='{x(edge) - x(lower):.2f}' "
        f"height='{HEIGHT - y(count):.1f}' fill='{COLOURS[i]}' fill-opacity='{opacity}'>"
        f"<title>{count} up to {edge:.0f} us</title></rect>"
        for opacity in [1 if len(reports) == 1 else 0.6]
        for i, each in enumerate(found)
        for edge, count in each
        for lower in [_lower_edge(edge)]
    )
    times = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
    shown = [time_us for time_us in times if least <= math.log2(time_us) <= most]
    shown = shown[:: max(1, math.ceil(len(shown) / MOST_TICKS))]
    counts = [10**power for power in range(20) if math.log1p(10**power) <= tallest * 1.001]
    ticks = "".join(
        f"<text x='{x(time_us):.1f}' y='{HEIGHT + 15}' text-anchor='middle'>"
        f"{format_us(time_us)}</text>"
        for time_us in shown
    ) + "".join(
        f"<text x='{LEFT - 6}' y='{y(count) + 4:.1f}' text-anchor='end'>{count}</text>"
        for count in counts
    )
    labels = (
        f"<text x='{(LEFT + WIDTH - RIGHT) / 2:.0f}' y='{HEIGHT + 32}' text-anchor='middle'>"
        f"time</text><text transform='translate(12 {HEIGHT / 2:.0f}) rotate(-90)' "
        f"text-anchor='middle'>steps</text>"
    )
    axes = f"<path d='M{LEFT} {TOP}V{HEIGHT}H{WIDTH - RIGHT}' fill='none' stroke='#999'/>"
    size = f"width='{WIDTH}' height='{HEIGHT + BOTTOM}'"
    meaning = f" <small>{html.escape(MEANINGS[name])}</small>" if name in MEANINGS else ""
    drawing = f"<svg {size} role='img'>{bars}{axes}{ticks}{labels}</svg>"
    return f"<h3>{html.escape(name)}{meaning}</h3>{drawing}"


def _lower_edge(edge_us: float) -> float:
    """Lower edge [us] of a bar of `Histogram.coarse`: 8 bars of equal width an octave [ns]."""
    octave = math.floor(math.log2(edge_us) + NS_PER_US) - NS_PER_US
    width_us: float = 2.0**octave / 8.0
    return edge_us - width_us


def format_us(time_us: float) -> str:
    """A time with the unit that suits it."""
    if time_us >= 1e6:
        return f"{time_us / 1e6:g} s"
    return f"{time_us / 1e3:g} ms" if time_us >= 1e3 else f"{time_us:g} us"


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
