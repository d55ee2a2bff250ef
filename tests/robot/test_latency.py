"""The latency profiler against exact percentiles."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.runtime import latency
from pixelgait.robot.runtime.latency import (
    COMPUTE,
    STAGES,
    Histogram,
    LatencyProfiler,
    StallWatch,
    format_table,
)
from pixelgait.robot.runtime.realtime import pin


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


def test_extremes_are_counted() -> None:
    histogram = Histogram()
    for ns in (-5, 0, 1, 2**50):
        histogram.record(ns)
    assert histogram.count == sum(histogram.counts) == 4
    assert histogram.summary()["max_us"] == 2**50 / 1e3


CONTRACT = {"name": "test", "sha256": "0" * 64}


def test_the_report_has_its_schema_and_the_machine() -> None:
    profiler = LatencyProfiler(0.01, ("imu/data",))
    for _ in range(3):
        profiler.start()
        profiler.start_lap()
        for stage in ("observe", "low_level", "safety"):
            profiler.lap(stage)
    profiler.deadline_misses += 1
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


def test_compute_is_the_sum_of_stages_of_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maximum is that of a single step, not the sum of the stages' maxima."""
    profiler, now = LatencyProfiler(0.01, ()), 0
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic_ns", lambda: now)
        for observe, low_level in ((4000, 1000), (1000, 4000)) * 50:
            profiler.start()
            profiler.start_lap()
            took = {"read": 9000, "observe": observe, "high_level": 7000, "low_level": low_level}
            for stage, us in {**took, "safety": 500, "publish": 8000}.items():
                now += 1000 * us
                profiler.lap(stage)
    rows = profiler.report(CONTRACT)["stages"]
    assert rows["compute"]["count"] == 100
    assert rows["compute"]["max_us"] == 5500
    assert sum(rows[stage]["max_us"] for stage in COMPUTE) == 8500
    assert rows["read"]["max_us"] == 9000


class Clocks:
    """The clocks of a `StallWatch`, set by the test: `time`, garbage collection, schedstat."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = self.total_ns = self.waited_ns = self.computed_ns = 0
        there = SimpleNamespace(path=SimpleNamespace(exists=lambda _: True))
        monkeypatch.setattr(latency, "os", there)
        monkeypatch.setattr(latency, "open", lambda *_, **__: self, raising=False)
        monkeypatch.setattr(latency, "time", self)
        monkeypatch.setattr(latency, "garbage_clock", lambda: self)

    def monotonic_ns(self) -> int:
        return self.now_ns

    def thread_time_ns(self) -> int:
        return self.computed_ns

    def seek(self, _: int) -> None: ...

    def read(self, _: int) -> bytes:
        return b"%d %d 3\n" % (self.computed_ns, self.waited_ns)


def test_the_largest_share_of_a_late_step_is_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishing and garbage collection use processor time, which is not own code."""
    clocks, watch = Clocks(monkeypatch), StallWatch(10_000_000)
    watch.begin()
    for took, collected, waited, published, computed in (  # [ms]
        (15, 0, 0, 0, 15),  # late by half a period at most
        (100, 60, 10, 5, 75),
        (90, 5, 60, 5, 15),
        (95, 10, 5, 60, 75),
        (85, 5, 5, 5, 43),
        (80, 5, 5, 5, 15),
        (50, 30, 0, 0, 30),  # garbage again, shorter
    ):
        clocks.now_ns += 1_000_000 * took
        clocks.total_ns += 1_000_000 * collected
        clocks.waited_ns += 1_000_000 * waited
        clocks.computed_ns += 1_000_000 * computed
        watch.publishing_ns += 1_000_000 * published
        watch.begin()
    assert watch.summary() == {
        "garbage collection": {"count": 2, "max_us": 90e3},
        "scheduler": {"count": 1, "max_us": 80e3},
        "publishing": {"count": 1, "max_us": 85e3},
        "own code": {"count": 1, "max_us": 75e3},
        "waiting": {"count": 1, "max_us": 70e3},
    }


@pytest.mark.slow
def test_the_cause_of_a_stall_is_named() -> None:
    """With the real clocks; the stalls are long enough for a busy machine."""
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
        assert cause in found or found == {"scheduler"}  # a busy machine
        assert all(watch.summary()[name]["max_us"] > 1e5 for name in found)


def test_a_loop_that_has_no_core_blames_the_scheduler() -> None:
    watch = StallWatch(10_000_000)
    code = "while True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
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


def test_a_refused_real_time_setting_is_reported() -> None:
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


class Publisher:
    """A node with a publisher, and its last message."""

    def create_publisher(self, kind: type, topic: str, depth: int) -> Publisher:
        assert (kind.__name__, topic) == ("Float64MultiArray", "~/latency")
        return self

    def publish(self, message: Any) -> None:
        self.sizes = {dim.label: (dim.size, dim.stride) for dim in message.layout.dim}
        rows = np.array(message.data).reshape([size for size, _ in self.sizes.values()])
        names, columns = (label.split(",") for label in self.sizes)
        assert columns == ["p50_us", "p99_us", "max_us"]
        self.rows = dict(zip(names, rows, strict=True))


def test_the_live_table_covers_the_time_since_the_last_one() -> None:
    """After a reset of the profiler all its counts are new."""
    pytest.importorskip("std_msgs", reason="ROS 2 is not installed")  # as on a robot without it
    from pixelgait.robot.ros.monitoring.status_topics import LatencyTopic

    publisher, profiler = Publisher(), LatencyProfiler(0.01, ())
    topic, nothing = LatencyTopic(publisher), [np.nan] * 3

    def table(publish_us: list[int], period_us: list[int]) -> dict[str, Any]:
        for us in publish_us:
            profiler.stages["publish"].record(1000 * us)
        for us in period_us:
            profiler.period.record(1000 * us)
        topic.publish(profiler)
        return publisher.rows

    rows = table(98 * [100] + 2 * [900], [10_000])
    assert list(rows) == [*STAGES, "period"]
    assert publisher.sizes[",".join(rows)] == (len(rows), 3 * len(rows))
    assert publisher.sizes["p50_us,p99_us,max_us"] == (3, 3)
    np.testing.assert_allclose(rows.pop("publish"), (100, 900, 900), rtol=0.01)
    np.testing.assert_allclose(rows.pop("period"), 10_000, rtol=0.01)
    np.testing.assert_array_equal(list(rows.values()), len(rows) * [nothing])
    rows = table([20, 30, 40], [])
    np.testing.assert_allclose(rows["publish"], (30, 40, 40), rtol=0.01)
    np.testing.assert_array_equal(rows["period"], nothing)
    np.testing.assert_array_equal(table([], [])["publish"], nothing)
    profiler.reset()
    np.testing.assert_allclose(table([20], [])["publish"], 20, rtol=0.01)
    np.testing.assert_allclose(table([50], [])["publish"], 50, rtol=0.01)
