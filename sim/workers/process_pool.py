"""Worker pool: runs jobs in processes; replaces workers that die and repeats their jobs."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pixelgait.robot.cli.processes import deferred_interrupt, start_fork_server, watch_parent
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable

LIKELY_CAUSE = (
    'too little memory, or a script without `if __name__ == "__main__":`, which multiprocessing '
    "needs"
)
MOST_DEATHS = 5  # in a row: then repeating does not help
QUEUED_JOBS = 64  # per worker


class Pool(ABC):
    """Maps a function over jobs in workers that are initialised once.

    Jobs are pure: an episode depends only on policy and seed, so a repeated job gives the same
    result in any worker.
    """

    replaced = 0  # workers that died

    def map(
        self, function: Callable[[Any], Any], jobs: Iterable[Any], label: str = ""
    ) -> list[Any]:
        """Results in the order of the jobs; with a label, a progress bar on a terminal.

        Raises:
            UserError: if workers die again and again.
        """
        return list(self.imap(function, jobs, label))

    def imap(
        self, function: Callable[[Any], Any], jobs: Iterable[Any], label: str = ""
    ) -> Iterator[Any]:
        """As `map`, but yields each result as soon as it and all before it are there."""
        from tqdm import tqdm

        jobs = list(jobs)
        off = None if label else True  # None: no bar without a terminal
        results = self._imap(function, jobs)
        yield from tqdm(results, label, len(jobs), leave=False, disable=off, smoothing=0)

    @abstractmethod
    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        """Results in the order of the jobs."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Number of jobs that can run at once now, about."""

    @abstractmethod
    def shared(self, file: Path) -> Readable:
        """A file that no longer changes, readable by jobs wherever they run."""

    @abstractmethod
    def close(self) -> None:
        """End the workers after their present jobs."""

    def abort(self) -> None:
        """End the workers at once."""
        self.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, exception: type[BaseException] | None, *_: object) -> None:
        if exception is None:
            self.close()
        else:
            self.abort()


class WorkerPool(Pool):
    """Workers are processes; each calls `initialise(*arguments)` before its first job."""

    def __init__(self, workers: int, initialise: Callable[..., None], *arguments: Any) -> None:
        self._workers = workers
        self._initialise = (initialise, arguments)
        self._lifeline, self._line = multiprocessing.Pipe(duplex=False)
        self._executor = self._start()

    @property
    def capacity(self) -> int:
        return self._workers

    def shared(self, file: Path) -> Readable:
        return file

    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        done = deaths = 0
        while done < len(jobs):
            try:
                submitted = (self._submit(function, job) for job in jobs[done:])
                futures = deque(islice(submitted, QUEUED_JOBS * self._workers))
                while futures:
                    result = futures.popleft().result()
                    futures.extend(islice(submitted, 1))
                    done += 1
                    deaths = 0
                    yield result
            except BrokenProcessPool:
                deaths += 1
                self.replaced += 1
                if deaths >= MOST_DEATHS:
                    died = f"workers died {deaths} times in a row, see above"
                    raise UserError(f"{died}: {LIKELY_CAUSE}") from None
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._line.close()

    def abort(self) -> None:
        self._line.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _submit(self, function: Callable[[Any], Any], job: Any) -> Future[Any]:
        """Submit a job; an interrupt must not come while that starts a worker."""
        with deferred_interrupt():
            return self._executor.submit(function, job)

    def _start(self) -> ProcessPoolExecutor:
        start_fork_server(self._initialise[0].__module__)
        return ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context("forkserver"),
            initializer=_initialise,
            initargs=(self._lifeline, *self._initialise),
        )


def _initialise(
    lifeline: Connection, initialise: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    """Initialise a worker, which ends with its parent or the lifeline."""
    watch_parent(lifeline)
    initialise(*arguments)
