"""Timing of one graph in onnxruntime, and its memory, in a process of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle import single_thread_session
from pixelgait.robot.cli.processes import die_with_parent
from pixelgait.robot.errors import UserError

WARM_UP = 3
LEAST_RUNS, MOST_RUNS = 3, 300


def time_apart(
    graph: Path, frames: NDArray[np.uint8], seconds: float
) -> tuple[NDArray[np.float64], float] | None:
    """Run `time_graph` in a process that ends with this one; None if it was killed.

    Raises:
        UserError: if onnxruntime cannot run the graph.
    """
    images = io.BytesIO()
    np.save(images, frames)
    module = "pixelgait.export.encoder_profile.graph_timing"
    line = [sys.executable, "-m", module, str(graph), str(seconds)]
    start = partial(die_with_parent, os.getpid())
    done = subprocess.run(
        line, input=images.getvalue(), capture_output=True, check=False, preexec_fn=start
    )
    if done.returncode == -signal.SIGINT:  # the terminal interrupts both
        raise KeyboardInterrupt
    if done.returncode < 0:
        return None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UserError(f"{graph.name}: {' '.join(last) or 'no reason given'}")
    timed = json.loads(done.stdout)
    return np.array(timed["times_ms"]), float(timed["memory_mb"])


def time_graph(
    path: Path, frames: NDArray[np.uint8], seconds: float
) -> tuple[NDArray[np.float64], float]:
    """Times [ms] of single runs of a high level over frames (n, H, W, C), and peak memory [MB].

    Needs a process of its own, because the peak is the process's.
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
        if run >= WARM_UP or late:  # a slow graph is warm after one run
            times.append(time.perf_counter() - start)
    return np.array(times) * 1e3, _peak_mb() - before


def _peak_mb() -> float:
    """Peak memory of this process [MB]; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0  # from kB


def _main(graph: str, seconds: str) -> None:
    """Process of `time_apart`: frames from standard input, JSON to standard output."""
    frames = np.load(io.BytesIO(sys.stdin.buffer.read()))
    times, memory_mb = time_graph(Path(graph), frames, float(seconds))
    print(json.dumps({"times_ms": times.tolist(), "memory_mb": memory_mb}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
