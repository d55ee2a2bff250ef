"""Commands that are stopped leave nobody behind: the short form of `make signals`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from tests.signals import MARK, marked, stopped_at


def test_whoever_is_left_behind_is_found() -> None:
    # Who is left speaks up himself: while a program is loaded it has no environment to be read.
    left = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
    shell = subprocess.Popen(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -c {shlex.quote(left)} &"],
        env={**os.environ, MARK: "left"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout is not None
    sleeper = int(shell.stdout.readline())
    shell.wait()
    assert list(marked("left")) == [sleeper]
    os.kill(sleeper, signal.SIGKILL)


@pytest.mark.parametrize(
    ("line", "seconds", "number"),
    [
        ("pixelgait-train walk --out run --iterations 100000", 3.0, signal.SIGTERM),
        ("pixelgait-eval iap --episodes 100000", 2.0, signal.SIGKILL),
        ("pixelgait-eval iap --episodes 100000", 8.0, signal.SIGTERM),
        ("pixelgait-export --low-level walk --high-level iap --out run", 3.0, signal.SIGINT),
        ("pixelgait-benchmark --rounds 100000 --steps 200", 4.0, signal.SIGINT),
    ],
)
def test_who_is_stopped_leaves_nobody_behind(
    line: str, seconds: float, number: signal.Signals
) -> None:
    assert stopped_at(line, seconds, number) == ""
