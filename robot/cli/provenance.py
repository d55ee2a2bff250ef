"""Provenance: which version and which commit of this package made a file, and what was asked."""

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
SCHEMA = 1  # of the JSON files that begin with a `head`
DOCUMENTATION = (":(top,exclude)docs", ":(top,exclude)*.md")  # for git status; commands write it


def version(distribution: str = DISTRIBUTION) -> str | None:
    """Of an installed package; None where it was not installed by pip (a ROS 2 workspace)."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def git_state() -> dict[str, Any]:
    """Commit the code is at and whether files but the documentation's differ from it; None outside
    its repository."""
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
    """What has written a JSON file: its first keys."""
    return {"schema": SCHEMA, "command": command, "version": version(), **git_state()}


def settings(config: Any, *places: str) -> dict[str, Any]:
    """The options that figures come from, as JSON holds them: all but the places of files."""
    asked = {each.name: getattr(config, each.name) for each in fields(config)}
    kept = {name: value for name, value in asked.items() if name not in places}
    return {name: str(value) if isinstance(value, Path) else value for name, value in kept.items()}


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
