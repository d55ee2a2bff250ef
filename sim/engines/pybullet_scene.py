"""Scenes in PyBullet: built, laid out, moved and seen."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import temporary_file
from pixelgait.robot.rotation import upright
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.interface import BasePose
from pixelgait.sim.engines import pybullet_camera
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.meshes import TRIANGLES, box_corners, box_uv
from pixelgait.sim.world.obstacles import are_obstacles, is_above_ground
from pixelgait.sim.world.scene import ORIGIN, Box, HeightField, Layout, Mesh, Pose, Scene, Shape
from pixelgait.sim.world.texture import Texture, tile


class PyBulletScene:
    """A scene built in one PyBullet client; `alone`: nothing else is ever in it to be seen."""

    def __init__(self, scene: Scene, client: int, alone: bool = False) -> None:
        self.scene = scene
        self.client = client
        self._textures: dict[Texture, int] = {}  # what PyBullet calls them
        self._fixed = [self._add(shape) for shape in scene.fixed]
        self._movable = [(self._add(shape), _middle_z(shape)) for shape in scene.movable]
        shapes = zip(self._fixed, scene.fixed, strict=True)
        self._meshes = {body for body, shape in shapes if isinstance(shape, Mesh)}
        self._obstacles: set[int] = set()  # of the last layout
        self._away: set[int] = set()  # movable ones too far to be seen in it
        self.layout = Layout(ORIGIN)
        self._alone = alone
        self._painter = Painter(scene)
        bodies = (*self._fixed, *(body for body, _ in self._movable))
        self._shapes = {body: i for i, body in enumerate(bodies)}

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns where the robot starts."""
        self.layout = self.scene.layout(rng)
        for placed, pose in zip(self._movable, self.layout.movable, strict=True):
            self._place(*placed, pose)
        self._hide_what_is_away()
        self._painter.lay_out(self.layout)
        bodies = (*self._fixed, *(body for body, _ in self._movable))
        obstacles = zip(bodies, are_obstacles(self.scene, self.layout), strict=True)
        self._obstacles = {body for body, is_obstacle in obstacles if is_obstacle}
        return self.layout.start

    def move(self, time_s: float) -> None:
        """Put what swings where it is so long after the reset."""
        self._painter.time_s = time_s
        for swing in self.layout.swings:
            pose = swing.pose(self.layout.movable[swing.shape], time_s)
            self._place(*self._movable[swing.shape], pose)
            self._painter.move(swing.shape, pose)

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """What the camera sees in this episode from a base at this pose; see `Camera`."""
        camera = camera.shaken(self._painter.camera_offset())
        if self.layout.appearance is not None and camera.kind != "depth":
            return self._with_appearance(camera, pose)
        return pybullet_camera.render(self.client, camera, pose)

    def render_both(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m], both through the pixels' centres."""
        return self.render_from(camera.shaken(self._painter.camera_offset()), pose)

    def render_from(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """As `render_both`, but for a camera that never shakes, such as that of a film."""
        if self.layout.appearance is not None:
            return pybullet_camera.render_with_appearance(
                self.client, camera, pose, self._painter, self._shapes
            )
        return pybullet_camera.render_both(self.client, camera, pose)

    def _with_appearance(self, camera: Camera, pose: BasePose) -> NDArray[np.uint8]:
        """Colours, or these and depth; colours alone of a scene alone without PyBullet."""
        if camera.kind == "rgb" and self._alone:
            view = pybullet_camera.view_from(camera, pose)
            hits = self._painter.cast(view)
            if hits is not None:
                colours = self._painter.paint(view, hits)
                return colours.reshape(camera.height, camera.width, 3)
        rgb, depth = self.render_from(camera, pose)
        return rgb if camera.kind == "rgb" else rgbd(rgb, depth)

    @property
    def has_obstacles(self) -> bool:
        """Whether there is anything to run into."""
        return bool(self._obstacles or self._meshes)

    def is_obstacle(self, body: int, point: tuple[float, float, float]) -> bool:
        """Whether a body of PyBullet's that is touched at this point [m] is not just ground."""
        if body in self._meshes:
            return is_above_ground(self.scene, point)
        return body in self._obstacles

    def _hide_what_is_away(self) -> None:
        """PyBullet's renderer spends its time on whatever there is, however far away: on a height
        field 6 ms an image."""
        shapes = zip(self.scene.movable, self.layout.movable, self._movable, strict=True)
        for shape, pose, (body, _) in shapes:
            away = abs(pose.z - self.layout.start.z) > FAR_M
            unseen = isinstance(shape, Box) and not shape.visible
            if unseen or away == (body in self._away):
                continue
            textured = isinstance(shape, Box) and shape.texture is not None
            colour = (1.0, 1.0, 1.0) if textured else shape.colour
            pybullet.changeVisualShape(
                body, -1, rgbaColor=(*colour, float(not away)), physicsClientId=self.client
            )
            self._away ^= {body}

    def _place(self, body: int, middle: float, pose: Pose) -> None:
        pybullet.resetBasePositionAndOrientation(
            body,
            (pose.x, pose.y, pose.z + middle),
            upright(pose.yaw),
            physicsClientId=self.client,
        )

    def _add(self, shape: Shape) -> int:
        if isinstance(shape, Box):
            body = self._box(shape)
        elif isinstance(shape, Mesh):
            body = self._mesh(shape)
        elif isinstance(shape, HeightField):
            body = self._height_field(shape)
        else:
            body = self._plane()
        pybullet.changeDynamics(
            body, -1, lateralFriction=shape.friction, physicsClientId=self.client
        )
        return body

    def _box(self, box: Box) -> int:
        client = self.client
        shape = pybullet.createCollisionShape(
            pybullet.GEOM_BOX, halfExtents=box.half_m, physicsClientId=client
        )
        if box.texture is None or not box.visible:
            visual = pybullet.createVisualShape(
                pybullet.GEOM_BOX,
                halfExtents=box.half_m,
                rgbaColor=(*box.colour, float(box.visible)),
                specularColor=(0, 0, 0),
                physicsClientId=client,
            )
        else:  # PyBullet's own box shows one pixel of a texture
            visual = _textured_box(box.half_m, box.texture.tile_m, client)
        pose = box.pose
        body: int = pybullet.createMultiBody(
            0,
            shape,
            visual,
            (pose.x, pose.y, pose.z),
            upright(pose.yaw),
            physicsClientId=client,
        )
        if box.texture is not None and box.visible:
            self._paint(body, box.texture)
        return body

    def _paint(self, body: int, texture: Texture) -> None:
        """Show a body in a texture; it is loaded when it is first needed."""
        if texture not in self._textures:
            _, picture = cv2.imencode(".png", tile(texture)[::-1, :, ::-1])  # row 0 is the top
            with temporary_file(picture.tobytes(), ".png") as file:
                self._textures[texture] = pybullet.loadTexture(
                    str(file), physicsClientId=self.client
                )
        pybullet.changeVisualShape(
            body, -1, textureUniqueId=self._textures[texture], physicsClientId=self.client
        )

    def _height_field(self, field: HeightField) -> int:
        rows, columns = field.heights_m.shape
        shape = pybullet.createCollisionShape(
            pybullet.GEOM_HEIGHTFIELD,
            meshScale=(field.cell_m, field.cell_m, 1.0),
            heightfieldData=field.heights_m.T.ravel().tolist(),  # x varies fastest
            numHeightfieldRows=rows,
            numHeightfieldColumns=columns,
            physicsClientId=self.client,
        )
        pose = field.pose
        position = (pose.x, pose.y, pose.z + _middle_z(field))
        body: int = pybullet.createMultiBody(
            0, shape, -1, position, upright(pose.yaw), physicsClientId=self.client
        )
        pybullet.changeVisualShape(
            body,
            -1,
            rgbaColor=(*field.colour, 1.0),
            specularColor=(0, 0, 0),
            textureUniqueId=-1,  # without PyBullet's chequers
            physicsClientId=self.client,
        )
        return body

    def _mesh(self, mesh: Mesh) -> int:
        client = self.client
        try:
            shape = pybullet.createCollisionShape(
                pybullet.GEOM_MESH,
                fileName=str(mesh.collision),
                flags=pybullet.GEOM_FORCE_CONCAVE_TRIMESH,
                physicsClientId=client,
            )
            visual = pybullet.createVisualShape(
                pybullet.GEOM_MESH,
                fileName=str(mesh.visual),
                specularColor=(0, 0, 0),
                physicsClientId=client,
            )
        except pybullet.error as error:
            files = " or ".join(sorted({str(mesh.collision), str(mesh.visual)}))
            raise UserError(f"{files}: no mesh that PyBullet can read ({error})") from None
        body: int = pybullet.createMultiBody(0, shape, visual, physicsClientId=client)
        if mesh.texture is not None:
            texture = pybullet.loadTexture(str(mesh.texture), physicsClientId=client)
            pybullet.changeVisualShape(body, -1, textureUniqueId=texture, physicsClientId=client)
        return body

    def _plane(self) -> int:
        plane = pybullet.createCollisionShape(
            pybullet.GEOM_PLANE, planeNormal=(0, 0, 1), physicsClientId=self.client
        )
        body: int = pybullet.createMultiBody(0, plane, physicsClientId=self.client)
        return body


def _textured_box(half_m: tuple[float, float, float], tile_m: float, client: int) -> int:
    """The visual shape of a box on which a texture has its true size."""
    corners, normals = (faces.reshape(-1, 3) for faces in box_corners(half_m))
    uv = box_uv(corners, normals) / tile_m
    visual: int = pybullet.createVisualShape(
        pybullet.GEOM_MESH,
        vertices=corners.tolist(),
        normals=normals.tolist(),
        uvs=(uv - np.floor(uv.min(axis=0))).tolist(),  # PyBullet wants them positive
        indices=TRIANGLES.ravel().tolist(),
        specularColor=(0, 0, 0),
        physicsClientId=client,
    )
    return visual


def _middle_z(shape: Box | HeightField) -> float:
    """A shape's origin in PyBullet, above its own [m]: half-way up the range of a height field."""
    if isinstance(shape, Box):
        return 0.0
    return float(shape.heights_m.min() + shape.heights_m.max()) / 2.0
