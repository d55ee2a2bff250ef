"""pixelgait-profile on report files: printed, compared, as a page."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path

import pytest

from pixelgait.robot.profiling.profile_bundle import SlowCore
from pixelgait.robot.runtime.latency import LatencyProfiler
from tests.conftest import Command


def write_report(path: Path, name: str, step_us: int) -> Path:
    profiler = LatencyProfiler(0.01, ("imu/data",))
    for _ in range(50):
        profiler.start()
        profiler.stages["low_level"].record(1000 * step_us)
    path.write_text(json.dumps(profiler.report({"name": name, "sha256": "0" * 64})))
    return path


def test_every_stage_takes_longer_on_a_slow_core() -> None:
    profiler = SlowCore(0.01, 4.0)
    profiler.start_lap()
    time.sleep(0.002)
    profiler.lap("low_level")
    assert profiler.stages["low_level"].max_ns >= 4 * 2_000_000


def test_reports_are_compared_and_drawn(command: Command, tmp_path: Path) -> None:
    slow = write_report(tmp_path / "slow.json", "slow", 400)
    fast = write_report(tmp_path / "fast.json", "<fast>", 100)
    again = command("pixelgait-profile", slow)
    assert re.search(r"low_level +50 +400", again.stdout), again.stderr
    done = command("pixelgait-profile", "--compare", slow, fast, "--page", "both.html")
    assert done.returncode == 0, done.stderr
    assert "400 -> 100 (0.25)" in done.stdout
    page = (tmp_path / "both.html").read_text()
    assert page.count("<svg") == 2  # of the stage that there was, and the period
    assert re.search(r"50 up to 1\d\d us", page)
    assert "<fast>" not in page  # names are no markup
    assert not re.search("src=|href=|url", page)  # nothing to load


def test_a_damaged_report_is_refused(command: Command, tmp_path: Path) -> None:
    write_report(tmp_path / "a.json", "a", 100)
    report = json.loads((tmp_path / "a.json").read_text())
    for damaged in (
        {"stalls": None},
        {"stalls": {"x": {}}},
        {"stalls": {"x": {"count": 1, "max_us": "3"}}},
        {"period": {**report["period"], "p50_us": "12"}},
        {"repeated_commands": {"due": 1}},
        {"histograms": {"observe": []}},
        {"histograms": {"observe": [[1.0, 0]]}},
        {"histograms": {"observe": [[1.0, 10**400]]}},  # JSON knows no bounds
        {"period": {**report["period"], "p50_us": 10**400}},
        {"period": {**report["period"], "p50_us": math.inf}},
    ):
        (tmp_path / "b.json").write_text(json.dumps({**report, **damaged}))
        done = command("pixelgait-profile", "b.json", "--page", "p.html")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), damaged
        assert "b.json: no latency report" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "name a bundle or a report"),
        (("iap", "--compare", "a.json", "a.json"), "not both"),
        (("--compare", "a.json", "b.json"), "no latency report"),
        (("nowhere.json",), "nowhere.json"),
    ],
)
def test_wrong_arguments_and_files_are_refused(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    write_report(tmp_path / "a.json", "a", 100)
    (tmp_path / "b.json").write_text('{"stages": {"low_level": {}}, "period": []}')
    done = command("pixelgait-profile", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert reason in done.stderr
