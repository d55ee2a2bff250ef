"""Recorder of control steps: passes them to a writer process without blocking the control loop.

The control thread itself puts each step into a pipe that never blocks, after its command is out;
the process at the other end encodes and writes it. A thread of lower priority in between would hold
the interpreter's lock whenever another program takes its core. A slow disk delays nothing, and a
killed controller leaves a complete file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import pickle
import select
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pixelgait.robot.bundle import CONTRACT, FILES, Bundle
from pixelgait.robot.cli.provenance import git_state, version
from pixelgait.robot.control.velocity import RESPONSE, Response
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, require_writable

if TYPE_CHECKING:  # the command's help does not wait for the control loop
    from pixelgait.robot.runtime.control_loop import ControlStep

PIPE_BYTES = 1 << 20  # what the system keeps for the writer, if it may; about 2 s of steps
MOST_WAITING = 1000  # steps beyond that, 10 s; further ones are lost
CLOSE_S = 60.0  # to write the waiting steps; on a busy computer the writer gets little time
SUFFIX, MAGIC = ".mcap", b"\x89MCAP0\r\n"  # first bytes of a recording


class Recorder:
    """Writes steps to an MCAP file from another process.

    `problem` says why the recording ended early or is incomplete; None: it did not. The last step
    of a session is never `lost`: its number tells a reader how many were lost before it. Until the
    first step (`begun`) the file does not exist, or is an older recording.

    Raises:
        UserError: if the library mcap is missing, or as `require_recordable`.
    """

    def __init__(self, path: Path) -> None:
        require_library()
        require_recordable(path)
        self.path = path
        self.problem: str | None = None
        self.begun = False
        self._before = _content_of(path)
        self.lost = 0  # steps
        self._lost_last: ControlStep | None = None  # the newest step, if it was lost
        self._reported: set[str] = set()
        self._locked = False  # another process writes the file
        self._bundle: tuple[str, str] | None = None  # name and hash of the recorded one
        self._waiting: deque[memoryview] = deque()  # encoded items that the pipe did not take yet
        self._broken = False  # the writer has closed its end of the pipe
        command = [sys.executable, "-m", "pixelgait.robot.recording.writer", str(path)]
        # In a session of its own: only the controller receives Ctrl-C, and closes the recording.
        self._writer = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={k: v for k, v in os.environ.items() if k != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"},
        )
        assert self._writer.stdin is not None
        self._pipe = self._writer.stdin.fileno()
        os.set_blocking(self._pipe, False)
        with suppress(OSError):  # above the system's limit
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def begin(self, bundle: Bundle, response: Response | None = None) -> None:
        """Start a session: a controller of this bundle begins, or its high level alone, if there
        is a `response`, that of a robot with its own gait.

        A recording holds one bundle. It ends if another bundle walks, or the files have changed.
        """
        self._pass_last_lost()
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
        names = bundle.spec.joint_names if response is None else ()
        if response is not None:
            files = {**files, RESPONSE: response.to_json()}
        self._put(("begin", {"files": files, "about": about, "joint_names": names}))

    def _files(self, bundle: Bundle) -> dict[str, bytes]:
        """Files of the bundle; raises UserError if another is recorded, or files have changed."""
        this = str(bundle.contract["name"]), str(bundle.contract["sha256"])
        self._bundle = self._bundle or this
        if this != self._bundle:
            raise UserError(f"it holds bundle '{self._bundle[0]}', and another one walks now")
        return _as_loaded(bundle)

    def end(self, cause: str) -> None:
        """End a session: the controller has stopped for this cause."""
        self._pass_last_lost()
        if self.problem is None:
            self._put(("end", cause))

    def step(self, step: ControlStep) -> None:
        """Pass on a step; called by the control thread."""
        self.begun = True
        if self.problem is not None or self._broken:
            return
        self._flush()
        if len(self._waiting) >= MOST_WAITING:
            self.lost += 1
            self._lost_last = step
            return
        self._lost_last = None
        self._put(("step", step))

    def new_problems(self) -> list[str]:
        """Problems since the last call: steps were lost, or the recording has ended."""
        if self._broken:
            self._explain()
        gap = (
            f"{self.path}: the recording has a gap, disk or processor are too slow"
            if self.lost
            else None
        )
        new = [each for each in (gap, self.problem) if each and each not in self._reported]
        self._reported.update(new)
        return new

    def _pass_last_lost(self) -> None:
        """Pass on the last step after all, if it was lost."""
        last, self._lost_last = self._lost_last, None
        if last is not None:
            self._put(("step", last))
            self.lost -= 1

    @property
    def written(self) -> bool:
        """Whether the file holds steps of this recorder."""
        there = _content_of(self.path)
        return self.begun and not self._locked and there not in (None, self._before)

    def close(self) -> None:
        """Finish the file."""
        assert self._writer.stdin is not None
        self._pass_last_lost()
        until_s = time.monotonic() + CLOSE_S
        while self._waiting and (left_s := until_s - time.monotonic()) > 0.0:
            select.select([], [self._pipe], [], left_s)
            self._flush()
        self._writer.stdin.close()
        try:
            self._writer.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.problem = self.problem or f"{self.path}: the recording could not be finished"
            self._writer.kill()
        self._explain()
        if self.lost:
            self.problem = (
                self.problem
                or f"{self.path}: {self.lost} steps were lost, disk or processor were too slow"
            )

    def _put(self, item: tuple[str, Any]) -> None:
        """Encode an item, which must stay as it is at this moment, and pass on what can be."""
        self._waiting.append(memoryview(pickle.dumps(item, pickle.HIGHEST_PROTOCOL)))
        self._flush()

    def _flush(self) -> None:
        """Write what the pipe takes at once; the rest waits for the next call."""
        try:
            while self._waiting:
                taken = os.write(self._pipe, self._waiting[0])
                self._waiting[0] = self._waiting[0][taken:]
                if not self._waiting[0]:
                    self._waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the writer is gone
            self._broken = True
            self._waiting.clear()

    def _explain(self) -> None:
        """Wait for the writer's end, and set `problem` if it failed."""
        if self._writer.stderr is None or self._writer.stderr.closed:
            return
        with self._writer.stderr as pipe:
            errors = pipe.read().decode(errors="replace").strip()
        if (code := self._writer.wait()) != 0:
            self._locked = code == errno.EWOULDBLOCK  # the exit code is the error number
            reason = errors.splitlines()[-1] if errors else "its process was killed"
            self.problem = self.problem or f"the recording has ended: {reason}"


