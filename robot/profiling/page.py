"""Latency reports as one HTML file: tables and histograms, nothing to load."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pixelgait.robot.profiling.comparison import COLUMNS, rows

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 150, 8, 22  # of a histogram [px]
COLOURS = ("#3366cc", "#dc7f2f")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
svg { display: block; margin: .3rem 0 1.2rem; } text { font-size: 11px; fill: #555; }
"""


def page(reports: Sequence[Mapping[str, Any]]) -> str:
    """Of one report, or of two that are compared."""
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
    """Bars over a logarithmic axis, heights logarithmic too: the rare is what matters."""
    found = [report.get("histograms", {}).get(name, []) for report in reports]
    edges = [edge for bars in found for edge, _ in bars]
    least, most = math.log2(min(edges)) - 0.25, math.log2(max(edges)) + 0.125
    tallest = max(math.log1p(count) for bars in found for _, count in bars)
    scale = (WIDTH - 2 * LEFT) / (most - least)

    def x(edge_us: float) -> float:
        return LEFT + (math.log2(edge_us) - least) * scale

    bars = "".join(
        f"<rect x='{x(edge) - scale / 8:.1f}' y='{HEIGHT - tall:.1f}' width='{scale / 8:.1f}' "
        f"height='{tall:.1f}' fill='{COLOURS[i]}' fill-opacity='.6'>"
        f"<title>{count} up to {edge:.0f} us</title></rect>"
        for i, each in enumerate(found)
        for edge, count in each
        for tall in [(HEIGHT - 10) * math.log1p(count) / tallest]
    )
    ticks = "".join(
        f"<text x='{x(10.0**power):.1f}' y='{HEIGHT + 15}'>{10**power} us</text>"
        for power in range(8)
        if least <= math.log2(10.0**power) <= most - 0.1
    )
    size = f"width='{WIDTH}' height='{HEIGHT + BOTTOM}'"
    return f"<h3>{html.escape(name)}</h3><svg {size} role='img'>{bars}{ticks}</svg>"
