"""Worker pool: jobs in processes; a worker that dies is replaced and its jobs are repeated."""

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

WHY_LOST = (  # most often
    'too little memory, or a script without `if __name__ == "__main__":`, which multiprocessing '
    "needs"
)
MOST_DEATHS = 5  # in a row: then something is wrong that repeating does not mend
AHEAD = 64  # jobs for each worker that are handed over before the first one's result is there


class Pool(ABC):
    """Maps a function over jobs in workers, each of which was initialised before its first job.

    Jobs are pure: episodes depend on nothing but policy and seed. So a repeated job gives the same
    result, whichever worker does it.
    """

    replaced = 0  # workers that died

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
        results = self._imap(function, jobs)
        yield from tqdm(results, label, len(jobs), leave=False, disable=off, smoothing=0)

    @abstractmethod
    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        """Results in the order of the jobs."""

    @property
    @abstractmethod
    def hands(self) -> int:
        """How many jobs can be done at a time now, about."""

    @abstractmethod
    def shared(self, file: Path) -> Readable:
        """For jobs: a file that will not change any more, to be read wherever they are done."""

    @abstractmethod
    def close(self) -> None:
        """End the workers, once they have done what they are at."""

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
    """Workers are processes; each calls `initialise(*arguments)` once, before its first job."""

    def __init__(self, workers: int, initialise: Callable[..., None], *arguments: Any) -> None:
        self._workers = workers
        self._initialise = (initialise, arguments)
        self._lifeline, self._line = multiprocessing.Pipe(duplex=False)
        self._executor = self._start()

    @property
    def hands(self) -> int:
        return self._workers

    def shared(self, file: Path) -> Readable:
        return file

    def _imap(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        done = deaths = 0
        while done < len(jobs):
            try:
                submitted = (self._submit(function, job) for job in jobs[done:])
                futures = deque(islice(submitted, AHEAD * self._workers))
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
                    raise UserError(f"{died}: {WHY_LOST}") from None
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = self._start()

    def close(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._line.close()

    def abort(self) -> None:
        self._line.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _submit(self, function: Callable[[Any], Any], job: Any) -> Future[Any]:
        """Hand over a job, which may start a worker; of one half started nobody would know."""
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
    """Besides the thread that works one that ends this process when the parent does or says so."""
    watch_parent(lifeline)
    initialise(*arguments)
