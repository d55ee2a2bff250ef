"""The store of figures: which figures count, and that the pages show them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from docs.figures.input_order import order
from docs.figures.input_order.order import OrderConfig
from docs.figures.results import figure_store, navigation
from docs.figures.results.figure_store import (
    Figures,
    FigureStore,
    find_cell,
    keep_cell,
    read_figures,
    restamp,
)
from docs.figures.results.navigation import ROWS, NavigationConfig
from docs.figures.results.result_tables import ResultRow, aims_table, seeds_table, summary_table
from docs.figures.results.results import (
    POLICIES,
    ResultsConfig,
    learned_curves,
    shipped_rows,
    write_results,
)
from docs.figures.studies import learning
from docs.figures.studies.learning import LearningConfig
from pixelgait.export.markdown_sections import markers, write_between
from pixelgait.policies.evaluation.baselines import source_sha256
from pixelgait.policies.evaluation.evaluate import describe
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.errors import UserError
from pixelgait.sim.tasks import navigate, teacher
from pixelgait.sim.world import obstacles

DOCS = Path(__file__).resolve().parents[2] / "docs"


def measured(evaluation: EvalConfig) -> Figures:
    """Result of `evaluate` for two episodes, without any figures."""
    return {**describe(evaluation), "episodes": [{}, {}]}


def test_only_figures_of_the_same_evaluation_are_found(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    asked = EvalConfig("iap", episodes=2, difficulty=1.0)
    other = replace(asked, baseline="blind")
    FigureStore(path).keep(asked, {**measured(asked), "sha256": "of former weights"})
    assert FigureStore(path).find(asked) is None
    FigureStore(path).keep(asked, {**measured(asked), "commit": "an older one"})
    FigureStore(path).keep(other, measured(other))
    assert [kept["baseline"] for kept in json.loads(path.read_text())] == ["blind", None]
    kept = FigureStore(path).find(asked)
    assert kept is not None
    assert (kept["commit"], kept["episodes"]) == ("an older one", 2)
    assert FigureStore(path).find(replace(asked, episodes=3)) is None
    assert FigureStore(path).find(replace(asked, appearance="test")) is None
    path.write_text("[1, 2")
    with pytest.raises(UserError, match="no list of figures"):
        FigureStore(path)


def test_two_writers_keep_the_figures_of_each_other(tmp_path: Path) -> None:
    """Both have read the file before either wrote."""
    path = tmp_path / "figures.json"
    stores = [FigureStore(path), FigureStore(path)]
    asked = [EvalConfig("iap", episodes=2, difficulty=each) for each in (0.5, 1.0)]
    for store, evaluation in zip(stores, asked, strict=True):
        store.keep(evaluation, measured(evaluation))
    assert all(FigureStore(path).find(evaluation) for evaluation in asked)
    beside = FigureStore(tmp_path / "results.json", path)  # figures of another page count
    assert beside.find(asked[0]) is not None


@pytest.mark.parametrize(
    "evaluation",
    [
        EvalConfig("walk", episodes=2, baseline="teacher", scene="gates"),
        EvalConfig("navigator", episodes=2, scene="rooms"),
        EvalConfig("iap", episodes=2, randomise=True),
    ],
)
def test_figures_count_for_one_version_of_code_and_ranges_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluation: EvalConfig
) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps([{**measured(evaluation), "episodes": 2}]))  # of no known version
    assert FigureStore(path).find(evaluation) is None
    FigureStore(path).keep(evaluation, measured(evaluation))
    assert FigureStore(path).find(evaluation) is not None
    assert len(read_figures(path)) == 1
    for module in (teacher, navigate):
        other = tmp_path / Path(str(module.__file__)).name
        other.write_text(f"# a comment\n{Path(str(module.__file__)).read_text()}")
        monkeypatch.setattr(module.__spec__, "origin", str(other))
    if evaluation.randomise:
        monkeypatch.setattr(figure_store, "asdict", lambda _: {"narrower": True})
    assert FigureStore(path).find(evaluation) is None
    assert restamp(path) == 1  # after edits that were shown to be bit-equal
    assert restamp(path) == 0
    assert FigureStore(path).find(evaluation) is not None


def test_the_map_of_a_teacher_is_part_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source_sha256("teacher")
    other = tmp_path / "obstacles.py"
    other.write_text(Path(obstacles.__file__).read_text().replace("0.02", "0.03"))
    monkeypatch.setattr(obstacles.__spec__, "origin", str(other))
    assert source_sha256("teacher") != before


def test_figures_of_a_cell_replace_those_of_its_former_definition(tmp_path: Path) -> None:
    kept: list[Figures] = []
    names = {"table": "order-high", "name": "cnn", "seen": "70 % black", "episodes": 1}
    for hidden in (0.6, 0.7):
        cell = {**names, "defined": {"hidden": hidden}}
        assert find_cell(kept, cell) is None
        keep_cell(tmp_path / "kept.json", kept, cell, {"success_rate": hidden})
    assert [each["success_rate"] for each in read_figures(tmp_path / "kept.json")] == [0.7]
    assert find_cell(kept, cell) == kept[0]


def test_known_figures_are_shown_and_nothing_is_measured_again(tmp_path: Path) -> None:
    """The tables of the pages are those of the figures beside them."""
    copies = {}
    for name in ("results.md", "results.json", "../README.md"):
        copies[name] = tmp_path / Path(name).name
        copies[name].write_bytes((DOCS / name).read_bytes())
    page, figures, readme = copies.values()
    config = ResultsConfig(page=page, readme=readme, figures=figures, draw=False)
    write_results(replace(config, rows=("iap",), columns=("medium",)))
    for name, copy in copies.items():
        assert copy.read_text() == (DOCS / name).read_text(), f"make results would change {name}"
    with pytest.raises(UserError, match="--columns: choose from low"):
        write_results(replace(config, columns=("nowhere",)))


def test_the_tables_of_navigation_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, kept = tmp_path / "indoors.md", tmp_path / "navigation.json"
    page.write_text((DOCS / "indoors.md").read_text())
    kept.write_bytes((DOCS / "navigation.json").read_bytes())
    config = NavigationConfig(page=page, figures=kept, rows=("**navigator**",))
    navigation.write_tables(config)
    assert kept.read_bytes() == (DOCS / "navigation.json").read_bytes(), "was measured again"
    assert page.read_text() == (DOCS / "indoors.md").read_text()
    with pytest.raises(UserError, match="--rows: choose from"):
        navigation.write_tables(replace(config, rows=("navigator, seed 0",)))


def test_the_tables_of_studies_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, text = tmp_path / "studies.md", (DOCS / "studies.md").read_text()
    page.write_text(text)
    learning.write_tables(LearningConfig(page, DOCS / "learning.json", measure=False))
    order.write_tables(OrderConfig(page, DOCS / "order.json", tables=()))
    assert page.read_text() == text


def test_every_planned_cell_can_be_evaluated() -> None:
    """A refusal would end `make results` after hours."""
    cells = [(row.evaluation, row.cell(name)) for row in shipped_rows() for name in row.columns]
    cells += [(row, row) for row in ROWS.values()]
    bundles = {name: load_bundle(name) for name in {shipped.bundle for shipped, _ in cells}}
    for shipped, evaluation in cells:
        evaluation.check()
        evaluation.check_bundle(bundles[shipped.bundle])


def test_aims_are_met_missed_or_not_measured() -> None:
    """A policy that sees depth alone counts once for both appearances."""
    rows = {row.name: row for row in shipped_rows() if not row.evaluation.baseline}
    depth = rows["iap-depth"]
    assert depth.cell("unseen appearance, high") == depth.cell("high")
    reached = {"medium": 1.0, "unseen appearance": 1.0, "high": 0.9}
    figures = {
        name: {"success_rate": share, "collision_free_rate": share / 2}
        for name, share in reached.items()
    }
    table = aims_table([(depth, figures), (ResultRow("blind", EvalConfig("iap")), {})])
    assert "| 95 % | 1 | high (90 %) | medium, randomised, " in table[2]
    assert table[6].endswith("| 90 % | 0 | `iap-depth` (50 %) | - |")


def test_the_summary_shows_success_and_collision_free_success() -> None:
    figures = {"success_rate": 1.0, "collision_free_rate": 0.5}
    rows = [
        (ResultRow("`iap`", EvalConfig("iap"), summary, 1786), {"high": figures})
        for summary in ("IAP", "")
    ]
    assert summary_table(rows) == [
        "| policy | weights | high |",
        "|---|---|---|",
        "| IAP | 1786 | 100 / 50 |",
    ]


def test_other_training_runs_have_a_row_and_a_curve_without_their_weights() -> None:
    figures = {"success_rate": 0.8, "interval_95": {"success_rate": [0.7, 0.9]}}
    rows = [("`iap`", {"high": figures}), ("`iap`, seed 0", {})]
    assert seeds_table(rows)[2:] == ["| `iap` | 80 % [70, 90] |", "| `iap`, seed 0 | - |"]
    imitated, evolved = learned_curves(DOCS / "seeds.json")
    assert {*POLICIES} < {*imitated}
    assert [*imitated["iap-depth"]] == ["shipped", "seed 1", "seed 2"]
    assert "iap, by trial alone" in evolved


def test_only_text_between_the_markers_changes(tmp_path: Path) -> None:
    page, (begin, end) = tmp_path / "page.md", markers("results-summary", "results")
    assert begin == "<!-- results-summary: written by make results -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for lines in (["new"], ["newer", "still"]):
        write_between(page, "results-summary", "results", lines)
        assert page.read_text() == "\n".join(["before", begin, *lines, end, "after\n"])
    page.write_text(f"{end}\n{begin}")
    with pytest.raises(UserError, match="no lines '<!-- results-summary"):
        write_between(page, "results-summary", "results", [])
    with pytest.raises(UserError, match="no lines"):
        write_between(tmp_path / "gone.md", "results", "results", [])
