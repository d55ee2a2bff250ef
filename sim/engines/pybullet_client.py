"""PyBullet, imported without its banner on standard error."""

from __future__ import annotations

from pixelgait.robot.cli.processes import silence_stderr

with silence_stderr():
    import pybullet

__all__ = ["pybullet"]
