"""The latency profiler against exact percentiles."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from pixelgait.robot.runtime.latency import (
    COMPUTE,
    STAGES,
    Histogram,
    LatencyProfiler,
    format_table,
)
from pixelgait.robot.runtime.realtime import StallWatch, pin


@pytest.mark.parametrize("scale_ns", [50, 5_000, 5_000_000])
def test_percentiles_are_exact_within_one_percent(scale_ns: int) -> None:
    samples = np.random.default_rng(0).lognormal(np.log(scale_ns), 1.0, 20_000).astype(int)
    histogram = Histogram()
    for sample in samples.tolist():
        histogram.record(sample)
    row = histogram.summary()
    for name, quantile in (("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99), ("p999_us", 0.999)):
        exact = np.quantile(samples, quantile, method="inverted_cdf") / 1e3
        assert row[name] == pytest.approx(exact, rel=0.01, abs=0.001)
    assert row["max_us"] == samples.max() / 1e3
    assert row["count"] == 20_000


def test_extremes_are_counted_not_lost() -> None:
    histogram = Histogram()
    for ns in (-5, 0, 1, 2**50):
        histogram.record(ns)
    assert histogram.count == sum(histogram.counts) == 4
    assert histogram.summary()["max_us"] == 2**50 / 1e3


CONTRACT = {"name": "test", "sha256": "0" * 64}


def test_the_report_keeps_its_schema_and_knows_its_machine() -> None:
    profiler = LatencyProfiler(0.01, ("imu/data",))
    for _ in range(3):
        profiler.start()
        profiler.start_lap()
        for stage in ("observe", "low_level", "supervise"):
            profiler.lap(stage)
    profiler.missed_deadlines(1)
    report = profiler.report(CONTRACT)
    assert "compute" in format_table(report)
    assert (report["bundle"], report["sha256"]) == ("test", "0" * 64)
    assert set(report["stages"]) == set(STAGES)
    assert set(report["stages"]["observe"]) == {
        "count",
        "p50_us",
        "p95_us",
        "p99_us",
        "p999_us",
        "max_us",
    }
    assert report["period"]["count"] == 2
    assert (report["ticks"], report["deadline_misses"]) == (3, 1)
    assert set(report["sensor_age_us"]) == {"imu/data"}
    assert report["machine"]["cores"] >= 1
    assert "low_level" in format_table(report)


def test_a_step_is_computed_in_the_sum_of_its_own_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than any step took, whatever its stages took in other steps."""
    profiler, now = LatencyProfiler(0.01, ()), 0
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic_ns", lambda: now)
        for observe, low_level in ((4000, 1000), (1000, 4000)) * 50:
            profiler.start()
            profiler.start_lap()
            took = {"take": 9000, "observe": observe, "high_level": 7000, "low_level": low_level}
            for stage, us in {**took, "supervise": 500, "publish": 8000}.items():
                now += 1000 * us
                profiler.lap(stage)
    rows = profiler.report(CONTRACT)["stages"]
    assert rows["compute"]["count"] == 100
    assert rows["compute"]["max_us"] == 5500
    assert sum(rows[stage]["max_us"] for stage in COMPUTE) == 8500
    assert rows["take"]["max_us"] == 9000


def test_what_held_a_loop_up_is_named() -> None:
    """Held up for so long that a busy machine does not matter."""
    watch = StallWatch(10_000_000)

    def own_code() -> None:
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.3:
            pass

    def garbage() -> None:
        junk = [[number] for number in range(300_000)]
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.3:
            gc.collect()
        del junk

    def publishing() -> None:
        time.sleep(0.3)
        watch.publishing_ns += 300_000_000

    for cause, hold_up in {
        "waiting": lambda: time.sleep(0.3),
        "own code": own_code,
        "garbage collection": garbage,
        "publishing": publishing,
    }.items():
        before = dict(watch.counts)
        for _ in range(3):
            watch.begin()
            hold_up()
            watch.begin()
        found = {name for name, count in watch.counts.items() if count > before[name]}
        assert cause in found or found == {"scheduler"}  # a machine that lends no core
        assert all(watch.summary()[name]["max_us"] > 1e5 for name in found)


def test_a_loop_that_has_no_core_blames_the_scheduler() -> None:
    watch = StallWatch(10_000_000)
    code = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    allowed = os.sched_getaffinity(0)
    core = min(allowed)
    try:
        for process in busy:
            os.sched_setaffinity(process.pid, {core})
        assert pin([core]) is None
        deadline = time.monotonic() + 20.0
        while not watch.counts["scheduler"] and time.monotonic() < deadline:
            watch.begin()
            sum(range(200_000))
    finally:
        os.sched_setaffinity(0, allowed)
        for process in busy:
            process.kill()
            process.wait()
    assert watch.counts["scheduler"] > 0


def test_histograms_hold_every_sample_below_their_edges() -> None:
    histogram = Histogram()
    samples = np.random.default_rng(0).integers(1, 10**7, 1000).tolist()
    for sample in samples:
        histogram.record(sample)
    edges, counts = np.array(histogram.coarse()).T
    assert counts.sum() == 1000
    for edge, count in zip(edges, np.cumsum(counts), strict=True):
        assert (np.array(samples) <= 1e3 * edge).sum() == count


def test_what_the_system_does_not_grant_is_said() -> None:
    assert "not bound to cores [4095]" in str(pin([4095]))
    assert "there are 0" in str(pin([]))
    code = """
import resource
from pixelgait.robot.runtime.realtime import lock_memory
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
import os
if os.geteuid() == 0:
    os.setuid(65534)
print(lock_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "memory is not locked (the limit is finite)" in done.stdout
