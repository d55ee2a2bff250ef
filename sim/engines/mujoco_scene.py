"""Scene in MuJoCo: layout, moving shapes and camera images with one ray per pixel.

Images are cast without OpenGL, so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import rgbd
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import Array
from pixelgait.sim.body.camera import FAR_M, Camera
from pixelgait.sim.body.drive import driving_force
from pixelgait.sim.body.interface import PHYSICS_DT_S, BasePose
from pixelgait.sim.engines.mujoco_model import (
    SCENE_AFFINITY,
    SCENE_GROUP,
    SCENE_TYPE,
    resize,
    scene_geom,
    wxyz,
)
from pixelgait.sim.rendering.geometry import FOREIGN, SKY
from pixelgait.sim.rendering.geometry import Hits as SceneHits
from pixelgait.sim.rendering.painter import Painter
from pixelgait.sim.world.appearance import AMBIENT, DIFFUSE, SHININESS, SKY_LEVEL, SPECULAR
from pixelgait.sim.world.meshes import as_loaded, box_uv
from pixelgait.sim.world.motions import placed
from pixelgait.sim.world.moving_shapes import MovingShapes
from pixelgait.sim.world.obstacles import are_obstacles
from pixelgait.sim.world.scene import (
    ORIGIN,
    Box,
    Layout,
    Mesh,
    Plane,
    Pose,
    Scene,
    Shape,
    is_in_use,
    push_limit_n,
)
from pixelgait.sim.world.texture import CHEQUERS_M, TILE_PIXELS, chequers, tile

SLACK_M = 1e-4  # between a hit, float64, and its triangle, float32
GROUPS = np.array([i == SCENE_GROUP for i in range(6)], dtype=np.uint8)


class MuJoCoScene:
    """A scene in a compiled model."""

    def __init__(self, scene: Scene, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.scene, self.model, self.data = scene, model, data
        self._drawn: list[Shape] = [*scene.fixed, *scene.movable]  # in the last layout
        self._geoms = [model.geom(scene_geom(i)).id for i in range(len(self._drawn))]
        self._paints = _paints(model, dict(zip(self._geoms, self._drawn, strict=True)))
        self._collision_boxes = [  # of meshes
            model.geom(f"{scene_geom(i)}-{j}").id
            for i, shape in enumerate(scene.fixed)
            if isinstance(shape, Mesh)
            for j in range(len(shape.boxes))
        ]
        self.obstacles = np.zeros(model.ngeom, dtype=bool)  # of the last layout, by geom
        self._shapes = np.full(model.ngeom, FOREIGN)  # of the scene, by geom
        self._shapes[self._geoms] = np.arange(len(self._geoms))
        self._painter = Painter(scene)
        self.layout = Layout(ORIGIN)
        self._moving = MovingShapes(self.layout)
        self._meant: dict[int, Pose] = {}  # of moving shapes
        bodies = model.geom_bodyid[self._geoms[len(scene.fixed) :]].tolist()
        self._movable = [
            _placeable(model, data, *each) for each in zip(bodies, scene.movable, strict=True)
        ]

    def reset(self, rng: np.random.Generator) -> Pose:
        """Lay the scene out; returns the robot's start."""
        self.layout = self.scene.layout(rng)
        if self.scene.draws_boxes:
            self._reshape(self.layout.shapes(self.scene))
            self._let_touch(np.array([is_in_use(pose) for pose in self.layout.movable]))
        self._moving = MovingShapes(self.layout)
        for shape, pose in zip(self._movable, placed(self.layout), strict=True):
            shape.place(pose)
        self._meant = dict(self._moving.poses(0.0))
        if self.layout.appearance is not None:
            self._painter.lay_out(self.layout)
        self.obstacles[self._geoms] = are_obstacles(self.scene, self.layout)
        self.obstacles[self._collision_boxes] = True
        return self.layout.start

    def move(self, time_s: float) -> None:
        """Put moving shapes at their poses at a time after the reset [s]."""
        self._painter.time_s = time_s
        for i, pose in self._moving.poses(time_s):
            self._movable[i].place(pose)
            self._meant[i] = pose

    def drive(self, time_s: float) -> None:
        """As `move`, a physics step later; with their forces for shapes that have a limited one."""
        self._painter.time_s = time_s
        for i, pose in self._moving.poses(time_s):
            self._movable[i].drive(self._meant[i], pose)
            self._meant[i] = pose

    def _show_moving(self) -> None:
        """Tell the painter where moving shapes are."""
        for i, pose in self._meant.items():
            self._painter.move(i, self._movable[i].pose(pose))

    def render(self, camera: Camera, pose: BasePose) -> NDArray[Any]:
        """Image of a camera (see `Camera`) on a base at this pose."""
        if camera.kind == "depth":
            return _cast(self.model, self.data, self._shaken(camera), pose).depth
        rgb, depth = self.render_both(camera, pose)
        return rgb if camera.kind == "rgb" else rgbd(rgb, depth)

    def render_both(
        self, camera: Camera, pose: BasePose
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colours (H, W, 3) and depth (H, W) [m], both through the pixels' centres."""
        camera = self._shaken(camera)
        hits = _cast(self.model, self.data, camera, pose)
        colours = self._colours(camera, pose, hits)
        return colours.reshape(*hits.depth.shape, 3), hits.depth

    def _colours(self, camera: Camera, pose: BasePose, hits: Hits) -> NDArray[np.uint8]:
        """Colours (n, 3) of hits, in the episode's appearance if it has one."""
        if self.layout.appearance is None:
            return self._lit(camera, hits)
        which = np.where(hits.geoms < 0, SKY, self._shapes[hits.geoms])
        has_foreign = (which == FOREIGN).any() or self._painter.geometry.has_mesh
        foreign = self._lit(camera, hits) if has_foreign else None
        self._show_moving()
        view = camera.view(pose.position, _rotation(pose))
        shapes = SceneHits(which, hits.distances.astype(np.float32))
        return self._painter.paint(view, shapes, foreign)

    def _lit(self, camera: Camera, hits: Hits) -> NDArray[np.uint8]:
        """Colours (n, 3) of hits in the nominal light."""
        colours = np.floor(255.0 * self.model.geom_rgba[hits.geoms, :3])
        for paint in self._paints:
            paint.apply(colours, hits, self.data)
        colours *= _brightness(hits.normals, camera.light)[:, None]
        colours[hits.geoms < 0] = SKY_LEVEL
        return np.asarray(colours, dtype=np.uint8)

    def _shaken(self, camera: Camera) -> Camera:
        """The camera with its present shake in a moving appearance."""
        still = self.layout.appearance is None
        return camera if still else camera.shaken(self._painter.camera_offset())

    def _reshape(self, shapes: Sequence[Shape]) -> None:
        """Give movable boxes their sizes and colours in an episode."""
        changed = False
        for i, shape in enumerate(shapes, len(self.scene.fixed)):
            if shape is not self._drawn[i]:
                assert isinstance(shape, Box)
                resize(self.model, self._geoms[i], shape)
                self._drawn[i], changed = shape, True
        if changed:
            self._paints = _paints(self.model, dict(zip(self._geoms, self._drawn, strict=True)))

    def _let_touch(self, there: NDArray[np.bool_]) -> None:
        """Let robots touch the movable shapes (n,) that are placed, and spend no time on others."""
        geoms = np.array(self._geoms[len(self.scene.fixed) :])
        bodies = self.model.geom_bodyid[geoms]
        for ids, of in ((geoms, "geom"), (bodies, "body")):
            getattr(self.model, f"{of}_contype")[ids] = SCENE_TYPE * there
            getattr(self.model, f"{of}_conaffinity")[ids] = SCENE_AFFINITY * there


class Placeable(Protocol):
    """A movable shape in a model."""

    def place(self, pose: Pose) -> None:
        """Put it at a pose, at rest."""

    def drive(self, last: Pose, pose: Pose) -> None:
        """Put it at its motion's pose, `last` a physics step ago, or drive it there."""

    def pose(self, meant: Pose) -> Pose:
        """Where it is, when its motion is at a pose."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A mocap body: nothing stops it."""

    data: mujoco.MjData
    number: int  # of the mocap body

    def place(self, pose: Pose) -> None:
        """See `Placeable`."""
        self.data.mocap_pos[self.number] = (pose.x, pose.y, pose.z)
        self.data.mocap_quat[self.number] = wxyz(upright(pose.yaw))

    def drive(self, last: Pose, pose: Pose) -> None:
        """See `Placeable`."""
        self.place(pose)

    def pose(self, meant: Pose) -> Pose:
        """See `Placeable`."""
        return meant


@dataclass(frozen=True, slots=True)
class Driven:
    """A body on joints along x, y and about z, which a limited force drives."""

    model: mujoco.MjModel
    data: mujoco.MjData
    body: int
    limit_n: float

    def place(self, pose: Pose) -> None:
        """See `Placeable`."""
        q, v = self._addresses()
        self.model.body_pos[self.body, 2] = pose.z
        self.data.qpos[q : q + 3] = pose.x, pose.y, pose.yaw
        self.data.qvel[v : v + 3] = 0.0

    def drive(self, last: Pose, pose: Pose) -> None:
        """See `Placeable`."""
        q, v = self._addresses()
        (x, y), (vx, vy) = self.data.qpos[q : q + 2].tolist(), self.data.qvel[v : v + 2].tolist()
        to_x, to_y = (pose.x - last.x) / PHYSICS_DT_S, (pose.y - last.y) / PHYSICS_DT_S
        behind, slower = (pose.x - x, pose.y - y), (to_x - vx, to_y - vy)
        self.data.qfrc_applied[v : v + 2] = driving_force(behind, slower, self.limit_n)
        self.data.qpos[q + 2], self.data.qvel[v + 2] = pose.yaw, 0.0

    def pose(self, meant: Pose) -> Pose:
        """See `Placeable`."""
        q, _ = self._addresses()
        x, y = self.data.qpos[q : q + 2].tolist()
        return Pose(x, y, meant.z, meant.yaw)

    def _addresses(self) -> tuple[int, int]:
        """First of its coordinates and of its velocities."""
        joint = self.model.body_jntadr[self.body]
        return int(self.model.jnt_qposadr[joint]), int(self.model.jnt_dofadr[joint])


def _placeable(model: mujoco.MjModel, data: mujoco.MjData, body: int, shape: Shape) -> Placeable:
    if (limit_n := push_limit_n(shape)) is not None:
        return Driven(model, data, body, limit_n)
    return Carried(data, int(model.body_mocapid[body]))


def _paints(model: mujoco.MjModel, shapes: Mapping[int, Shape]) -> list[Paint]:
    """Colours of textured boxes, planes and meshes, from the shapes by their geoms."""
    covers, meshes = {}, []
    for geom, shape in shapes.items():
        if isinstance(shape, Plane):
            covers[geom] = chequers(), CHEQUERS_M
        elif isinstance(shape, Box) and shape.visible and shape.texture is not None:
            covers[geom] = tile(shape.texture), shape.texture.tile_m
        elif isinstance(shape, Mesh) and (texture := as_loaded(shape).texture) is not None:
            meshes.append(MeshTexture(model, geom, texture))
    tiles = [TiledTextures.of(model.ngeom, covers)] if covers else []
    return [*tiles, *meshes]


class Paint(Protocol):
    """Gives some geoms other colours than their own."""

    def apply(self, colours: Array, hits: Hits, data: mujoco.MjData) -> None:
        """Change the colours (n, 3) of rays by their hits."""


@dataclass(frozen=True, slots=True, eq=False)
class TiledTextures:
    """Textures on the boxes and planes of a model with n geoms."""

    tiles: NDArray[np.uint8]  # (m, TILE_PIXELS, TILE_PIXELS, 3)
    which: NDArray[np.int64]  # (n,) tile of each geom, -1 for its own colour
    width_m: Array  # (n,) of each geom's tile

    @classmethod
    def of(cls, count: int, covers: Mapping[int, tuple[NDArray[np.uint8], float]]) -> TiledTextures:
        """Tiles with their widths [m] by geom, for a model with `count` geoms."""
        distinct = {id(pixels): pixels for pixels, _ in covers.values()}
        order = list(distinct)
        which, width = np.full(count, -1), np.ones(count)
        for geom, (pixels, tile_m) in covers.items():
            which[geom], width[geom] = order.index(id(pixels)), tile_m
        return cls(np.stack(list(distinct.values())), which, width)

    def apply(self, colours: Array, hits: Hits, data: mujoco.MjData) -> None:
        """Give textured geoms the colours of their tiles; see `Paint`."""
        painted = ((hits.geoms >= 0) & (self.which[hits.geoms] >= 0)).nonzero()[0]
        hit = hits.geoms[painted]
        rotations = data.geom_xmat[hit].reshape(-1, 3, 3)
        local = np.einsum("nji,nj->ni", rotations, hits.points[painted] - data.geom_xpos[hit])
        across = np.einsum("nji,nj->ni", rotations, hits.normals[painted])
        uv = box_uv(local, across) / self.width_m[hit, None]
        column, row = np.floor(uv * TILE_PIXELS).astype(int).T % TILE_PIXELS
        colours[painted] = self.tiles[self.which[hit], row, column]


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits of the n = height x width rays of an image."""

    depth: NDArray[np.float32]  # (height, width) [m]
    geoms: NDArray[np.int32]  # (n,), -1: none
    distances: Array  # (n,) [m] from the eye
    points: Array  # (n, 3) [m]
    normals: Array  # (n, 3)


def _rotation(pose: BasePose) -> Array:
    """Rotation (3, 3) of the base."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.array(wxyz(pose.orientation)))
    return rotation.reshape(3, 3)


def _cast(model: mujoco.MjModel, data: mujoco.MjData, camera: Camera, pose: BasePose) -> Hits:
    eye, forward, up = camera.axes(pose.position, _rotation(pose))
    shape = camera.height, camera.width
    rays = camera.rays
    world = rays @ np.array((forward, np.cross(forward, up), up))
    count = len(rays)
    geoms, distances = np.full(count, -1, dtype=np.int32), np.zeros(count)
    normals = np.zeros((count, 3))
    mujoco.mj_multiRay(
        model, data, eye, world.ravel(), GROUPS, True, -1, geoms, distances,
        normals.ravel(), count, FAR_M,
    )  # fmt: skip
    forward_m = distances * rays[:, 0]
    geoms[forward_m >= FAR_M] = -1  # MuJoCo may cast further
    far = np.where(geoms < 0, FAR_M, forward_m)
    depth = np.asarray(far.reshape(shape), dtype=np.float32)
    return Hits(depth, geoms, distances, eye + distances[:, None] * world, normals)


def _brightness(normals: Array, light: tuple[float, float, float]) -> Array:
    """Brightness (n,) of surfaces with normals (n, 3), as by PyBullet's TinyRenderer.

    Phong's model, with the highlight for a camera straight above, wherever it is.
    """
    to_light = np.array(light) / np.linalg.norm(light)
    cosine = normals @ to_light
    reflected_z = 2.0 * cosine * normals[:, 2] - to_light[2]
    highlight = np.maximum(reflected_z, 0.0) ** SHININESS
    brightness = AMBIENT + DIFFUSE * np.maximum(cosine, 0.0) + SPECULAR * highlight
    return np.asarray(brightness)


class MeshTexture:
    """The picture on one mesh of a model."""

    def __init__(self, model: mujoco.MjModel, geom: int, texture: Path) -> None:
        self.geom = geom
        mesh = model.geom_dataid[geom]
        faces = _faces(model, mesh)
        # v is downwards. PyBullet gives a mesh without coordinates the picture's middle.
        self._uv = np.full((model.mesh_facenum[mesh], 3, 2), 0.5)
        first = model.mesh_texcoordadr[mesh]
        if first >= 0:
            self._uv = model.mesh_texcoord[first:][model.mesh_facetexcoord[faces]]
        self._triangles = MeshTriangles(model, mesh)
        self._pixels = np.asarray(cv2.imread(str(texture)))[:, :, ::-1]

    def apply(self, colours: Array, hits: Hits, data: mujoco.MjData) -> None:
        """Give the mesh the colours of its picture; see `Paint`."""
        hit = (hits.geoms == self.geom).nonzero()[0]
        rotation = data.geom_xmat[self.geom].reshape(3, 3)
        local = (hits.points[hit] - data.geom_xpos[self.geom]) @ rotation
        which, face, weights = self._triangles.at(local)
        u, v = np.einsum("nk,nkc->cn", weights, self._uv[face])
        rows, columns = self._pixels.shape[:2]
        # Pixels are counted from the lower left corner.
        row, column = np.ceil(v * rows).astype(int) - 1, np.floor(u * columns).astype(int)
        colours[hit[which]] = self._pixels[row % rows, column % columns]


def _faces(model: mujoco.MjModel, mesh: int) -> slice:
    """Range of a mesh's faces in the model."""
    first = int(model.mesh_faceadr[mesh])
    return slice(first, first + int(model.mesh_facenum[mesh]))


class MeshTriangles:
    """Triangles of one mesh, searched with MuJoCo's own bounding volume hierarchy.

    MuJoCo does not report which triangle a ray hits.
    """

    def __init__(self, model: mujoco.MjModel, mesh: int) -> None:
        faces = _faces(model, mesh)
        corners = model.mesh_vert[model.mesh_vertadr[mesh] :][model.mesh_face[faces]]
        self._origin = corners[:, 0].astype(float)
        edges = corners[:, 1:] - self._origin[:, None]  # (faces, 2, 3)
        normals = np.cross(edges[:, 0], edges[:, 1])
        self._area = np.maximum(np.linalg.norm(normals, axis=1), np.finfo(float).tiny)
        self._normal = normals / self._area[:, None]
        # Dual to the edges: products with a point are its weights of the other two corners.
        dual = np.cross(edges[:, ::-1], self._normal[:, None]) * ((1.0,), (-1.0,))
        self._dual = dual / self._area[:, None, None]
        tree = slice(model.mesh_bvhadr[mesh], model.mesh_bvhadr[mesh] + model.mesh_bvhnum[mesh])
        self._centre, self._half = np.split(model.bvh_aabb[tree], 2, axis=1)
        self._child, self._face = model.bvh_child[tree], model.bvh_nodeid[tree]  # -1: no leaf

    def at(self, points: Array) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
        """Indices (m,) of the points (n, 3) on the mesh; their faces and weights (m, 3)."""
        which, face = self._near(points)
        away = points[which] - self._origin[face]
        others = np.einsum("nkc,nc->nk", self._dual[face], away)
        weights = np.column_stack((1.0 - others.sum(axis=1), others))
        outside = -np.minimum(weights.min(axis=1), 0.0) * np.sqrt(self._area[face])
        off = np.maximum(outside, np.abs(np.einsum("nc,nc->n", self._normal[face], away)))  # [m]
        order = np.lexsort((off, which))
        which, first = np.unique(which[order], return_index=True)
        best = order[first]
        return which, face[best], weights[best]

    def _near(self, points: Array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Candidate pairs of points and faces."""
        which = np.arange(len(points))
        node = np.zeros(len(points), dtype=np.int32)
        pairs = []
        while len(which):
            away = np.abs(points[which] - self._centre[node]) - self._half[node]
            inside = (away < SLACK_M).all(axis=1)
            which, node = which[inside], node[inside]
            leaf = self._face[node] >= 0
            pairs.append((which[leaf], self._face[node[leaf]]))
            which, node = which[~leaf].repeat(2), self._child[node[~leaf]].ravel()
        if not pairs:
            return which, node
        found, faces = zip(*pairs, strict=True)
        return np.concatenate(found), np.concatenate(faces)
