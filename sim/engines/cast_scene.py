"""A scene of boxes and height fields as cameras see it, by ray casting: no simulator is needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.rendering.geometry import Floats, Geometry, Hits, View
from pixelgait.sim.rendering.nominal import NominalColours
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.rendering.rays import cast
from pixelgait.sim.world.moving_shapes import MovingShapes
from pixelgait.sim.world.scene import ORIGIN, Layout, Pose, Scene


class CastScene:
    """Images of one scene without meshes and without a robot."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.layout = Layout(ORIGIN)
        self._moving = MovingShapes(self.layout)
        self._painter = Painter(scene)
        self._nominal: NominalColours | None = None  # made when first needed

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns the robot's start."""
        self.layout = self.scene.layout(rng)
        if self.layout.boxes:
            self._nominal = None
        self._moving = MovingShapes(self.layout)
        self._painter.lay_out(self.layout)
        return self.layout.start

    def move(self, time_s: float) -> None:
        """Put moving shapes at their poses at a time after the reset [s]."""
        self._painter.time_s = time_s
        for shape, pose in self._moving.poses(time_s):
            self._painter.move(shape, pose)

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera (see `Camera`) on a base at this pose."""
        if self.layout.appearance is not None:
            camera = camera.shaken(self._painter.camera_offset())
        view = camera.view(pose.position, rotation(pose.orientation))
        depth, shapes = first_hits(self._painter.geometry, view)
        if camera.kind == "depth":
            return depth
        colours = self._colours(camera, view, depth, shapes)
        return colours if camera.kind == "rgb" else rgbd(colours, depth)

    def _colours(
        self, camera: Camera, view: View, depth: Floats, shapes: NDArray[np.int32]
    ) -> NDArray[np.uint8]:
        """Colours (H, W, 3), in the episode's appearance if it has one."""
        if self.layout.appearance is None:
            if self._nominal is None:
                self._nominal = NominalColours(self._painter.geometry)
            return self._nominal.paint(view, depth, shapes, camera.light)
        hits = Hits(shapes.ravel().astype(np.intp), depth.ravel() / view.ahead)
        return self._painter.paint(view, hits).reshape(*view.size, 3)


def first_hits(geometry: Geometry, view: View) -> tuple[Floats, NDArray[np.int32]]:
    """Depth (H, W) [m] of a scene without meshes, and the shape in each pixel or `SKY`."""
    depth, shapes = np.empty(view.size, np.float32), np.empty(view.size, np.int32)
    cast(
        geometry.boxes,
        geometry.seen,
        geometry.fields,
        geometry.heights,
        view.eye,
        view.axes,
        1.0 / view.pixel_rad,
        view.far_m,
        depth,
        shapes,
    )
    return depth, shapes


def rotation(orientation: Iterable[float]) -> NDArray[np.float64]:
    """Rotation (3, 3) of a quaternion xyzw."""
    x, y, z, w = orientation
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return np.array(
        (
            (1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
            (s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)),
            (s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)),
        )
    )
