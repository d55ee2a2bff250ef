"""Provenance of files: version and commit of this package, and the options used."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

DISTRIBUTION = "pixelgait"
SCHEMA = 1  # version of the JSON files that begin with a `head`
DOCUMENTATION = (":(top,exclude)docs", ":(top,exclude)*.md")  # for git status; commands write it


def version(distribution: str = DISTRIBUTION) -> str | None:
    """Version of an installed package; None if pip did not install it (a ROS 2 workspace)."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def git_state() -> dict[str, Any]:
    """The code's commit, and whether files other than documentation differ; None outside git."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "--no-optional-locks", *arguments],
                cwd=here.parent,
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    if git("ls-files", "--error-unmatch", here.name) is None:  # installed, or no repository
        return {"commit": None, "modified": None}
    changed = git("status", "--porcelain", "--", ":/", *DOCUMENTATION)
    return {"commit": git("rev-parse", "HEAD"), "modified": bool(changed)}


def head(command: str) -> dict[str, Any]:
    """First keys of a JSON file: what wrote it."""
    return {"schema": SCHEMA, "command": command, "version": version(), **git_state()}


def settings(config: Any, *places: str) -> dict[str, Any]:
    """The options behind some figures, for JSON; `places` are those that name output files."""
    options = {each.name: getattr(config, each.name) for each in fields(config)}
    return {name: _plain(value) for name, value in options.items() if name not in places}


def _plain(value: Any) -> Any:
    """An option's value with paths as text."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


@cache
def code_sha256(folders: Sequence[str]) -> str:
    """SHA-256 of the code of some of this package's folders, installed or in a checkout."""
    digest = hashlib.sha256()
    for name in folders:
        spec = importlib.util.find_spec(f"{DISTRIBUTION}.{name}")
        for folder in (spec and spec.submodule_search_locations) or ():
            for path in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{name}/{path.relative_to(folder)}".encode() + path.read_bytes())
    return digest.hexdigest()
