"""PyBullet, imported without its banner on standard error."""

from __future__ import annotations

import os
import sys


def _import_silently() -> None:
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        import pybullet  # noqa: F401
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


_import_silently()

import pybullet  # noqa: E402

__all__ = ["pybullet"]
