"""Time and memory of one graph in onnxruntime."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle import single_thread_session

WARM_UP = 3
LEAST_RUNS, MOST_RUNS = 3, 300


def time_graph(
    path: Path, frames: NDArray[np.uint8], seconds: float
) -> tuple[NDArray[np.float64], float]:
    """Times [ms] of single runs of a high level over frames (n, H, W, C), and peak memory [MB].

    To be called in a process of its own, or the peak is somebody else's.
    """
    before = _peak_mb()
    session = single_thread_session(path.read_bytes())
    times: list[float] = []
    started = time.perf_counter()
    for run in range(WARM_UP + MOST_RUNS):
        late = time.perf_counter() - started > seconds
        if late and len(times) >= LEAST_RUNS:
            break
        start = time.perf_counter()
        session.run(None, {"image": frames[run % len(frames)]})
        if run >= WARM_UP or late:  # who is slow is warm after one run
            times.append(time.perf_counter() - start)
    return np.array(times) * 1e3, _peak_mb() - before


def _peak_mb() -> float:
    """Peak memory of this process [MB]; unlike getrusage, not that of the process it came from."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0  # it is in kB
