"""Time to learn: a command is stopped once it has learned, failures are reported."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from docs.figures.speed.learning import LESSONS, Learned, Lesson, learn
from docs.figures.speed.speed import SpeedConfig, print_report
from pixelgait.robot.errors import UserError

SHORT = Lesson(
    "walk --iterations 1000 --steps 20 --validation-steps 20 --validation-episodes 1 "
    "--validate-every 2 --es.directions 1 --es.top 1 --es.courses 1",
    lambda row: row["iteration"] >= 4,
    120.0,
    "two validations",
)
ONE = ("--workers", "1")


@pytest.mark.long
def test_a_command_is_stopped_as_soon_as_it_has_learned() -> None:
    went = learn(SHORT, 0, ONE)
    assert went.seconds is not None
    assert 0.0 < went.seconds < SHORT.limit_s
    once = replace(SHORT, learned=lambda row: False, command=f"{SHORT.command} --iterations 1")
    assert learn(once, 0, ONE) == Learned(None, None)


def test_a_refused_command_is_reported_in_its_own_words() -> None:
    with pytest.raises(UserError, match="weather"):
        learn(replace(SHORT, command="walk --weather bad"), 0, ONE)
    with pytest.raises(UserError, match="--lessons: choose from walk from zero"):
        print_report(SpeedConfig(lessons=("swim",)))


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("kill -9 $$", -9)])
def test_a_killed_command_is_reported_by_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, code: int
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{ends}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UserError, match=rf"walk .*--workers 1: exit code {code}$"):
        learn(SHORT, 0, ONE)


def test_lessons_are_judged_by_validation_figures() -> None:
    row = {"validation/falls": 0.0, "validation/success": 1.0, "validation/shortest": 5.1}
    row |= {"validation/speed_error": 0.1, "validation/yaw_rate_error": 0.19}
    assert all(lesson.learned(row) for lesson in LESSONS.values())
    worse = {"validation/falls": 0.1, "validation/success": 0.94, "validation/shortest": 4.9}
    assert not any(lesson.learned({**row, **worse}) for lesson in LESSONS.values())
