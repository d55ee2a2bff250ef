"""Results: the tables of the documentation, and where they are written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from docs.figures.results import results
from docs.figures.results.figure_store import FigureStore, keep_cell
from docs.figures.results.navigation import ROWS, NavigationConfig, write_tables
from docs.figures.results.result_tables import (
    ResultRow,
    aims_table,
    elsewhere_table,
    full_table,
    seeds_table,
    summary_table,
)
from docs.figures.results.results import ResultsConfig, seed_rows, shipped_rows, write_results
from pixelgait.export import plots
from pixelgait.export.markdown_sections import markers, write_between
from pixelgait.policies.evaluation.baselines import behaviour_sha256, source_sha256
from pixelgait.policies.evaluation.evaluate import describe
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import CONTRACT, SHIPPED, load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.sim.tasks import navigate, teacher
from pixelgait.sim.world import obstacles

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "results.json"


def figures(success: float) -> dict[str, Any]:
    clean = success / 2.0
    rates = {"success_rate": success, "collision_free_rate": clean, "fall_rate": 0.0}
    intervals = {
        "success_rate": [success - 0.1, success],
        "collision_free_rate": [clean - 0.1, clean + 0.1],
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
        "| **IAP**, shipped | 1786 | 100 % [90, 100] / 50 % | 100 % [90, 100] / 50 % "
        "| 100 % [90, 100] / 50 % | 12.0 | 0 % [0, 4] | 70 |",
        "| IAP, seed 0 | 1786 | - | 80 % [70, 80] / 40 % | - | 12.0 | 0 % [0, 4] | 70 |",
    ]


def test_other_seeds_have_a_table_of_their_own() -> None:
    assert seeds_table([*MEASURED[:1], (MEASURED[1][0], {})]) == [
        "| bundle | high |",
        "|---|---|",
        "| **IAP**, shipped | 100 % [90, 100] / 50 % |",
        "| IAP, seed 0 | - |",
    ]


def test_every_bundle_beside_a_shipped_policy_has_a_row_and_a_name_that_walks() -> None:
    rows = {row.name: row for row in seed_rows()}
    folders = [*SHIPPED.glob(f"*/{CONTRACT}"), *SHIPPED.glob(f"*/others/*/{CONTRACT}")]
    policies = {*results.POLICIES, *results.COMPARED}
    there = [each.parent.relative_to(SHIPPED) for each in folders]
    assert sorted(rows) == sorted(str(each) for each in there if each.parts[0] in policies)
    for row in rows.values():
        assert row.weights == rows[row.name.split("/")[0]].weights
        load_bundle(row.evaluation.bundle)
    assert rows["iap-rgbd/others/seed-1"].columns[-1] == "unseen appearance"
    assert "unseen appearance" not in rows["iap/others/seed-0"].columns


def test_the_summary_shows_success_and_collision_free_success_of_rows_with_a_short_name() -> None:
    assert summary_table(MEASURED) == [
        "| policy | weights | high |",
        "|---|---|---|",
        "| IAP | 1786 | 100 / 50 |",
    ]


def test_what_was_measured_elsewhere_has_a_table_of_its_own() -> None:
    iap = (MEASURED[0][0], {"medium": figures(1.0), "slalom": figures(0.3)})
    assert elsewhere_table([iap, MEASURED[1]]) == [
        "| high level | slalom |",
        "|---|---|",
        "| **IAP**, shipped | 30 % [20, 30] / 15 % |",
    ]


def test_aims_are_met_missed_or_not_measured() -> None:
    cells = {"medium": figures(1.0), "high": figures(0.8), "all at once": figures(0.9)}
    measured = [
        MEASURED[0],
        (ResultRow("depth", EvalConfig("iap-depth"), "", 15699), cells),
        (ResultRow("teacher", EvalConfig("walk", baseline="teacher"), ""), cells),
        (ResultRow("blind", EvalConfig("iap", baseline="blind"), "", 1786), {}),
    ]
    everywhere, at_once, appearance, _, medium, high = aims_table(measured)[2:]
    assert "| 95 % | 1 | high (80 %) | medium, randomised, " in everywhere
    assert at_once.endswith("| 85 % | 1 | - | - |")
    assert appearance.endswith("| 90 % | 0 | - | - |")  # of rows that are not there
    assert medium.endswith("| 90 % | 0 | `iap` (50 %), `iap-depth` (50 %) | - |")
    assert high.endswith("| 80 % | 0 | `iap` (50 %), `iap-depth` (40 %) | - |")


def test_looks_are_nothing_to_who_sees_depth_alone() -> None:
    """Its cells are those without them, and none counts twice for an aim."""
    rows = {row.name: row for row in shipped_rows() if not row.evaluation.baseline}
    depth, colours = rows["iap-depth"], rows["iap-rgbd"]
    assert depth.cell("unseen appearance, high") == depth.cell("high")
    assert colours.cell("unseen appearance, high") != colours.cell("high")
    known = {"medium": figures(1.0), "unseen appearance": figures(1.0), "high": figures(0.9)}
    everywhere = aims_table([(depth, known)])[2]
    assert "| 95 % | 1 | high (90 %) |" in everywhere
    note = EvalConfig("rover", appearance="test").note(load_bundle("rover"))
    assert note == "note: this policy sees depth alone, of which --appearance changes nothing"


def test_every_cell_that_is_planned_can_be_evaluated() -> None:
    """A column that an evaluation refuses would end `make results` after hours."""
    for row in shipped_rows():
        bundle = load_bundle(row.evaluation.bundle)
        for column in row.columns:
            row.cell(column).check()
            row.cell(column).check_bundle(bundle)
    first, iap = shipped_rows()[:2]
    assert "high, MuJoCo" in first.columns
    assert "unseen appearance" not in first.columns
    assert "unseen appearance, MuJoCo" in iap.columns
    for evaluation in ROWS.values():
        evaluation.check()
        evaluation.check_bundle(load_bundle(evaluation.bundle))


def test_only_figures_of_the_same_evaluation_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    asked = EvalConfig("iap", episodes=2, difficulty=1.0)
    other = replace(asked, baseline="blind")
    measured = {**describe(asked), "commit": "an older one", "episodes": [{}, {}]}
    FigureStore(path).keep(asked, {**measured, "sha256": "of former weights"})
    assert FigureStore(path).find(asked) is None
    FigureStore(path).keep(asked, measured)
    FigureStore(path).keep(other, {**describe(other), "episodes": [{}, {}]})
    assert [kept["baseline"] for kept in json.loads(path.read_text())] == ["blind", None]
    kept = FigureStore(path).find(asked)
    assert kept is not None
    assert kept["commit"] == "an older one"
    assert kept["episodes"] == 2
    assert "requested_episodes" not in kept
    assert FigureStore(path).find(replace(asked, episodes=3)) is None
    assert FigureStore(path).find(replace(asked, appearance="test")) is None
    path.write_text("[1, 2")
    with pytest.raises(UserError, match="no list of figures"):
        FigureStore(path)


def test_who_measures_beside_another_keeps_what_the_other_has_kept(tmp_path: Path) -> None:
    """Both have read the file before either had anything to keep, as on two cores."""
    path = tmp_path / "figures.json"
    stores = [FigureStore(path), FigureStore(path)]
    asked = [EvalConfig("iap", episodes=2, difficulty=each) for each in (0.5, 1.0)]
    for store, evaluation in zip(stores, asked, strict=True):
        store.keep(evaluation, {**describe(evaluation), "episodes": [{}, {}]})
    assert all(FigureStore(path).find(evaluation) for evaluation in asked)
    mine: list[dict[str, object]] = []
    others: list[dict[str, object]] = []
    keep_cell(tmp_path / "cells.json", mine, {"eyes": "cnn"}, {"error": 0.1})
    keep_cell(tmp_path / "cells.json", others, {"eyes": "vit"}, {"error": 0.2})
    assert [each["eyes"] for each in others] == ["cnn", "vit"]


def test_what_another_page_has_measured_is_not_measured_again(tmp_path: Path) -> None:
    evaluation, other = EvalConfig("walk", baseline="teacher"), tmp_path / "navigation.json"
    kept = FigureStore(other).keep(evaluation, {**describe(evaluation), "episodes": [0] * 100})
    mine = FigureStore(tmp_path / "results.json", other)
    assert mine.find(replace(evaluation, episodes=100)) == kept
    assert mine.find(replace(evaluation, episodes=100, scene="gates")) is None
    assert not (tmp_path / "results.json").exists()


def test_figures_of_a_teacher_count_as_long_as_his_code_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    asked = EvalConfig("walk", episodes=1, baseline="teacher", scene="gates")
    measured = {**describe(asked), "episodes": [{}]}
    path.write_text(json.dumps([{**measured, "episodes": 1}]))  # by nobody knows which code
    assert FigureStore(path).find(asked) is None
    FigureStore(path).keep(asked, measured)
    assert FigureStore(path).find(asked) is not None
    assert len(json.loads(path.read_text())) == 1
    other = tmp_path / "teacher.py"
    moved = (
        Path(teacher.__file__).read_text().replace("import math\n", "# why\nimport math as math\n")
    )
    assert moved != Path(teacher.__file__).read_text()
    other.write_text(moved)
    with monkeypatch.context() as patched:
        patched.setattr(teacher, "__file__", str(other))
        assert FigureStore(path).find(asked) is not None
    other.write_text(Path(teacher.__file__).read_text().replace("TURN_GAIN = 2.0", "TURN_GAIN = 1"))
    monkeypatch.setattr(teacher, "__file__", str(other))
    assert FigureStore(path).find(asked) is None


def test_ways_through_houses_that_were_measured_otherwise_are_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures.json"
    asked = EvalConfig("navigator", episodes=1, scene="rooms")
    measured = {**describe(asked), "episodes": [{}]}
    path.write_text(json.dumps([{**measured, "episodes": 1}]))
    assert FigureStore(path).find(asked) is None
    FigureStore(path).keep(asked, measured)
    assert FigureStore(path).find(asked) is not None
    other = tmp_path / "navigate.py"
    other.write_text(Path(navigate.__file__).read_text().replace("= STOPPED_STEPS", "= 1"))
    monkeypatch.setattr(navigate, "__file__", str(other))
    assert FigureStore(path).find(asked) is None


@pytest.mark.parametrize(
    ("written", "instead", "same"),
    [
        ('"""A map-aware high level', '"""A low level', True),
        ("import numpy as np\n", "import numpy as np\nimport cv2\n", True),
        ("TURN_GAIN = 2.0  # [1/s]", "TURN_GAIN = 2.0  # rad/s", True),
        (
            "    return steer(_way_round(error, turned))",
            "    return steer(\n  _way_round(error, turned))",
            True,
        ),
        ("TURN_GAIN = 2.0", "TURN_GAIN = 2.1", False),
        ("max(0.0, math.cos", "max(0.1, math.cos", False),
        (
            "            self._yaw = yaw\n        turned",
            "        self._yaw = yaw\n        turned",
            False,
        ),
    ],
)
def test_code_is_another_when_it_does_something_else(
    tmp_path: Path, written: str, instead: str, same: bool
) -> None:
    source = Path(teacher.__file__).read_text()
    assert source.count(written) == 1
    other = ModuleType("other")
    other.__file__ = str(tmp_path / "other.py")
    Path(other.__file__).write_text(source.replace(written, instead))
    assert (behaviour_sha256(other) == behaviour_sha256(teacher)) == same


def test_the_map_a_teacher_decides_by_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source_sha256("teacher", "gates")
    other = tmp_path / "obstacles.py"
    source = Path(obstacles.__file__).read_text()
    other.write_text(source.replace("LEAST_HEIGHT_M = 0.02", "LEAST_HEIGHT_M = 0.03"))
    monkeypatch.setattr(obstacles, "__file__", str(other))
    assert source_sha256("teacher", "gates") != before


def test_robots_randomised_within_unknown_ranges_are_others(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    asked = EvalConfig("iap", episodes=1, randomise=True)
    measured = {**describe(asked), "episodes": [{}]}
    for ranges in ({}, {"randomisation_sha256": "of narrower ones"}):
        path.write_text(json.dumps([{**measured, **ranges, "episodes": 1}]))
        assert FigureStore(path).find(asked) is None
    FigureStore(path).keep(asked, measured)
    assert FigureStore(path).find(asked) is not None
    assert len(json.loads(path.read_text())) == 1


def test_every_shipped_run_has_a_line_of_its_own_among_the_curves(tmp_path: Path) -> None:
    """Also those that lie in bundles of their own."""
    lines: list[str] = []

    def draw(
        path: Path, imitated: dict[str, dict[str, plots.Curve]], tried: dict[str, plots.Curve]
    ) -> None:
        lines.extend(f"{policy}, {run}" for policy, runs in imitated.items() for run in runs)
        lines.extend(tried)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "learning_curves", draw)
        results._draw_curves(tmp_path / "curves.png")
    runs = [results._runs(name) for name in (*results.POLICIES, *results.COMPARED)]
    assert len({*lines}) == len(lines) == sum(map(len, runs))
    assert {"iap-depth, shipped", "iap-depth, seed 1", "vit, shipped"} <= {*lines}


def test_known_figures_are_shown_and_nothing_is_measured_again(tmp_path: Path) -> None:
    """The tables of the pages are those of the figures beside them."""
    pages = {name: tmp_path / Path(name).name for name in ("docs/results.md", "README.md")}
    for name, copy in pages.items():
        copy.write_text((ROOT / name).read_text())
    one, other = pages.values()
    known = tmp_path / "results.json"
    known.write_bytes(FIGURES.read_bytes())
    config = ResultsConfig(
        page=one, readme=other, figures=known, rows=("iap",), columns=("medium",), draw=False
    )
    write_results(config)
    assert known.read_bytes() == FIGURES.read_bytes()
    for name, copy in pages.items():
        assert copy.read_text() == (ROOT / name).read_text(), f"make results would change {name}"
    with pytest.raises(UserError, match="--columns: choose from low"):
        write_results(replace(config, columns=("nowhere",)))


def test_the_tables_of_navigation_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, kept = tmp_path / "indoors.md", tmp_path / "navigation.json"
    page.write_text((ROOT / "docs/indoors.md").read_text())
    kept.write_bytes((ROOT / "docs/navigation.json").read_bytes())
    write_tables(NavigationConfig(page=page, figures=kept, rows=("**navigator**",)))
    assert kept.read_bytes() == (ROOT / "docs/navigation.json").read_bytes(), "was measured again"
    assert page.read_text() == (ROOT / "docs/indoors.md").read_text()


@pytest.mark.slow
def test_a_row_of_navigation_is_measured_once(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "figures.json"
    parts = ("navigation", "teacher")
    page.write_text("\n".join(line for part in parts for line in markers(part, "navigation")))
    config = NavigationConfig(page=page, figures=kept, episodes=1, workers=1, rows=("`rooms`",))
    write_tables(config)
    assert "| `rooms` | 1 | 100 % [21, 100] | 100 % [21, 100] | 0 % [0, 79] |" in page.read_text()
    (figures,) = json.loads(kept.read_text())
    assert (figures["bundle"], figures["scene"], figures["episodes"]) == ("walk", "rooms", 1)
    kept.write_text(kept.read_text().replace('"success_rate": 1.0', '"success_rate": 0.5'))
    write_tables(config)
    assert "| `rooms` | 1 | 50 % [21, 100] |" in page.read_text()
    with pytest.raises(UserError, match="--rows: choose from"):
        write_tables(replace(config, rows=("nowhere",)))
    with pytest.raises(UserError, match="--episodes: expected so many times 5: written houses"):
        write_tables(replace(config, rows=(), episodes=12))


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
