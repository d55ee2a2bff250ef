"""The table of faults runs, and says when a fault ends otherwise than it must."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pixelgait.export.faults.cases import GROUPS, JOINTS
from pixelgait.export.faults.table import FaultsConfig, report
from pixelgait.export.faults.trial import WALKS, run_case
from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.errors import UserError


def test_a_row_is_measured_and_written(tmp_path: Path) -> None:
    page, figures = tmp_path / "faults.md", tmp_path / "faults.json"
    report(FaultsConfig(only="velocities 1000 times", page=page, json=figures))
    (row,) = json.loads(figures.read_text())
    assert row["passed"]
    assert row["happened"] == "damps"
    assert row["reaction_ms"] > 0.0
    assert row["outside_rad"] == 0.0
    assert "turns at" in page.read_text()


def test_what_ends_wrongly_is_told() -> None:
    case = next(each for each in JOINTS if each.name == "a velocity that is inf")
    assert not run_case(replace(case, expected=WALKS), load_bundle("iap")).passed
    assert not run_case(replace(case, says="something else"), load_bundle("iap")).passed
    with pytest.raises(UserError, match="no fault is called 'nowhere'"):
        report(FaultsConfig(only="nowhere"))


def test_faults_are_many_and_named_once() -> None:
    names = [f"{group}: {case.name}" for group, cases in GROUPS.items() for case in cases]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
