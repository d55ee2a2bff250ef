"""Compiled kernels are kept on disk, and compiled anew when what they use has changed."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import numba
import pytest

KERNEL = """
from parts import LIMIT, twice
from pixelgait.sim.world.compiled import compiled

@compiled
def limited(x):
    return min(twice(x), LIMIT)
"""
PARTS = """
from pixelgait.sim.world.compiled import compiled

LIMIT = {limit}

@compiled
def twice(x):
    return {factor} * x
"""


def answer(folder: Path, limit: float, factor: float, at: int) -> tuple[float, int]:
    """What the kernel returns, and whether it was found on disk; its own file stays as it is."""
    for name, text in (("kernel", KERNEL), ("parts", PARTS.format(limit=limit, factor=factor))):
        (folder / f"{name}.py").write_text(text)
        os.utime(folder / f"{name}.py", (at, at) if name == "parts" else (0, 0))
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    limited = importlib.import_module("kernel").limited
    return limited(2.0), sum(limited.stats.cache_hits.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for modules and for their machine code."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path


def test_a_kernel_is_compiled_anew_when_another_file_changes(folder: Path) -> None:
    assert answer(folder, limit=9.0, factor=2.0, at=1) == (4.0, 0)
    assert answer(folder, limit=3.5, factor=1.5, at=2) == (3.0, 0)
    assert answer(folder, limit=2.5, factor=1.5, at=3) == (2.5, 0)
    assert answer(folder, limit=2.5, factor=1.5, at=3) == (2.5, 1)


def test_a_kernel_runs_where_no_folder_can_be_written(folder: Path) -> None:
    (folder / "kept").write_text("a file, no folder")
    assert answer(folder, limit=9.0, factor=2.0, at=1) == (4.0, 0)
