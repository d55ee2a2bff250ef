"""Worker pool: jobs of a dead worker are repeated, and no worker outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pixelgait.sim.workers.process_pool import WorkerPool
from tests.conftest import alive, child_environment, wait_for


def square_or_die(job: tuple[int, Path]) -> int:
    number, path = job
    if number == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def nothing() -> None:
    """Initialiser that does nothing."""


def numbered(pool: WorkerPool, function: Callable[..., int], died: Path) -> list[int]:
    return pool.map(function, [(number, died) for number in range(8)])


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_job_repeated(tmp_path: Path) -> None:
    with WorkerPool(2, nothing) as pool:
        assert numbered(pool, square_or_die, tmp_path / "died") == [n * n for n in range(8)]
        assert (tmp_path / "died").exists()
        assert pool.replaced == 1
        results = pool.imap(square_or_die, [(number, tmp_path / "died") for number in range(3)])
        assert next(results) == 0  # one by one
        assert list(results) == [1, 4]


ORPHANS = """
import os, signal
from pixelgait.sim.workers.process_pool import WorkerPool
pool = WorkerPool(2, print)
pool._executor.submit(print)  # starts a worker, which imports for a while
for task in os.listdir("/proc/self/task"):
    print(open(f"/proc/self/task/{task}/children").read(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_worker_outlives_a_parent_that_died_as_it_started(tmp_path: Path) -> None:
    printed = tmp_path / "workers"  # not a pipe: workers hold it open, and would be waited for
    with printed.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", ORPHANS], stdout=file, env=child_environment(), check=False
        )
    workers = [int(pid) for pid in printed.read_text().split()]
    assert done.returncode == -signal.SIGKILL
    assert workers
    wait_for(lambda: not any(map(alive, workers)))
