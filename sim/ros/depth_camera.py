"""Depth images of a simulated robot, finer than a policy's, as a real camera sends them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_SAMPLES
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.cast_scene import CastScene
from pixelgait.sim.world.scene import Mesh
from pixelgait.sim.world.seeds import Stream

FINE_ROWS = 96  # images with as many rows are fine enough: three of them for one of a policy


class DepthCamera:
    """Depth that a robot's camera measures, in one episode of its scene.

    Rays are cast for `DEPTH_SAMPLES` times the rows and columns of the robot's own images: the
    controller takes a pixel from as many. It costs a tenth of the engine's image of a ninth of the
    size. Rays show neither meshes, for which the engine renders, nor the robot itself.
    """

    def __init__(self, body: SimulatedBody, seed: int) -> None:
        self._body, own, self._rays = body, body.camera, None
        self.size = own.height, own.width
        if own.height >= FINE_ROWS or any(isinstance(s, Mesh) for s in body.scene.fixed):
            return
        self.size = DEPTH_SAMPLES * own.height, DEPTH_SAMPLES * own.width
        self._camera = replace(own, kind="depth", height=self.size[0], width=self.size[1])
        self._rays = CastScene(body.scene)
        self._rays.reset(Stream.LAYOUT.rng(seed))

    def render(self) -> NDArray[np.float32]:
        """Depth (H, W) [m] of this instant."""
        if self._rays is None:
            return self._body.render_depth()
        self._rays.move(self._body.time_s)
        depth: NDArray[np.float32] = self._rays.render(self._camera, self._body.pose())
        return depth

    def render_both(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) of the robot's own images, and depth [m] of this instant."""
        if self._rays is None:
            return self._body.render_both()
        return self._body.render_rgb(), self.render()
