"""Commands that are stopped leave nobody behind: the short form of `make signals`."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.signals import MARK, marked, stopped_at


def test_whoever_is_left_behind_is_found() -> None:
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 100 & echo $!"],  # for a moment its child is called as it is
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
        ("pixelgait-benchmark --rounds 100000 --steps 200", 4.0, signal.SIGINT),
    ],
)
def test_who_is_stopped_leaves_nobody_behind(
    line: str, seconds: float, number: signal.Signals
) -> None:
    assert stopped_at(line, seconds, number) == ""
