"""Scripts that write the documentation's figures: each runs once, with as little as it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import pytest

from docs.figures.results.alarms import PART as ALARMS
from docs.figures.results.alarms import AlarmsConfig, Walk, walked, write_table
from docs.figures.results.navigation import NavigationConfig, write_tables
from docs.figures.studies import features, fits, gallery, performer
from docs.figures.studies.features import FeaturesConfig
from docs.figures.studies.fits import FitsConfig
from docs.figures.studies.gallery import GalleryConfig, write_gallery
from docs.figures.studies.performer import PerformerConfig
from pixelgait.export.markdown_sections import markers
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.errors import UserError

pytestmark = pytest.mark.long


def empty_page(folder: Path, script: str, *parts: str) -> Path:
    """A page with the marker lines that a script's tables go between."""
    page = folder / "page.md"
    page.write_text("\n".join(line for part in parts for line in markers(part, script)))
    return page


def rows_of(page: Path) -> list[list[str]]:
    """Cells of the rows of a page's table, without its head."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_features_script_writes_a_table_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "KERNELS", {"hybrid (4, 1)": ("hybrid", 4, 1)})
    page, picture = empty_page(tmp_path, features.PART, features.PART), tmp_path / "features.png"
    features.write_study(FeaturesConfig(8, seconds=0.01, draws=3, page=page, picture=picture))
    rows = rows_of(page)
    assert [row[0] for row in rows] == ["ReLU", "hybrid (4, 1)", "brute force"]
    assert all(0.0 < float(ms) < 100.0 for _, ms, *_ in rows)
    assert rows[-1][2] == "-"  # brute force estimates nothing
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_performer_script_writes_times_by_size_and_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = empty_page(tmp_path, performer.PART, performer.PART)
    monkeypatch.setattr(performer, "SIZES", ((32, 32),))
    monkeypatch.setattr(performer, "PATCHES", (8, 16))
    performer.write_table(PerformerConfig(seconds=0.01, page=page))
    rows = rows_of(page)
    assert [row[0] for row in rows] == ["8", "16"]
    assert all(float(row[1].split()[0]) > 0.0 for row in rows)


def test_fits_script_fits_every_network_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "LEARNED", 2)
    monkeypatch.setattr(fits, "UNSEEN", 1)
    page, figures = empty_page(tmp_path, "fits", "fits"), tmp_path / "fits.json"
    config = FitsConfig(page, figures, tmp_path / "runs", 2, networks=(fits.STEM,), workers=1)
    fits.write_table(config)
    kept = json.loads(figures.read_text())
    assert [each["channels"] for each in kept] == [3, 4, 1]  # RGB, RGB-D, depth
    assert all(0.0 < each["error"] < 1.0 for each in kept)
    before = page.read_text()
    fits.write_table(config)  # nothing is fitted again
    assert page.read_text() == before


def test_gallery_script_films_walks_and_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = EvalConfig("walk", baseline="teacher", appearance="test")
    failures = {
        "too short a time": EvalConfig("iap", seconds=2.0),
        "random": EvalConfig("walk", baseline="random"),
    }
    monkeypatch.setattr(gallery, "APPEARANCES", teacher)
    monkeypatch.setattr(gallery, "FAILURES", failures)
    pictures = tmp_path / "appearance.png", tmp_path / "failures.png"
    write_gallery(GalleryConfig(pictures[0], walks=1, failures=pictures[1], each=1, episodes=2))
    walked, late, random = capsys.readouterr().out.splitlines()
    assert walked.startswith("seed 10000: reached the goal after")
    assert late == "too short a time, seed 10000: not there in time, after 2 s"
    assert random.startswith("random, seed 10000: left the ground after")
    for picture, lines in zip(pictures, (1, 2), strict=True):
        height, width, _ = cv2.imread(str(picture)).shape
        assert height > lines * 128
        assert width > 4 * 192


def test_navigation_script_measures_a_row_once(tmp_path: Path) -> None:
    page, kept = empty_page(tmp_path, "navigation", "navigation", "teacher"), tmp_path / "f.json"
    config = NavigationConfig(page=page, figures=kept, episodes=1, workers=1, rows=("`rooms`",))
    write_tables(config)
    assert "| `rooms` | 1 | 100 % [21, 100] | 100 % [21, 100] | 0 % [0, 79] |" in page.read_text()
    kept.write_text(kept.read_text().replace('"success_rate": 1.0', '"success_rate": 0.5'))
    write_tables(config)
    assert "| `rooms` | 1 | 50 % [21, 100] |" in page.read_text()
    with pytest.raises(UserError, match="--episodes: expected so many times 5: written houses"):
        write_tables(NavigationConfig(page=page, figures=kept, episodes=12))


def test_a_turn_before_a_plain_wall_raises_no_alarm() -> None:
    """Its depth hardly shows the turn, right after a picture that changed a lot."""
    assert walked(Walk("navigator-go2", "mujoco", 9000, seconds=0.5)).alarms == []


@pytest.mark.long
def test_alarms_script_adds_walks_to_those_that_are_counted(tmp_path: Path) -> None:
    page, figures = empty_page(tmp_path, ALARMS, ALARMS), tmp_path / "alarms.json"
    config = AlarmsConfig(page=page, figures=figures, seconds=0.5, policies=("walk", "rover"))
    for episodes in (1, 2):
        write_table(replace(config, episodes=episodes))
        rows = rows_of(page)
        assert [row[:2] for row in rows] == [
            [f"`{n}`", f"{2 * episodes}"] for n in ("rover", "walk")
        ]
        assert all(len(row) == 7 for row in rows)
