"""Scene in PyBullet: construction, layout, moving shapes, and images by TinyRenderer on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import temporary_file
from pixelgait.robot.rotation import upright
from pixelgait.sim.body.camera import FAR_M, NEAR_M, Camera
from pixelgait.sim.body.drive import MASS_KG, driving_force
from pixelgait.sim.body.interface import PHYSICS_DT_S, BasePose
from pixelgait.sim.engines.pybullet_client import pybullet
from pixelgait.sim.rendering.geometry import FOREIGN, SKY, Hits, View
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.appearance import LIGHT
from pixelgait.sim.world.meshes import TRIANGLES, as_loaded, box_corners, box_uv
from pixelgait.sim.world.motions import placed
from pixelgait.sim.world.moving_shapes import MovingShapes
from pixelgait.sim.world.obstacles import are_obstacles, is_above_ground
from pixelgait.sim.world.scene import (
    ORIGIN,
    Box,
    HeightField,
    Layout,
    Mesh,
    Pose,
    Scene,
    Shape,
    is_in_use,
    push_limit_n,
)
from pixelgait.sim.world.texture import Texture, tile

# TinyRenderer casts through a pixel's lower left corner; its centre is this far right and up.
HALF_PIXEL = 0.5
NONE = -1  # no body: a shape out of reach
DRIVEN = 2, 1  # collision group and mask: those of Bullet's static bodies, and of its robots


class PyBulletScene:
    """A scene in a PyBullet client."""

    def __init__(self, scene: Scene, client: int, reload: Callable[[], None] | None = None) -> None:
        """Build the scene; `reload` loads all else into a world that was emptied.

        Worlds of scenes that draw their boxes are emptied at every reset: a body that PyBullet
        removes leaves 4 kB behind, and states cannot be restored without it.
        """
        self.scene = scene
        self.client = client
        self._reload = reload
        self._textures: dict[Texture, int] = {}  # PyBullet's ids
        self._fixed = [self._add(shape) for shape in scene.fixed]
        self._drawn = list(scene.movable)  # in the last layout
        self._movable = [(self._add(shape), _middle_z(shape)) for shape in scene.movable]
        shapes = zip(self._fixed, scene.fixed, strict=True)
        self._meshes = {body for body, shape in shapes if isinstance(shape, Mesh)}
        self._obstacles: set[int] = set()  # of the last layout
        self._away: set[int] = set()  # movable bodies beyond the cameras' range
        self.layout = Layout(ORIGIN)
        self._moving = MovingShapes(self.layout)
        self._meant: dict[int, Pose] = {}  # of moving shapes
        self._painter = Painter(scene)
        self._shapes = self._by_body()

    def _by_body(self) -> dict[int, int]:
        """Indices of the scene's shapes, fixed ones first, by their bodies."""
        bodies = (*self._fixed, *(body for body, _ in self._movable))
        return {body: i for i, body in enumerate(bodies) if body != NONE}

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns the robot's start."""
        scene = self.scene
        self.layout = scene.layout(rng)
        if scene.draws_boxes:
            self._rebuild()
        self._moving = MovingShapes(self.layout)
        for body, pose in zip(self._movable, placed(self.layout), strict=True):
            self._place(*body, pose)
        self._meant = dict(self._moving.poses(0.0))
        for shape, pose in self._moving.poses(PHYSICS_DT_S):
            if push_limit_n(scene.movable[shape]) is not None:
                self._set_velocity(self._movable[shape][0], *self._velocity(shape, pose))
        self._hide_away_bodies()
        if self.layout.appearance is not None:
            self._painter.lay_out(self.layout)
        bodies = (*self._fixed, *(body for body, _ in self._movable))
        obstacles = zip(bodies, are_obstacles(scene, self.layout), strict=True)
        self._obstacles = {body for body, is_met in obstacles if is_met and body != NONE}
        return self.layout.start

    def move(self, time_s: float) -> None:
        """Put moving shapes at their poses at a time after the reset [s]."""
        self._painter.time_s = time_s
        for shape, pose in self._moving.poses(time_s):
            self._place(*self._movable[shape], pose)
            self._meant[shape] = pose

    def drive(self, time_s: float) -> None:
        """As `move`, a physics step later; with their forces for shapes that have a limited one."""
        self._painter.time_s = time_s
        for shape, pose in self._moving.poses(time_s):
            limit_n = push_limit_n(self.scene.movable[shape])
            if limit_n is None:
                self._place(*self._movable[shape], pose)
            else:
                self._accelerate(shape, pose, limit_n)
            self._meant[shape] = pose

    def _accelerate(self, shape: int, pose: Pose, limit_n: float) -> None:
        """Accelerate a box towards a pose, for the next physics step; it stays upright."""
        body, client = self._movable[shape][0], self.client
        (x, y, _), _ = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)
        (vx, vy, _), _ = pybullet.getBaseVelocity(body, physicsClientId=client)
        to_x, to_y = self._velocity(shape, pose)
        force = driving_force((pose.x - x, pose.y - y), (to_x - vx, to_y - vy), limit_n)
        self._place(body, 0.0, Pose(x, y, pose.z, pose.yaw))
        gain = PHYSICS_DT_S / MASS_KG
        self._set_velocity(body, vx + gain * force[0], vy + gain * force[1])

    def _velocity(self, shape: int, pose: Pose) -> tuple[float, float]:
        """Velocity x, y [m/s] of a motion that reaches a pose in a physics step."""
        last = self._meant[shape]
        return (pose.x - last.x) / PHYSICS_DT_S, (pose.y - last.y) / PHYSICS_DT_S

    def _set_velocity(self, body: int, x: float, y: float) -> None:
        pybullet.resetBaseVelocity(body, (x, y, 0.0), (0.0, 0.0, 0.0), physicsClientId=self.client)

    def _show_moving(self) -> None:
        """Tell the painter where moving shapes are."""
        for shape, pose in self._meant.items():
            if push_limit_n(self.scene.movable[shape]) is not None:
                (x, y, _), _ = pybullet.getBasePositionAndOrientation(
                    self._movable[shape][0], physicsClientId=self.client
                )
                pose = Pose(x, y, pose.z, pose.yaw)
            self._painter.move(shape, pose)

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera (see `Camera`) on a base at this pose."""
        camera = self._shaken(camera)
        if self.layout.appearance is not None and camera.kind != "depth":
            return self._with_appearance(camera, pose)
        return render_image(self.client, camera, pose)

    def render_both(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m], both through the pixels' centres."""
        return self.render_from(self._shaken(camera), pose)

    def render_from(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """As `render_both`, but for a camera that never shakes, such as that of a film."""
        if self.layout.appearance is not None:
            self._show_moving()
            return render_with_appearance(self.client, camera, pose, self._painter, self._shapes)
        return render_colours_and_depth(self.client, camera, pose)

    def _with_appearance(self, camera: Camera, pose: BasePose) -> NDArray[np.uint8]:
        """RGB or RGB-D image."""
        rgb, depth = self.render_from(camera, pose)
        return rgb if camera.kind == "rgb" else rgbd(rgb, depth)

    def _shaken(self, camera: Camera) -> Camera:
        """The camera with its present shake in a moving appearance."""
        still = self.layout.appearance is None
        return camera if still else camera.shaken(self._painter.camera_offset())

    @property
    def has_obstacles(self) -> bool:
        """Whether there are obstacles."""
        return bool(self._obstacles or self._meshes)

    def is_obstacle(self, body: int, point: tuple[float, float, float]) -> bool:
        """Whether a PyBullet body is an obstacle, not ground, at a contact point [m]."""
        if body in self._meshes:
            return is_above_ground(self.scene, point)
        return body in self._obstacles

    def _hide_away_bodies(self) -> None:
        """Make bodies beyond the cameras' range invisible.

        PyBullet's renderer would spend time on them: 6 ms per image on a height field.
        """
        shapes = zip(self._drawn, self.layout.movable, self._movable, strict=True)
        for shape, pose, (body, _) in shapes:
            away = abs(pose.z - self.layout.start.z) > FAR_M
            unseen = isinstance(shape, Box) and not shape.visible
            if unseen or body == NONE or away == (body in self._away):
                continue
            textured = isinstance(shape, Box) and shape.texture is not None
            colour = (1.0, 1.0, 1.0) if textured else shape.colour
            pybullet.changeVisualShape(
                body, -1, rgbaColor=(*colour, float(not away)), physicsClientId=self.client
            )
            self._away ^= {body}

    def _rebuild(self) -> None:
        """Build an emptied world for the last layout, without what is out of reach."""
        pybullet.resetSimulation(physicsClientId=self.client)
        self._textures.clear()
        self._away.clear()
        if self._reload is not None:
            self._reload()
        self._fixed = [self._add(shape) for shape in self.scene.fixed]
        self._drawn = self.layout.shapes(self.scene)
        self._movable = [
            (self._add(shape) if is_in_use(pose) else NONE, _middle_z(shape))
            for shape, pose in zip(self._drawn, self.layout.movable, strict=True)
        ]
        self._shapes = self._by_body()

    def _place(self, body: int, middle: float, pose: Pose) -> None:
        if body == NONE:
            return
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
        else:  # PyBullet's own box would show one pixel of a texture
            visual = _textured_box(box.half_m, box.texture.tile_m, client)
        pose, mass_kg = box.pose, 0.0 if box.push_n is None else MASS_KG
        body: int = pybullet.createMultiBody(
            mass_kg,
            shape,
            visual,
            (pose.x, pose.y, pose.z),
            upright(pose.yaw),
            # Hundreds of PyBullet's multibodies would take a millisecond a step.
            useMaximalCoordinates=self.scene.draws_boxes,
            physicsClientId=client,
        )
        if box.push_n is not None:  # it meets the robot alone
            pybullet.setCollisionFilterGroupMask(body, -1, *DRIVEN, physicsClientId=client)
        if box.texture is not None and box.visible:
            self._paint(body, box.texture)
        return body

    def _paint(self, body: int, texture: Texture) -> None:
        """Apply a texture to a body; it is loaded on first use."""
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
        client, mesh = self.client, as_loaded(mesh)
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
    """Visual shape of a box on which a texture has its true size."""
    corners, normals = (faces.reshape(-1, 3) for faces in box_corners(half_m))
    uv = box_uv(corners, normals) / tile_m
    visual: int = pybullet.createVisualShape(
        pybullet.GEOM_MESH,
        vertices=corners.tolist(),
        normals=normals.tolist(),
        uvs=(uv - np.floor(uv.min(axis=0))).tolist(),  # PyBullet needs them positive
        indices=TRIANGLES.ravel().tolist(),
        specularColor=(0, 0, 0),
        physicsClientId=client,
    )
    return visual


def _middle_z(shape: Box | HeightField) -> float:
    """Height of PyBullet's origin above the shape's own [m]: half the range of a height field."""
    if isinstance(shape, Box):
        return 0.0
    return float(shape.heights_m.min() + shape.heights_m.max()) / 2.0


def render_image(client: int, camera: Camera, pose: BasePose) -> NDArray[Any]:
    """Image of a camera (see `Camera`) on a base at this pose."""
    if camera.kind == "rgb":
        return _colours(_camera_frame(client, camera, pose))
    rgb, depth = render_colours_and_depth(client, camera, pose)
    return depth if camera.kind == "depth" else rgbd(rgb, depth)


def render_colours_and_depth(
    client: int, camera: Camera, pose: BasePose
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Colours (height, width, 3) and depth (height, width) [m], whatever the camera's kind."""
    frame = _camera_frame(client, camera, pose)
    return _colours(frame), _depth(frame)


def render_view(
    client: int, view: list[float], vertical_fov_rad: float, width: int, height: int
) -> NDArray[np.uint8]:
    """Colours (height, width, 3) for an OpenGL view matrix (16), for films."""
    projection = _projection(vertical_fov_rad, width, height)
    return _colours(_frame(client, view, projection, width, height, LIGHT))


def render_with_appearance(
    client: int, camera: Camera, pose: BasePose, painter: Painter, shapes: Mapping[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Colours (H, W, 3) and depth (H, W) [m] in an episode's appearance.

    `shapes` maps PyBullet bodies to shapes of the scene; other bodies keep their own colours.
    """
    frame = _camera_frame(client, camera, pose, labelled=True)
    depth, labels = _depth(frame), np.ravel(frame[4])
    known = np.full(max(int(labels.max()), *shapes, 0) + 2, FOREIGN)
    known[list(shapes)] = list(shapes.values())
    known[-1] = SKY  # PyBullet's label -1
    view = view_from(camera, pose)
    hits = Hits(known[labels], depth.ravel() / view.ahead)
    colours = painter.paint(view, hits, _colours(frame).reshape(-1, 3))
    return colours.reshape(*depth.shape, 3), depth


def view_from(camera: Camera, pose: BasePose) -> View:
    """View of a camera on a base at this pose, for a painter."""
    rotation = np.reshape(pybullet.getMatrixFromQuaternion(pose.orientation), (3, 3))
    return camera.view(pose.position, rotation)


def view_matrix(camera: Camera, pose: BasePose) -> list[float]:
    """OpenGL's view matrix (16) of a camera on a base at this pose."""
    rotation = np.reshape(pybullet.getMatrixFromQuaternion(pose.orientation), (3, 3))
    eye, forward, up = camera.axes(pose.position, rotation)
    target = eye + forward
    # PyBullet reads a list ten times as fast as an array.
    return list(pybullet.computeViewMatrix(eye.tolist(), target.tolist(), up.tolist()))


def projection_matrix(camera: Camera) -> list[float]:
    """OpenGL's projection matrix, column by column (16)."""
    projection = _projection(camera.mount.vertical_fov_rad, camera.width, camera.height)
    projection[8] += 2.0 * HALF_PIXEL / camera.width
    projection[9] += 2.0 * HALF_PIXEL / camera.height
    return projection


def _projection(vertical_fov_rad: float, width: int, height: int) -> list[float]:
    return list(
        pybullet.computeProjectionMatrixFOV(
            np.degrees(vertical_fov_rad), width / height, NEAR_M, FAR_M
        )
    )


def _camera_frame(
    client: int, camera: Camera, pose: BasePose, labelled: bool = False
) -> tuple[Any, ...]:
    view, projection = view_matrix(camera, pose), projection_matrix(camera)
    return _frame(client, view, projection, camera.width, camera.height, camera.light, labelled)


def _frame(
    client: int,
    view: list[float],
    projection: list[float],
    width: int,
    height: int,
    light: tuple[float, float, float],
    labelled: bool = False,
) -> tuple[Any, ...]:
    """PyBullet's frame: width, height, RGBA, depth buffer (0 to 1), bodies if `labelled`."""
    frame: tuple[Any, ...] = pybullet.getCameraImage(
        width,
        height,
        view,
        projection,
        shadow=0,
        lightDirection=light,
        renderer=pybullet.ER_TINY_RENDERER,
        flags=0 if labelled else pybullet.ER_NO_SEGMENTATION_MASK,
        physicsClientId=client,
    )
    return frame


def _colours(frame: tuple[Any, ...]) -> NDArray[np.uint8]:
    width, height, pixels = frame[:3]
    rgba = np.asarray(pixels, dtype=np.uint8).reshape(height, width, 4)
    return np.asarray(cv2.cvtColor(rgba, cv2.COLOR_RGBA2RGB))  # numpy takes ten times as long


def _depth(frame: tuple[Any, ...]) -> NDArray[np.float32]:
    width, height, _, buffer = frame[:4]
    share = np.reshape(buffer, (height, width)).astype(np.float64)
    return np.asarray(FAR_M * NEAR_M / (FAR_M - (FAR_M - NEAR_M) * share), dtype=np.float32)
