"""Stopped commands leave no process behind: the short form of `make signals`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.conftest import run_code
from tests.signals import LONGEST_S, MARK, marked, stopped, stopped_at

# The part of pixelgait-benchmark with worker processes, in a round of minutes.
VECTORS = """
import sys
from pixelgait.robot.errors import run_command
from pixelgait.robot.spec import A1
from pixelgait.sim.benchmarks.vectors import vector_rates
sys.warnoptions.append("ignore:resource_tracker")  # as every command does
run_command(lambda: vector_rates(A1, steps=1_000_000, rounds=1, seed=0))
"""
BEGUN_S = 1.5  # longer than to import what they need
VECTOR_PROCESSES = 5  # the command, two environments; Python's fork server and tracker


def test_orphaned_processes_are_found() -> None:
    # The orphan prints its own PID: a program being loaded has no readable environment.
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "seconds", "number"),
    [
        ("pixelgait-train walk --out run --iterations 100000", 3.0, signal.SIGTERM),
        ("pixelgait-eval iap --episodes 100000", 2.0, signal.SIGKILL),
        pytest.param(
            *("pixelgait-eval iap --episodes 100000", 8.0, signal.SIGTERM), marks=pytest.mark.long
        ),
        ("pixelgait-export --low-level walk --high-level iap --out run", 3.0, signal.SIGINT),
        ("pixelgait-benchmark --rounds 100000 --steps 200", 4.0, signal.SIGINT),
        ("python -m docs.figures.speed.speed --lessons 'walk from zero'", 6.0, signal.SIGKILL),
        pytest.param(
            *("python -m tests.faults.table", 5.0, signal.SIGTERM),
            marks=pytest.mark.long,
        ),
        ("python -m tests.faults.table", 5.0, signal.SIGKILL),
    ],
)
def test_stopped_commands_leave_no_process(
    line: str, seconds: float, number: signal.Signals
) -> None:
    assert stopped_at(line, seconds, number) == ""


FORK = """
import os, signal, time
from pixelgait.robot.cli.processes import start_fork_server
start_fork_server("os")
told, tells = os.pipe()
child = os.fork()
if not child:
    os.write(tells, b"!")  # a signal that comes earlier is lost
    time.sleep(100)
os.read(told, 1)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(os.listdir(os.environ["TMPDIR"])))
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_sigterm_removes_temporary_files(tmp_path: Path) -> None:
    done = run_code(FORK, TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "-15 1\n", "")
    assert list(tmp_path.iterdir()) == []


START = """
import signal
from pixelgait.robot.cli.processes import deferred_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
with deferred_interrupt():
    signal.raise_signal(signal.{name})
    print("whole", flush=True)
print("more", flush=True)
"""


FAILS = """
import signal
from pixelgait.robot.cli.processes import deferred_interrupt
with deferred_interrupt():
    signal.raise_signal(signal.SIGTERM)
    raise EOFError("the child has ended as well")
"""


def test_a_parent_ended_with_its_child_exits_by_the_signal() -> None:
    """`timeout` ends a whole group; failures that follow from that are no errors."""
    done = run_code(FAILS)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_during_a_child_start_is_deferred(name: str) -> None:
    done = run_code(START.format(name=name))
    assert (done.returncode, done.stdout) == (-signal.Signals[name], "whole\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_vector_environments_end_with_the_benchmark(number: signal.Signals) -> None:
    found: dict[int, str] = {}

    def all_are_there(mark: str) -> None:
        deadline = time.monotonic() + LONGEST_S
        while not _are_at_work(found) and time.monotonic() < deadline:
            time.sleep(0.05)
            found.update(marked(mark))

    assert stopped([sys.executable, "-c", VECTORS], all_are_there, number) == ""
    assert len(found) == VECTOR_PROCESSES


def _are_at_work(found: Collection[int]) -> bool:
    """Whether both environments, the last to start, step their robots.

    By then every process has read its whole task: one killed while it unpickles prints a traceback.
    """
    worked = sorted(map(_worked_s, found))
    return len(found) == VECTOR_PROCESSES and worked[-2] > BEGUN_S


def _worked_s(process: int) -> float:
    """How long a process has had a processor [s]; 0 of one that has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)
