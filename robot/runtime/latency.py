"""Latency profiler: histograms of every stage from sensor stamp to joint command; stall causes.

Recording takes about a microsecond and constant memory, so it is always on.
"""

from __future__ import annotations

import gc
import os
import platform
import threading
import time
from array import array
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Stopwatch

# Log-linear buckets (as HdrHistogram): 128 per octave, so a percentile is exact within 0.8 %.
SUB_BITS = 7
OCTAVES = 40  # up to 2^40 ns = 18 minutes
PERCENTILES = (("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99), ("p999_us", 0.999))
STAGES = {
    "sensor_to_command": "from the reading's stamp to the sent command",
    "wait": "for a reading that is due in a moment",
    "read": "received messages become a reading",
    "observe": "the reading becomes an observation",
    "image_prepare": "the camera image becomes the policy's input",
    "high_level": "decision by the policy network, with its map if it takes one",
    "low_level": "joint targets by network and gait generator",
    "safety": "safety checks of the command",
    "compute": "observe + low_level + safety of the same step",
    "publish": "the command is sent",
    "map": "the local map takes a reading and, where there is one, a depth image",
    "cache_warmup": "last step run again while waiting, to keep caches warm",
}
COMPUTE = ("observe", "low_level", "safety")  # in every step; the last one ends it
CAUSES = ("garbage collection", "scheduler", "publishing", "own code", "waiting")  # of stalls


class Histogram:
    """Counts durations in nanoseconds."""

    def __init__(self) -> None:
        self.counts = array("Q", bytes(8 * (OCTAVES << SUB_BITS)))
        self.count = 0
        self.max_ns = 0

    def record(self, ns: int) -> None:
        """Count one duration [ns]; negative ones (clock skew) count as zero."""
        ns = max(0, ns)
        shift = max(0, ns.bit_length() - SUB_BITS - 1)
        bucket = (shift << SUB_BITS) + (ns >> shift)
        self.counts[min(bucket, len(self.counts) - 1)] += 1
        self.count += 1
        if ns > self.max_ns:
            self.max_ns = ns

    def percentile_ns(self, fraction: float) -> int:
        """Upper edge [ns] of the bucket that holds the given fraction of all durations."""
        if not self.count:
            return 0
        return min(self.max_ns, int(percentile_ns(np.array(self.counts), fraction)))

    def coarse(self) -> list[list[float]]:
        """[upper edge [us], count] of every non-empty bucket, 8 an octave."""
        counts = np.array(self.counts).reshape(-1, 1 << SUB_BITS - 3).sum(1)
        return [
            [_upper_edge_ns(((row + 1) << SUB_BITS - 3) - 1) / 1e3, int(counts[row])]
            for row in np.flatnonzero(counts).tolist()
        ]

    def summary(self) -> dict[str, float]:
        """Count, percentiles and maximum [us]."""
        row: dict[str, float] = {"count": self.count}
        for name, fraction in PERCENTILES:
            row[name] = self.percentile_ns(fraction) / 1e3
        row["max_us"] = self.max_ns / 1e3
        return row


def percentile_ns(counts: NDArray[np.uint64], fraction: float) -> float:
    """Upper edge [ns] of the bucket of `Histogram.counts` with this fraction; NaN if empty."""
    seen = np.cumsum(counts)
    if not seen[-1]:
        return float("nan")
    return _upper_edge_ns(int(np.searchsorted(seen, max(1.0, fraction * float(seen[-1])))))


def _upper_edge_ns(bucket: int) -> int:
    shift = max(0, (bucket >> SUB_BITS) - 1)
    return ((bucket - (shift << SUB_BITS) + 1) << shift) - 1


class GarbageClock:
    """Total time of garbage collections in all threads [ns]."""

    def __init__(self) -> None:
        self.total_ns = self._since_ns = 0
        gc.callbacks.append(self._count)

    def _count(self, phase: str, _: object) -> None:
        now = time.monotonic_ns()
        if phase == "start":
            self._since_ns = now
        else:
            self.total_ns += now - self._since_ns


garbage_clock = cache(GarbageClock)  # the process's, which runs from the first call on


class StallWatch:
    """Attributes late steps of a loop to causes: the largest share of the time since the last step.

    Causes: garbage was collected, the thread was ready but had no core (scheduler), it published,
    or it computed. All else is waiting: for the interpreter lock, for a disk, or because the
    process was stopped. The loop's own thread calls `begin`.
    """

    def __init__(self, period_ns: int) -> None:
        self.late_ns = period_ns // 2  # later than that is a stall
        self._period_ns = period_ns
        self.counts = dict.fromkeys(CAUSES, 0)
        self.longest_ns = dict.fromkeys(CAUSES, 0)
        self.publishing_ns = 0  # in this step, set by the profiler
        self._garbage = garbage_clock()
        self._thread: int | None = None
        self._before = (0, 0, 0, 0)

    def begin(self) -> None:
        """A step begins."""
        if self._thread != threading.get_ident():
            self._thread = threading.get_ident()
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._waits = open(path, "rb", buffering=0) if os.path.exists(path) else None  # noqa: SIM115
            self._before = self._clocks()
            return
        before, now = self._before, self._clocks()
        self._before = now
        took, collected, waited, computed = (b - a for a, b in zip(before, now, strict=True))
        published, self.publishing_ns = self.publishing_ns, 0
        late = took - self._period_ns
        if late <= self.late_ns:
            return
        own = max(0, computed - collected - published)
        rest = max(0, late - collected - waited - published - own)
        shares = dict(zip(CAUSES, (collected, waited, published, own, rest), strict=True))
        cause = max(shares, key=shares.__getitem__)
        self.counts[cause] += 1
        self.longest_ns[cause] = max(self.longest_ns[cause], late)

    def summary(self) -> dict[str, dict[str, float]]:
        """Count and longest [us] of each cause that occurred."""
        return {
            cause: {"count": count, "max_us": self.longest_ns[cause] / 1e3}
            for cause, count in self.counts.items()
            if count
        }

    def _clocks(self) -> tuple[int, int, int, int]:
        """Clocks [ns]: monotonic time, garbage collection, waiting for a core, computation."""
        waited = 0
        if self._waits is not None:
            self._waits.seek(0)
            waited = int(self._waits.read(100).split()[1])
        return time.monotonic_ns(), self._garbage.total_ns, waited, time.thread_time_ns()


class LatencyProfiler(Stopwatch):
    """Times the stages of a control loop, its period, deadlines, stalls and sensor ages."""

    def __init__(self, period_s: float, sensors: tuple[str, ...]) -> None:
        self.period_ns = round(period_s * 1e9)
        self.sensors = sensors
        self.reset()

    def reset(self) -> None:
        """Forget everything measured so far."""
        self.stages = {stage: Histogram() for stage in STAGES}
        self.period = Histogram()
        self.sensor_age = {sensor: Histogram() for sensor in self.sensors}
        self.stalls = StallWatch(self.period_ns)
        self.deadline_misses = 0  # deadlines that passed before their step began
        self.ticks = 0
        self._last_start_ns = 0
        self._lap_ns = self._compute_ns = 0

    def start(self) -> None:
        """A control step begins, with a reading to answer."""
        self.stalls.begin()
        now = time.monotonic_ns()
        if self.ticks:
            self.period.record(now - self._last_start_ns)
        self.ticks += 1
        self._last_start_ns = now
        self._compute_ns = 0

    def start_lap(self) -> None:
        """Begin a stage now: the time since the last one is not counted."""
        self._lap_ns = time.monotonic_ns()

    def lap(self, stage: str) -> None:
        """End the named stage, which began at `start_lap` or at the last lap."""
        now = time.monotonic_ns()
        took, self._lap_ns = now - self._lap_ns, now
        self.stages[stage].record(took)
        if stage == "publish":
            self.stalls.publishing_ns += took
        if stage in COMPUTE:
            self._compute_ns += took
            if stage == COMPUTE[-1]:
                self.stages["compute"].record(self._compute_ns)

    def report(self, contract: Mapping[str, Any]) -> dict[str, Any]:
        """The latency report of a bundle in its stable schema; times in microseconds."""
        return {
            "bundle": contract["name"],
            "sha256": contract["sha256"],
            "stages": {name: h.summary() for name, h in self.stages.items()},
            "period": self.period.summary(),
            "period_nominal_us": self.period_ns / 1e3,
            "deadline_misses": self.deadline_misses,
            "ticks": self.ticks,
            "stalls": self.stalls.summary(),
            "sensor_age_us": {name: h.summary() for name, h in self.sensor_age.items()},
            "histograms": {
                name: histogram.coarse()
                for name, histogram in {**self.stages, "period": self.period}.items()
                if histogram.count
            },
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """The machine that the latencies were measured on."""
    import onnxruntime

    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def format_table(report: dict[str, Any]) -> str:
    """The report as a table for a terminal."""
    header = f"{'':<22}{'count':>8}" + "".join(
        f"{n:>10}" for n in ("p50", "p95", "p99", "p99.9", "max")
    )
    rows = [header + "   [us]"]
    groups: dict[str, dict[str, float]] = {**report["stages"], "period": report["period"]}
    groups |= {f"age of {name}": row for name, row in report["sensor_age_us"].items()}
    for name, row in groups.items():
        if row["count"]:
            cells = "".join(f"{row[key]:>10.0f}" for key in [*dict(PERCENTILES), "max_us"])
            rows.append(f"{name:<22}{row['count']:>8.0f}{cells}")
    for cause, row in report.get("stalls", {}).items():
        rows.append(
            f"began late by {cause}: {row['count']}, by {row['max_us'] / 1e3:.0f} ms at most"
        )
    if pace := report.get("repeated_commands"):
        every = f"every {pace['period_nominal_us'] / 1e3:.0f} ms"
        rows.append(f"commands repeated {every}: {pace['due']} due, {pace['late']} late")
    rows.append(f"ticks {report['ticks']}, deadline misses {report['deadline_misses']}")
    return "\n".join(rows)
