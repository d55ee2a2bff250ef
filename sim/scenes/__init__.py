"""Scenes by name, and what one needs to write another: see `docs/scenes.md`."""

from pixelgait.sim.world.scene import Box, HeightField, Layout, Mesh, Plane, Pose, Scene, Swing

__all__ = ["Box", "HeightField", "Layout", "Mesh", "Plane", "Pose", "Scene", "Swing"]
