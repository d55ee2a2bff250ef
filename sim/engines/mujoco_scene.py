"""Scene in MuJoCo: layout, moving shapes and camera images."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.robot.rotation import upright
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines.mujoco_camera import (
    Paint,
    TiledTextures,
    cast_both,
    cast_image,
    cast_with_appearance,
)
from pixelgait.sim.engines.mujoco_mesh import MeshTexture
from pixelgait.sim.engines.mujoco_model import scene_geom, wxyz
from pixelgait.sim.rendering.geometry import FOREIGN
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.obstacles import are_obstacles
from pixelgait.sim.world.scene import ORIGIN, Box, Layout, Mesh, Plane, Pose, Scene
from pixelgait.sim.world.texture import CHEQUERS_M, chequers, tile


class MuJoCoScene:
    """A scene in a compiled model."""

    def __init__(self, scene: Scene, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.scene, self.model, self.data = scene, model, data
        self._textured = {
            model.geom(scene_geom(i)).id: shape.texture
            for i, shape in enumerate((*scene.fixed, *scene.movable))
            if isinstance(shape, Box) and shape.visible and shape.texture is not None
        }
        self._planes = [
            model.geom(scene_geom(i)).id
            for i, shape in enumerate(scene.fixed)
            if isinstance(shape, Plane)
        ]
        self._mesh_textures = [
            MeshTexture(model, model.geom(scene_geom(i)).id, shape.texture)
            for i, shape in enumerate(scene.fixed)
            if isinstance(shape, Mesh) and shape.texture is not None
        ]
        shapes = (*scene.fixed, *scene.movable)
        self._geoms = [model.geom(scene_geom(i)).id for i in range(len(shapes))]
        self._collision_boxes = [  # of meshes
            model.geom(f"{scene_geom(i)}-{j}").id
            for i, shape in enumerate(scene.fixed)
            if isinstance(shape, Mesh)
            for j in range(len(shape.boxes))
        ]
        self.obstacles = np.zeros(model.ngeom, dtype=bool)  # of the last layout, by geom
        self._shapes = np.full(model.ngeom, FOREIGN)  # of the scene, by geom
        self._shapes[self._geoms] = np.arange(len(shapes))
        self._painter = Painter(scene)
        self.layout = Layout(ORIGIN)
        self._paints = self._painted()

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns the robot's start."""
        self.layout = self.scene.layout(rng)
        for i, pose in enumerate(self.layout.movable):
            self._place(i, pose)
        if self.layout.appearance is not None:
            self._painter.lay_out(self.layout)
        self.obstacles[self._geoms] = are_obstacles(self.scene, self.layout)
        self.obstacles[self._collision_boxes] = True
        return self.layout.start

    def move(self, time_s: float) -> None:
        """Put swinging shapes at their poses at a time after the reset [s]."""
        self._painter.time_s = time_s
        for swing in self.layout.swings:
            pose = swing.pose(self.layout.movable[swing.shape], time_s)
            self._place(swing.shape, pose)
            self._painter.move(swing.shape, pose)

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera (see `Camera`) on a base at this pose."""
        if self.layout.appearance is not None and camera.kind != "depth":
            rgb, depth = self.render_both(camera, pose)
            return rgb if camera.kind == "rgb" else rgbd(rgb, depth)
        camera = self._shaken(camera)
        return cast_image(self.model, self.data, camera, pose, self._paints)

    def render_both(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m], both through the pixels' centres."""
        camera = self._shaken(camera)
        if self.layout.appearance is not None:
            return cast_with_appearance(
                self.model, self.data, camera, pose, self._paints, self._painter, self._shapes
            )
        return cast_both(self.model, self.data, camera, pose, self._paints)

    def _shaken(self, camera: Camera) -> Camera:
        """The camera with its present shake in a moving appearance."""
        still = self.layout.appearance is None
        return camera if still else camera.shaken(self._painter.camera_offset())

    def _place(self, movable: int, pose: Pose) -> None:
        self.data.mocap_pos[movable] = (pose.x, pose.y, pose.z)
        self.data.mocap_quat[movable] = wxyz(upright(pose.yaw))

    def _painted(self) -> list[Paint]:
        """Colours of textured boxes, planes and meshes."""
        boxes = self._textured.items()
        covers = {geom: (tile(texture), texture.tile_m) for geom, texture in boxes}
        covers |= {geom: (chequers(), CHEQUERS_M) for geom in self._planes}
        tiles = [TiledTextures.of(self.model.ngeom, covers)] if covers else []
        return [*tiles, *self._mesh_textures]
