"""The latency profiler against exact percentiles."""

from __future__ import annotations

import numpy as np
import pytest

from pixelgait.robot.runtime.latency import STAGES, Histogram, LatencyProfiler, format_table


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
        for stage in ("observe", "low_level", "supervise"):
            profiler.lap(stage)
    profiler.missed_deadlines(1)
    report = profiler.report(CONTRACT)
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
