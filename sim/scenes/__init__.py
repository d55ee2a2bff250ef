"""Building blocks of scenes: see `docs/scenes.md`."""

from pixelgait.sim.world.scene import Box, HeightField, Layout, Mesh, Plane, Pose, Scene, Swing

__all__ = ["Box", "HeightField", "Layout", "Mesh", "Plane", "Pose", "Scene", "Swing"]
