"""Building blocks of scenes: see `docs/scenes.md`."""

from pixelgait.sim.world.scene import (
    Box,
    HeightField,
    Layout,
    Mesh,
    Motion,
    Plane,
    Pose,
    Scene,
    Waypoint,
)

__all__ = [
    "Box",
    "HeightField",
    "Layout",
    "Mesh",
    "Motion",
    "Plane",
    "Pose",
    "Scene",
    "Waypoint",
]
