"""Timing of a graph in a process of its own, which never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pixelgait.export.encoder_profile.graph_timing import time_apart
from pixelgait.robot.bundle import HIGH_LEVEL, SHIPPED
from pixelgait.robot.errors import UserError
from tests.conftest import alive, child_environment, children, wait_for

GRAPH = SHIPPED / "iap" / HIGH_LEVEL
FRAMES = np.zeros((2, 32, 32, 3), np.uint8)
TIMING = """
import sys
from pathlib import Path
import numpy as np
from pixelgait.export.encoder_profile.graph_timing import time_apart
time_apart(Path(sys.argv[1]), np.zeros((2, 32, 32, 3), np.uint8), 1.0)
"""


def test_a_graph_is_timed(tmp_path: Path) -> None:
    timed = time_apart(GRAPH, FRAMES, 0.05)
    assert timed is not None
    times_ms, memory_mb = timed
    assert len(times_ms) >= 3
    assert (times_ms > 0.0).all()
    assert 0.0 < memory_mb < 500.0
    (tmp_path / "none.onnx").write_bytes(b"no graph")
    with pytest.raises(UserError, match=r"^none\.onnx: .*Protobuf"):
        time_apart(tmp_path / "none.onnx", FRAMES, 0.05)


def started(line: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """The parent, and its timing process, stopped."""
    asks = subprocess.Popen(line, env=child_environment())
    deadline = time.monotonic() + 60.0
    while not (found := [pid for pid in children(asks.pid) if times(pid)]):
        assert asks.poll() is None
        assert time.monotonic() < deadline
    os.kill(found[0], signal.SIGSTOP)
    return asks, found[0]


def times(pid: int) -> bool:
    """Whether the child is the timing process: before exec it is a copy of its parent."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return line[1:3] == [b"-m", b"pixelgait.export.encoder_profile.graph_timing"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_timing_process_ends_with_its_parent(number: signal.Signals) -> None:
    asks, timing = started([sys.executable, "-c", TIMING, str(GRAPH)])
    asks.send_signal(number)
    asks.wait()
    wait_for(lambda: not alive(timing))


def test_a_killed_timing_process_gives_no_time() -> None:
    """As by a kernel that is out of memory."""
    script = TIMING.replace("time_apart(Path", "assert None is time_apart(Path")
    asks, timing = started([sys.executable, "-c", script, str(GRAPH)])
    os.kill(timing, signal.SIGKILL)
    assert asks.wait() == 0
