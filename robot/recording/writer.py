"""Writer process of a recording: steps from standard input to an MCAP file."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

from mcap.writer import CompressionType
from mcap_ros2.writer import Writer

from pixelgait.robot.cli.processes import ENDING
from pixelgait.robot.recording.messages import STATE, TYPES, messages, state_message
from pixelgait.robot.runtime.control_loop import ControlStep
from pixelgait.robot.runtime.state_machine import RobotState

CHUNK_BYTES = 64 << 10  # lost at most if this process is killed: about 0.2 s
NICENESS = 10


class StepWriter:
    """Writes one file, which can be read whenever the process ends."""

    def __init__(self, file: IO[bytes]) -> None:
        self._writer = Writer(file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        self._schemas = {
            topic: self._writer.register_msgdef(*definition) for topic, definition in TYPES.items()
        }
        self._names: tuple[str, ...] = ()
        self._state: tuple[str, str] | None = None  # the last step's, with its cause
        self._now_ns = 0  # of the newest step
        self._session = self._first = self._next = 0  # numbers of steps, over all sessions

    def begin(self, files: dict[str, bytes], about: dict[str, str], names: tuple[str, ...]) -> None:
        """Start a session: store the bundle's files and metadata."""
        for name, data in files.items():
            self._writer.add_attachment(0, 0, name, "application/octet-stream", data)
        self._writer.add_metadata("pixelgait", about)
        self._names, self._state = names, None
        self._session, self._first = self._session + 1, self._next

    def step(self, step: ControlStep) -> None:
        """Write all messages of a step with its number: a missing number is a lost step."""
        self._now_ns = round(step.inputs.reading.time_s * 1e9)
        state, self._state = self._state, (step.state, step.cause)
        changed, number = state != self._state, self._first + step.number
        for topic, content in messages(step, self._names, self._session, changed):
            self._write(topic, content, number)
        self._next = number + 1

    def end(self, cause: str) -> None:
        """Write the cause of a session's end, if the session has any step."""
        if self._next > self._first:
            self._write(STATE, state_message(RobotState.LIMP.value, cause), self._next - 1)

    def _write(self, topic: str, content: dict[str, Any], number: int) -> None:
        schema = self._schemas[topic]
        self._writer.write_message(topic, schema, content, self._now_ns, sequence=number)

    def finish(self) -> None:
        """Write the index at the end of the file."""
        self._writer.finish()


def main() -> None:
    """Runs until standard input ends. Signals are ignored: systemd sends them to all processes."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    path, received = Path(sys.argv[1]), items(sys.stdin.buffer)
    try:
        write(path, received)
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        sys.exit(error.errno or 1)


def write(path: Path, received: Iterator[tuple[str, Any]]) -> None:
    """Write all items. At the first step an older recording is renamed.

    Raises:
        OSError: if the file cannot be written, or another process writes it.
    """
    begun: list[tuple[str, Any]] = []
    for item in received:
        begun.append(item)
        if item[0] == "step":
            break
    else:
        return
    with alone(path):
        keep_older(path)
    with alone(path), path.open("wb") as file:
        writer = StepWriter(file)
        for kind, content in chain(begun, received):
            if kind == "begin":
                writer.begin(content["files"], content["about"], content["joint_names"])
            elif kind == "end":
                writer.end(content)
            else:
                writer.step(content)
            file.flush()  # complete chunks
        writer.finish()


def keep_older(path: Path) -> None:
    """Rename an older recording: a restart after a fault must not overwrite the record of it.

    Raises:
        OSError: if it cannot be renamed.
    """
    if path.is_file() and path.stat().st_size:
        names = (path.with_stem(f"{path.stem}-{number}") for number in count(1))
        path.rename(next(name for name in names if not name.exists()))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Lock the file against another recorder, which would truncate it.

    Raises:
        OSError: if another process holds the lock.
    """
    with path.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EWOULDBLOCK, "another process records there") from None
        except OSError:  # a file system without locks
            pass
        yield


def items(pipe: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Items from the recorder, until it ends or is killed."""
    while True:
        try:
            yield pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):
            return


if __name__ == "__main__":
    main()
