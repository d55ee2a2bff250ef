"""Processes: children that do not outlive their parent, and deferred interrupts."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import get_temp_dir
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # they end a process
PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal to get when the parent dies
POLL_S = 0.02  # between two looks whether a signal has arrived; assumption
LAST_BREATH_S = 1.0  # by then an ending parent has closed all its pipes


THREADS = "OMP_NUM_THREADS"


class Stop(threading.Event):
    """An event that a signal handler may set in the thread that waits for it.

    The lock of a threading.Event is not reentrant: a handler that interrupts `wait` in its own
    thread would deadlock. So this is a flag, which `wait` polls.
    """

    def __init__(self) -> None:
        super().__init__()
        self._set = False

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for at most so long [s]; returns whether the event is set."""
        end_s = math.inf if timeout is None else time.monotonic() + timeout
        while not self._set and (left_s := end_s - time.monotonic()) > 0.0:
            time.sleep(min(left_s, POLL_S))
        return self._set


def stopped_by_signals() -> Stop:
    """An event that signals set which otherwise end a process."""
    stop = Stop()
    for number in ENDING:
        signal.signal(number, lambda *_: stop.set())
    return stop


def stopped_by_user_signal(emergency_stop: Callable[[str], object]) -> None:
    """Make SIGUSR1, which otherwise ends a process, an emergency stop; it is told its cause."""
    signal.signal(signal.SIGUSR1, lambda *_: emergency_stop("signal SIGUSR1"))


def start_fork_server(module: str) -> None:
    """Start multiprocessing's fork server, which imports a module once for all children.

    Libraries read the number of threads when they load: each child gets one. The server ends with
    its last child. It ignores Ctrl-C, which a terminal sends to all: the parent may have to save.
    """
    _tidy_at_sigterm()
    multiprocessing.set_forkserver_preload([module])
    resource_tracker.ensure_running()  # at its start it unblocks Ctrl-C
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop(THREADS)
        if before is not None:
            os.environ[THREADS] = before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _tidy_at_sigterm() -> None:
    """Let SIGTERM remove the folder of the fork server's socket, as a normal exit does."""
    owner = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() == owner:  # forks inherit this handler
            shutil.rmtree(get_temp_dir(), ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


def watch_parent(*lifelines: Connection) -> None:
    """End this child process at once when its parent ends, or a lifeline is closed.

    Args:
        lifelines: pipes through which nothing is sent.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    watched: list[Any] = [parent.sentinel, *lifelines]

    def end() -> None:
        wait(watched)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def serve(work: Callable[..., None], *arguments: Any) -> None:
    """Do a child's work, which ends with its parent; pipes that break then raise no error.

    Raises:
        OSError, EOFError: from the work, while the parent runs.
    """
    watch_parent()
    try:
        work(*arguments)
    except (OSError, EOFError):
        threading.Event().wait(LAST_BREATH_S)  # the watching thread ends this process
        raise


def die_with_parent(parent: int) -> None:
    """Kill this process when its parent, with this process id, dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before: no signal will come
        os._exit(1)


def deferred_interrupt() -> AbstractContextManager[None]:
    """Defer Ctrl-C and SIGTERM while a child process starts.

    A child that is half started would be lost, and print a traceback when its parent is gone.
    """
    return interrupt_later(signal.SIGTERM)


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Suppress standard error, also that of C++ libraries."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def interrupt_later(*also: signal.Signals) -> Iterator[None]:
    """Defer Ctrl-C, and further signals, to the end of work that must not be cut off.

    Examples are libraries that report an interrupt as an error of their own, or hold a lock.

    Raises:
        KeyboardInterrupt: at the end, if Ctrl-C came.
    """
    if threading.current_thread() is not threading.main_thread():  # others receive no signals
        yield
        return
    came: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, *also)}

    def defer(number: int, _: object) -> None:
        came.append(number)
        if before[signal.Signals(number)] is _announce:
            _say_interrupted()

    for each in before:
        signal.signal(each, defer)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came[:1]:  # also where the work has failed because of it
            signal.raise_signal(number)


@contextmanager
def announced_interrupt() -> Iterator[None]:
    """Answer Ctrl-C at once with a line, also while `interrupt_later` defers it."""
    _said.clear()
    before = signal.signal(signal.SIGINT, _announce)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_said = threading.Event()


def _announce(*_: object) -> None:
    _say_interrupted()
    raise KeyboardInterrupt


def _say_interrupted() -> None:
    if not _said.is_set():
        _said.set()
        os.write(2, b"\ninterrupted, ending the workers ...\n")
