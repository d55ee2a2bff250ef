"""PyBullet, imported without its banner on standard error."""

from __future__ import annotations

from pixelgait.robot.cli.processes import hushed

with hushed():
    import pybullet

__all__ = ["pybullet"]
