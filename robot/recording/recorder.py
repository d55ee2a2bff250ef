"""The recorder's side of the control loop: it hands steps over and waits for nobody.

A thread of its own passes them on to a process of its own, which encodes and writes them: neither
the interpreter's lock nor a slow disk reaches the control thread, and a controller that is killed
leaves a complete file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pixelgait.robot.bundle import CONTRACT, FILES, Bundle
from pixelgait.robot.cli.provenance import git_state, version
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, require_writable
from pixelgait.robot.runtime.control_loop import ControlStep

MOST_WAITING = 1000  # steps, 10 s: then the disk is too slow, and steps are lost
CLOSE_S = 20.0  # for what waits; twice that with a disk that does not answer
SUFFIX, MAGIC = ".mcap", b"\x89MCAP0\r\n"  # with which such a file begins


class Recorder:
    """Writes steps to an MCAP file, from another process.

    `problem` says why the recording has ended early, or is not complete, or is None. The last step
    of a session is never `lost`: its number tells a reader of those before it. Before
    the first, not `begun`, there is no file, or still an older one.

    Raises:
        UserError: the library mcap is missing, or see `require_recordable`.
    """

    def __init__(self, path: Path) -> None:
        require_library()
        require_recordable(path)
        self.path = path
        self.problem: str | None = None
        self.begun = False
        self._before = _content_of(path)
        self.lost = 0  # steps
        self._lost_last: ControlStep | None = None  # if it is the newest that was handed over
        self._told: set[str] = set()
        self._anothers = False  # what is there
        self._bundle: tuple[str, str] | None = None  # name and hash of the one that is recorded
        self._queue: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        command = [sys.executable, "-m", "pixelgait.robot.recording.writer", str(path)]
        # In a session of its own: Ctrl-C is the controller's, which then says that it is over.
        self._writer = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={k: v for k, v in os.environ.items() if k != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"},
        )
        self._thread = threading.Thread(target=self._pass_on, name="recorder")
        self._thread.start()

    def begin(self, bundle: Bundle) -> None:
        """A controller of this bundle starts anew.

        A recording is of one bundle: it ends where another one walks, or the files of this one are
        no longer those that walk.
        """
        self._hand_over_the_last()
        try:
            files = self._files(bundle)
        except UserError as error:
            self.problem = self.problem or f"the recording has ended: {error}"
            return
        git = git_state()
        about = {
            "bundle": str(bundle.contract["name"]),
            "bundle_sha256": str(bundle.contract["sha256"]),
            "version": str(version()),
            "commit": str(git["commit"]),
            "modified": str(git["modified"]),
        }
        names = bundle.spec.joint_names
        self._queue.put(("begin", {"files": files, "about": about, "joint_names": names}))

    def _files(self, bundle: Bundle) -> dict[str, bytes]:
        """Of the bundle that is recorded; raises UserError if it is another, or has changed."""
        this = str(bundle.contract["name"]), str(bundle.contract["sha256"])
        self._bundle = self._bundle or this
        if this != self._bundle:
            raise UserError(f"it is of bundle '{self._bundle[0]}', and another one walks now")
        return _as_loaded(bundle)

    def end(self, cause: str) -> None:
        """The controller was stopped, or has stopped, for this cause; the next may begin."""
        self._hand_over_the_last()
        if self.problem is None:
            self._queue.put(("end", cause))

    def step(self, step: ControlStep) -> None:
        """Hand a step over; from the control thread."""
        self.begun = True
        if self.problem is not None:
            return
        if self._queue.qsize() >= MOST_WAITING:
            self.lost += 1
            self._lost_last = step
            return
        self._lost_last = None
        self._queue.put(("step", step))

    def news(self) -> list[str]:
        """What has gone wrong since the last call, for people: steps that are lost, or the end."""
        gap = (
            f"{self.path}: the recording has a gap, disk or processor are too slow"
            if self.lost
            else None
        )
        new = [each for each in (gap, self.problem) if each and each not in self._told]
        self._told.update(new)
        return new

    def _hand_over_the_last(self) -> None:
        """Of the steps that were lost the last one is not."""
        last, self._lost_last = self._lost_last, None
        if last is not None:
            self._queue.put(("step", last))
            self.lost -= 1

    @property
    def written(self) -> bool:
        """Whether the file that is there holds steps of this recorder."""
        there = _content_of(self.path)
        return self.begun and not self._anothers and there not in (None, self._before)

    def close(self) -> None:
        """Finish the file."""
        self._hand_over_the_last()
        self._queue.put(None)
        try:
            self._writer.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self.problem = self.problem or f"{self.path}: the recording could not be finished"
            self._writer.kill()
        self._thread.join(CLOSE_S)  # it says why the writer has ended
        if self.lost:
            self.problem = (
                self.problem
                or f"{self.path}: {self.lost} steps were lost, disk or processor were too slow"
            )

    def _pass_on(self) -> None:
        """In the recorder's thread."""
        assert self._writer.stdin is not None
        assert self._writer.stderr is not None
        try:
            with self._writer.stdin as pipe:
                while (item := self._queue.get()) is not None:
                    pickle.dump(item, pipe, protocol=pickle.HIGHEST_PROTOCOL)
                    pipe.flush()
        except OSError:  # the writer is gone
            pass
        said = self._writer.stderr.read().decode(errors="replace").strip()
        if (code := self._writer.wait()) != 0:
            self._anothers = code == errno.EWOULDBLOCK  # it ends with the error's number
            reason = said.splitlines()[-1] if said else "its process was killed"
            self.problem = self.problem or f"the recording has ended: {reason}"


def _as_loaded(bundle: Bundle) -> dict[str, bytes]:
    """A bundle's files; raises UserError if they have changed since it was loaded."""
    files = {CONTRACT: json_bytes(bundle.contract)}
    for name in FILES:
        path, wanted = bundle.folder / name, bundle.contract["files"][name]
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != wanted:
            raise UserError(f"{path} was changed since it was loaded")
        files[name] = content
    return files


def _content_of(path: Path) -> tuple[int, ...] | None:
    """What changes with a file's content; None if there is no file, or an empty one."""
    if not path.is_file():
        return None
    found = path.stat()
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found.st_size else None


def require_recordable(path: Path) -> None:
    """To be called before a walk: only an older recording may be replaced by that of it.

    Raises:
        UserError: the file is not called .mcap, something else than a recording is there, or the
            recording that is there is write-protected.
        OSError: no file can be made in its folder.
    """
    if path.suffix != SUFFIX:
        raise UserError(f"--record {path}: expected a file {SUFFIX}")
    if path.is_file():
        try:
            with path.open("r+b") as file:  # as the writer will, who is not heard before a step
                begins = file.read(len(MAGIC))
        except OSError as error:
            raise UserError(
                f"--record {path}: the file that is there cannot be overwritten ({error.strerror})"
            ) from None
        if begins not in (b"", MAGIC):
            raise UserError(f"--record {path}: no recording is there, it would be overwritten")
    if not path.is_char_device():  # a link to /dev/full is a full disk
        require_writable(path, "record")


def require_library() -> None:
    """Raise a UserError where MCAP files can be neither written nor read."""
    try:
        import mcap_ros2  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(
            f"recordings need {error.name}: in the checkout, pip install -e '.[record]'"
        ) from None
