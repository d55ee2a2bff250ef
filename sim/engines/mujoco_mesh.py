"""Mesh textures in MuJoCo: finds the triangles of ray hits, which MuJoCo does not report."""

from __future__ import annotations

from pathlib import Path

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array

SLACK_M = 1e-4  # between a hit, float64, and its triangle, float32


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

    def apply(
        self,
        colours: Array,
        geoms: NDArray[np.int32],
        points: Array,
        normals: Array,
        data: mujoco.MjData,
    ) -> None:
        """Give the mesh the colours of its picture; see `mujoco_camera.Paint`."""
        del normals
        hit = (geoms == self.geom).nonzero()[0]
        rotation = data.geom_xmat[self.geom].reshape(3, 3)
        local = (points[hit] - data.geom_xpos[self.geom]) @ rotation
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
    """Triangles of one mesh, searched with MuJoCo's own bounding volume hierarchy."""

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
