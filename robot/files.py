"""Atomic file writes: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pixelgait.robot.errors import UserError


def json_bytes(content: Any) -> bytes:
    """JSON as this project writes it: indented, null for NaN, with a newline at the end."""
    content = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return (json.dumps(content, indent=2) + "\n").encode()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def require_writable(path: Path) -> None:
    """To be called before long work whose result shall be written to `path`; makes its folder.

    Raises:
        UserError: something else than a file is there.
        OSError: no file can be made in that folder.
    """
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise UserError(f"{path} is not a file, nothing can be written there")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
        pass
