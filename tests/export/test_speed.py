"""How long learning takes: commands that learn, that do not, and that cannot."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from docs.figures.speed.episodes import episodes_per_s
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


@pytest.mark.slow
def test_a_command_is_stopped_as_soon_as_it_has_learned() -> None:
    went = learn(SHORT, 0, ONE)
    assert went.seconds is not None
    assert 0.0 < went.seconds < SHORT.limit_s
    assert went.overhead is None


@pytest.mark.slow
def test_what_is_not_learned_in_time_or_iterations_is_not_learned() -> None:
    never = replace(SHORT, learned=lambda row: False)
    once = replace(never, command=f"{SHORT.command} --iterations 1")
    assert learn(replace(never, limit_s=8.0), 0, ONE) == Learned(None, None)
    assert learn(once, 0, ONE) == Learned(None, None)


def test_a_command_that_cannot_be_is_told_in_its_own_words() -> None:
    with pytest.raises(UserError, match="weather"):
        learn(replace(SHORT, command="walk --weather bad"), 0, ONE)
    with pytest.raises(UserError, match="--lessons: choose from walk from zero"):
        print_report(SpeedConfig(lessons=("swim",)))


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("kill -9 $$", -9)])
def test_a_command_that_is_killed_is_told_though_it_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, code: int
) -> None:
    """As one that finds no memory: its last word was looked for where there was none."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{ends}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(UserError, match=rf"walk .*--workers 1: exit code {code}$"):
        learn(SHORT, 0, ONE)


def test_lessons_say_what_they_can_be_judged_by() -> None:
    row = {"validation/falls": 0.0, "validation/success": 0.96, "validation/shortest": 5.1}
    row |= {"validation/speed_error": 0.1, "validation/yaw_rate_error": 0.19}
    assert all(lesson.learned(row) for lesson in LESSONS.values())
    worse = {"validation/falls": 0.1, "validation/success": 0.94, "validation/shortest": 4.9}
    assert not any(lesson.learned({**row, **worse}) for lesson in LESSONS.values())


def test_episodes_are_counted_once_workers_work() -> None:
    assert episodes_per_s(8, 1) > 0.0