def _as_loaded(bundle: Bundle) -> dict[str, bytes]:
    """Files of a bundle; raises UserError if they have changed since it was loaded."""
    files = {CONTRACT: json_bytes(bundle.contract)}
    for name in FILES:
        path, wanted = bundle.folder / name, bundle.contract["files"][name]
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != wanted:
            raise UserError(f"{path} was changed since it was loaded")
        files[name] = content
    return files


def _content_of(path: Path) -> tuple[int, ...] | None:
    """Values that change with a file's content; None: no file, or an empty one."""
    if not path.is_file():
        return None
    found = path.stat()
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found.st_size else None


def require_recordable(path: Path) -> None:
    """Check before a walk that a recording can be written there.

    Raises:
        UserError: if the file is not called .mcap, is no recording, or is write-protected.
        OSError: if no file can be made in its folder.
    """
    if path.suffix != SUFFIX:
        raise UserError(f"--record {path}: expected a file {SUFFIX}")
    if path.is_file():
        try:
            with path.open("r+b") as file:  # as the writer does, but only at the first step
                begins = file.read(len(MAGIC))
        except OSError as error:
            raise UserError(
                f"--record {path}: the existing file cannot be overwritten ({error.strerror})"
            ) from None
        if begins not in (b"", MAGIC):
            raise UserError(f"--record {path}: the existing file is no recording, it would be lost")
    if not path.is_char_device():  # a link to /dev/full is a full disk
        require_writable(path, "record")


def require_library() -> None:
    """Raises UserError if the library for MCAP files is missing."""
    try:
        import mcap_ros2  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError(f"recordings need {error.name}: pip install 'pixelgait[record]'") from None
