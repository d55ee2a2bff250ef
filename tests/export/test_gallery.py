"""The gallery: what it says of an end, and that it shows it."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

from docs.figures.studies import gallery
from docs.figures.studies.gallery import GalleryConfig, write_gallery
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.errors import UserError


@pytest.mark.slow
def test_walks_and_failures_are_shown_with_how_they_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A teacher is no failure; who walks at random leaves the platform, or gets nowhere in 2 s."""
    teacher = EvalConfig("walk", baseline="teacher", scene="flat", seconds=1.0)
    monkeypatch.setattr(gallery, "LOOKS", EvalConfig("walk", baseline="teacher", appearance="test"))
    monkeypatch.setattr(
        gallery,
        "FAILURES",
        {
            "teacher": teacher,
            "in a hurry": EvalConfig("iap", seconds=2.0),
            "random": EvalConfig("walk", baseline="random"),
            "into the wall": EvalConfig("walk"),
        },
    )
    appearance, failures = tmp_path / "appearance.png", tmp_path / "failures.png"
    write_gallery(GalleryConfig(appearance, walks=1, failures=failures, each=1, episodes=2))
    walked, hurried, random, stuck = capsys.readouterr().out.splitlines()
    assert walked.startswith("seed 10000: reached the goal after")
    assert hurried == "in a hurry, seed 10000: not there in time, after 2 s"
    assert random.startswith("random, seed 10000: left the ground after")
    assert stuck.startswith("into the wall, seed 10000: no advance for 6 s, after")
    for picture, lines in ((appearance, 1), (failures, 3)):
        rows, columns, _ = cv2.imread(str(picture)).shape
        assert rows > lines * 128
        assert columns > 4 * 192
    monkeypatch.setattr(gallery, "FAILURES", {"teacher": teacher})
    with pytest.raises(UserError, match=r"failures.png: no such episode .* more --episodes"):
        write_gallery(GalleryConfig(appearance, walks=1, failures=failures, episodes=1))
