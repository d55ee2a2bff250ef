"""Results: the tables of the documentation, and where they are written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pixelgait.export.reports.generated import markers, write_between
from pixelgait.export.reports.result_tables import ResultRow, full_table, runs_table, summary_table
from pixelgait.export.reports.results import is_of
from pixelgait.robot.errors import UserError
from pixelgait.sim.evaluate import EvalConfig, describe


def figures(success: float) -> dict[str, Any]:
    clean = success / 2.0
    rates = {"success_rate": success, "clean_success_rate": clean, "fall_rate": 0.0}
    intervals = {
        "success_rate": [success - 0.1, success],
        "clean_success_rate": [clean - 0.1, clean + 0.1],
        "fall_rate": [0.0, 0.04],
    }
    return {**rates, "distance_m": 11.96, "images_per_episode": 70.4, "interval_95": intervals}


MEASURED = [
    (
        ResultRow("**IAP**, shipped", EvalConfig("iap"), "IAP", 1786),
        {name: figures(1.0) for name in ("low", "medium", "high")},
    ),
    (ResultRow("IAP, seed 0", EvalConfig("iap"), "", 1786), {"medium": figures(0.8)}),
]


def test_what_was_not_measured_is_a_gap_and_in_no_row_no_column() -> None:
    assert full_table(MEASURED)[2:] == [
        "| **IAP**, shipped | 1786 | 100 % [90, 100] | 100 % [90, 100] | 100 % [90, 100] "
        "| 50 % [40, 60] | 50 % [40, 60] | 12.0 | 0 % [0, 4] | 70 |",
        "| IAP, seed 0 | 1786 | - | 80 % [70, 80] | - | 40 % [30, 50] | - "
        "| 12.0 | 0 % [0, 4] | 70 |",
    ]


def test_runs_have_a_table_of_their_own() -> None:
    assert runs_table(MEASURED[1:]) == [
        "| run | weights | medium | medium, randomised | metres | falls | images |",
        "|---|---|---|---|---|---|---|",
        "| IAP, seed 0 | 1786 | 80 % [70, 80] | - | 12.0 | 0 % [0, 4] | 70 |",
    ]


def test_the_summary_holds_the_shipped_policies() -> None:
    assert summary_table(MEASURED) == [
        "| high level | weights | medium | high | medium, clean | high, clean |",
        "|---|---|---|---|---|---|",
        "| IAP | 1786 | 100 % [90, 100] | 100 % [90, 100] | 50 % [40, 60] | 50 % [40, 60] |",
    ]


def test_only_figures_of_the_same_evaluation_are_kept() -> None:
    asked = EvalConfig("iap", episodes=2, difficulty=1.0)
    kept = {**describe(asked), "commit": "an older one", "episodes": [{}, {}]}
    assert is_of(kept, asked)
    assert not is_of(kept, replace(asked, episodes=3))
    assert not is_of(kept, replace(asked, baseline="blind"))
    assert not is_of({**kept, "sha256": "of another bundle"}, asked)


def test_only_what_is_between_the_markers_changes(tmp_path: Path) -> None:
    page, (begin, end) = tmp_path / "page.md", markers("results-summary", "results")
    assert begin == "<!-- results-summary: written by make results -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for lines in (["new"], ["newer", "still"]):
        write_between(page, "results-summary", "results", lines)
        text = "\n".join(["before", begin, *lines, end, "after\n"])
        assert page.read_text() == text
    page.write_text(f"{end}\n{begin}")
    with pytest.raises(UserError, match="no lines '<!-- results-summary"):
        write_between(page, "results-summary", "results", [])
    with pytest.raises(UserError, match="no lines"):
        write_between(tmp_path / "gone.md", "results", "results", [])
