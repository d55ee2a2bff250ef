"""The gallery of failures: what it says of an end, and that it shows it."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from pixelgait.export.studies import failures
from pixelgait.export.studies.failures import FailuresConfig, write_gallery
from pixelgait.sim.eval_options import EvalConfig


def test_failures_are_shown_with_how_they_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A teacher is no failure; who walks at random leaves the platform, or gets nowhere in 2 s."""
    monkeypatch.setattr(
        failures,
        "CASES",
        {
            "teacher": EvalConfig("walk", baseline="teacher", scene="flat", seconds=1.0),
            "in a hurry": EvalConfig("iap", seconds=2.0),
            "random": EvalConfig("walk", baseline="random"),
            "into the wall": EvalConfig("walk"),
        },
    )
    picture = tmp_path / "failures.png"
    write_gallery(FailuresConfig(picture, each=1, episodes=2))
    hurried, random, stuck = capsys.readouterr().out.splitlines()
    assert hurried == "in a hurry, seed 10000: not there in time, after 2 s"
    assert random.startswith("random, seed 10000: left the ground after")
    assert stuck.startswith("into the wall, seed 10000: no advance for 6 s, after")
    rows, columns, _ = cv2.imread(str(picture)).shape
    assert rows > 3 * 128
    assert columns > 4 * 192
