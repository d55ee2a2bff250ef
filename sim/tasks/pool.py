"""Worker pool: jobs in processes; a worker that dies is replaced and its jobs are repeated."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from pixelgait.robot.errors import UserError
from pixelgait.robot.runtime.processes import die_with_parent

MOST_DEATHS = 5  # in a row: then something is wrong that repeating does not mend


class WorkerPool:
    """Maps a function over jobs in processes.

    Every worker calls `initialise(*arguments)` once, before its first job. Episodes depend on
    nothing but policy and seed, so a repeated job gives the same result.
    """

    def __init__(self, workers: int, initialise: Callable[..., None], *arguments: Any) -> None:
        self._workers = workers
        self._initialise = (initialise, arguments)
        self._executor = self._start()
        self.replaced = 0

    def map(
        self, function: Callable[[Any], Any], jobs: Iterable[Any], label: str = ""
    ) -> list[Any]:
        """Results in the order of the jobs; with a label a passing bar on a terminal shows how far.

        Raises:
            UserError: workers die again and again.
        """
        return list(self.imap(function, jobs, label))

    def imap(
        self, function: Callable[[Any], Any], jobs: Iterable[Any], label: str = ""
    ) -> Iterator[Any]:
        """As `map`, each result as soon as it and all before it are there."""
        from tqdm import tqdm

        jobs = list(jobs)
        off = None if label else True  # None: where there is no terminal
        yield from tqdm(self._imap(function, jobs), label, len(jobs), leave=False, disable=off)

    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        done = deaths = 0
        while done < len(jobs):
            try:
                futures = [self._executor.submit(function, job) for job in jobs[done:]]
                for future in futures:
                    result = future.result()
                    done += 1
                    deaths = 0
                    yield result
            except BrokenProcessPool:
                deaths += 1
                self.replaced += 1
                if deaths >= MOST_DEATHS:
                    raise UserError(f"workers died {deaths} times in a row, see above") from None
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()

    def __enter__(self) -> WorkerPool:
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
            initargs=(os.getpid(), *self._initialise),
        )


def _initialise(parent: int, initialise: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """One thread per worker; it outlives Ctrl-C, for the parent to save, but not the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    os.environ["OMP_NUM_THREADS"] = "1"
    initialise(*arguments)
