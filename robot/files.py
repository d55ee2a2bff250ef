"""Files: atomic writes, and folders that one process at a time writes to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pixelgait.robot.errors import UserError

LOCK = ".lock"


class Readable(Protocol):
    """A file in a folder or an archive; equal if it is the same one, `str` gives its name."""

    def __hash__(self) -> int: ...

    def read_bytes(self) -> bytes:
        """The file's content."""


def json_bytes(content: Any) -> bytes:
    """JSON bytes: indented, null for NaN, with a newline at the end."""
    content = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return (json.dumps(content, indent=2) + "\n").encode()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path, error: type[UserError] = UserError) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises:
        UserError: if it does not, or cannot be read; of the type `error`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as cause:
        raise error(f"{path}: not readable as JSON ({cause})") from None
    if not isinstance(content, dict):
        raise error(f"{path}: expected a JSON object")
    return content


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old or the new content."""
    with replacing(path) as aside:
        aside.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file beside `path`, which replaces `path` at the end of the block.

    An exception in the block leaves `path` as it is. A symbolic link stays one: its target is
    replaced. Permissions are kept; those of a new file follow the umask.

    Raises:
        UserError: if `path` is no file.
        OSError: if it cannot be written; names `path`.
    """
    _require_file(path)
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with aside.open("xb") as file:  # as private as the user's umask says
            yield aside
            os.fsync(file.fileno())
        if path.exists():
            aside.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(aside)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def remove_leftovers(folder: Path, *names: str) -> None:
    """Remove the temporary files with these names that a killed `replacing` has left.

    The caller must be the only one that writes to the folder.
    """
    for name in names:
        for path in folder.glob(f".{name}.{'[0-9a-f]' * 8}"):
            path.unlink(missing_ok=True)


def require_writable(path: Path, option: str | None = None) -> None:
    """Check before long work that its result can be written to `path`; makes the folder.

    With the name of the option that names the file, a folder that is made is reported.

    Raises:
        UserError: if something else than a file is there.
        OSError: if no file can be made in that folder; names `path`.
    """
    _require_file(path)
    file = Path(os.path.realpath(path))
    missing = not file.parent.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}."):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    if option is not None and missing:
        print(f"--{option} {path}: made folder {file.parent}", file=sys.stderr)


def _require_file(path: Path) -> None:
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a file, nothing can be written there")


@contextmanager
def temporary_file(content: bytes, suffix: str) -> Iterator[Path]:
    """A temporary file with this content, for libraries that read only files.

    Raises:
        OSError: if it cannot be written; names it.
    """
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        path = Path(file.name)
        try:
            path.write_bytes(content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, file.name) from None
        yield path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which is created if missing; the lock ends with the block, or the process.

    Raises:
        UserError: if another process holds it, or the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise UserError(f"{folder} is in use by another process ({holder})") from None
        except OSError as error:
            raise UserError(f"{folder} cannot be locked: {error.strerror}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
