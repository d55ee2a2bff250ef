"""Rollouts in worker processes; a worker that dies is replaced and its rollouts repeated."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from pixelgait.robot.errors import UserError

PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal to get when the parent dies
MOST_DEATHS = 5  # in a row: then something is wrong that repeating does not mend


class RolloutPool:
    """Maps a function over jobs in processes.

    Episodes depend on nothing but candidate and seed, so a repeated one gives the same result.
    """

    def __init__(self, workers: int, initialise: Callable[..., None], *arguments: Any) -> None:
        self._workers = workers
        self._initialise = (initialise, arguments)
        self._executor = self._start()
        self.replaced = 0

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
        """Results in the order of the jobs."""
        jobs = list(jobs)
        results: dict[int, Any] = {}
        deaths = 0
        while len(results) < len(jobs):
            missing = [i for i in range(len(jobs)) if i not in results]
            try:
                futures = {i: self._executor.submit(function, jobs[i]) for i in missing}
                for i, future in futures.items():
                    results[i] = future.result()
                    deaths = 0
            except BrokenProcessPool:
                deaths += 1
                self.replaced += 1
                if deaths >= MOST_DEATHS:
                    raise UserError(f"workers died {deaths} times in a row, see above") from None
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()
        return [results[i] for i in range(len(jobs))]

    def __enter__(self) -> RolloutPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_initialise,
            initargs=self._initialise,
        )


def _initialise(initialise: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """One thread per worker; it outlives Ctrl-C, for the parent to save, but not the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.environ["OMP_NUM_THREADS"] = "1"
    initialise(*arguments)
