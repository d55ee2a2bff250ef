"""Renderer of colours: materials, light, shadows, haze and backdrop of an episode's appearance.

It serves every simulator: each says which shape its pixels show, the painter computes the colour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.rendering.episode_appearance import EpisodeAppearance, Motion, backdrop_colours
from pixelgait.sim.rendering.geometry import (
    FOREIGN,
    SKY,
    Floats,
    Geometry,
    Hits,
    View,
)
from pixelgait.sim.rendering.materials import OFFSETS, SIDES, TEXELS
from pixelgait.sim.world.appearance import AppearanceSeed
from pixelgait.sim.world.scene import HeightField, Layout, Mesh, Pose, Scene

FEW = 16  # boxes, of which all count as casters of shadows
OFF_M = 2e-3  # distance of shadow rays from their surface, so that it does not shade itself
FROM_ABOVE = 0.25  # additional share of ambient light on surfaces that face up
GRAZING = 0.05  # least cosine of the angle that pixels see a surface at
PIXELS_AT_ONCE = 4096


class Surfaces(NamedTuple):
    """m points on the scene's own shapes."""

    shapes: NDArray[np.intp]  # (m,)
    points: Floats  # (3, m) [m]
    normals: Floats  # (3, m)
    along: Floats  # (m,) coordinates on the face [m]
    across: Floats
    seen_m: Floats  # (m,) width of the face in a pixel


class Painter:
    """Paints one scene."""

    def __init__(self, scene: Scene) -> None:
        self.geometry = Geometry(scene)
        shapes = self.geometry.shapes
        self._fields = {
            i: FieldSurface(s) for i, s in enumerate(shapes) if isinstance(s, HeightField)
        }
        self._mesh = np.array([isinstance(shape, Mesh) for shape in shapes], bool)
        self._appearance: AppearanceSeed | None = None
        self._drawn: EpisodeAppearance | None = None  # drawn when first rendered
        self.motion: Motion | None = None
        self.time_s = 0.0  # since the reset

    def lay_out(self, layout: Layout) -> None:
        """Start an episode: poses of the shapes, and their appearance."""
        self.geometry.lay_out(layout)
        appearance = self._appearance = layout.appearance
        self._drawn = None
        self.motion = Motion.of(appearance) if appearance and appearance.moving else None
        self.time_s = 0.0

    def camera_offset(self) -> Array | None:
        """Present displacement of the camera (6,), see `Motion`; None if it does not shake."""
        return None if self.motion is None else self.motion.camera_offset(self.time_s)

    def move(self, movable: int, pose: Pose) -> None:
        """Put a movable shape at a pose."""
        self.geometry.place(movable, pose)

    def paint(
        self, view: View, hits: Hits, foreign: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Colours (n, 3) of a view.

        `foreign` (n, 3) are a simulator's colours of meshes and of shapes outside the scene.
        """
        assert self._appearance is not None
        if self._drawn is None:
            self._drawn = EpisodeAppearance.of(self._appearance, self.geometry)
        parts = []
        for start in range(0, len(hits.shapes), PIXELS_AT_ONCE):
            some = slice(start, start + PIXELS_AT_ONCE)
            part = Hits(hits.shapes[some], hits.distances[some])
            part_view = view._replace(rays=view.rays[:, some])
            others = None if foreign is None else foreign[some]
            parts.append(self._paint(self._drawn, part_view, part, others))
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _paint(
        self, drawn: EpisodeAppearance, view: View, hits: Hits, foreign: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8]:
        shapes, light = hits.shapes, drawn.light
        colours = np.zeros((len(shapes), 3), np.float32)
        is_foreign = shapes == FOREIGN
        if self.geometry.has_mesh:
            is_foreign |= (shapes >= 0) & self._mesh[shapes]
        own = ((shapes >= 0) & ~is_foreign).nonzero()[0]
        colours[own] = self._lit(drawn, self._surfaces(view, hits, own))
        if foreign is not None and is_foreign.any():
            tint = np.minimum(light.ambient + 0.5 * light.sun, 1.2)
            colours[is_foreign] = foreign[is_foreign] / np.float32(255.0) * tint
        if np.isfinite(drawn.visibility_m):
            clear = np.exp(hits.distances[:, None] / np.float32(-drawn.visibility_m))
            colours = drawn.haze + clear * (colours - drawn.haze)
        sky = (shapes == SKY).nonzero()[0]
        yaw_rad = 0.0 if self.motion is None else self.motion.turn_rad_per_s * self.time_s
        colours[sky] = backdrop_colours(drawn.backdrop, view.rays[:, sky], yaw_rad)
        colours *= np.float32(255.0 * light.exposure)
        return np.minimum(colours, np.float32(255.0), out=colours).astype(np.uint8)

    def _surfaces(self, view: View, hits: Hits, own: NDArray[np.intp]) -> Surfaces:
        """Surfaces in the pixels `own`, which show the scene's own shapes."""
        shapes, distances, rays = hits.shapes[own], hits.distances[own], view.rays[:, own]
        geometry = self.geometry
        points = view.eye[:, None] + distances * rays
        table = geometry.boxes.take(shapes, axis=1)
        away, half, (cos, sin) = points - table[:3], table[3:6], table[6:]
        x, y, z = cos * away[0] + sin * away[1], cos * away[1] - sin * away[0], away[2]
        room = [half[i] - np.abs(local) for i, local in enumerate((x, y, z))]
        # A box's face is that nearest to the point; a height field has its own.
        upright = room[2] > np.minimum(room[0], room[1])
        if self._fields:
            upright &= geometry.solid[shapes]
        ends = upright & (room[0] < room[1])  # faces along y, of a box along x
        sides = upright & ~ends
        sign = np.copysign(np.float32(1.0), np.where(upright, np.where(ends, x, y), z))
        normals = np.zeros_like(points)
        normals[0] = sign * (ends * cos - sides * sin)
        normals[1] = sign * (ends * sin + sides * cos)
        normals[2] = sign * ~upright
        for i, field in self._fields.items():
            here = (shapes == i).nonzero()[0]
            if len(here):
                local = np.stack((x[here], y[here], z[here]))
                normals[:, here] = geometry.axes[i].T @ field.normals(local)
        facing = np.abs(normals[0] * rays[0] + normals[1] * rays[1] + normals[2] * rays[2])
        seen_m = distances * np.float32(view.pixel_rad) / np.sqrt(np.maximum(facing, GRAZING))
        along, across = np.where(ends, y, x), np.where(upright, z, y)
        return Surfaces(shapes, points, normals, along, across, seen_m)

    def _lit(self, drawn: EpisodeAppearance, surfaces: Surfaces) -> Floats:
        """Colours (m, 3) of surfaces in the light of an episode."""
        light, normals = drawn.light, surfaces.normals
        sun = np.maximum(light.towards @ normals, 0.0)
        if light.shadows:
            lit = sun.nonzero()[0]
            sun[
                lit[self._shaded(surfaces.points[:, lit] + OFF_M * normals[:, lit], light.towards)]
            ] = 0
        ambient = 1.0 + FROM_ABOVE * normals[2]
        brightness = ambient[:, None] * light.ambient
        brightness += sun[:, None] * light.sun
        brightness *= _texels(drawn, surfaces)
        return np.asarray(brightness)

    def _shaded(self, points: Floats, towards: Floats) -> NDArray[np.bool_]:
        """Which points (3, n) are in the shadow of a box."""
        from pixelgait.sim.rendering.shadows import shade

        shaded = np.zeros(points.shape[1], np.uint8)
        casters = self._casters(points, towards)
        shade(self.geometry.boxes, casters, np.ascontiguousarray(points), towards, shaded)
        return shaded.view(bool)

    def _casters(self, points: Floats, towards: Floats) -> NDArray[np.intp]:
        """Boxes that are high and near enough to shade any of the points."""
        geometry = self.geometry
        if len(geometry.solid) <= FEW or not points.size:
            return np.flatnonzero(geometry.solid)
        low, high = points.min(axis=1), points.max(axis=1)
        above = geometry.middle[:, 2] + geometry.half[:, 2] - low[2]
        flat = float(np.hypot(towards[0], towards[1]) / max(towards[2], 1e-3))
        middle = geometry.middle[:, :2]
        away = np.maximum(np.maximum(low[:2] - middle, middle - high[:2]), 0.0)
        near = np.hypot(away[:, 0], away[:, 1]) < geometry.radius + np.maximum(above, 0.0) * flat
        return np.flatnonzero(geometry.solid & near & (above > OFF_M))


def _texels(drawn: EpisodeAppearance, surfaces: Surfaces) -> Floats:
    """Colours (m, 3) of the materials at the points, from the mip map of their size."""
    which = drawn.which[surfaces.shapes]
    a, b, c, d = drawn.turns.take(which, axis=1)
    u = a * surfaces.along + b * surfaces.across  # in widths of the pattern
    v = c * surfaces.along + d * surfaces.across
    texels = surfaces.seen_m * drawn.widths_per_m[which] * float(SIDES[0])
    texels = np.minimum(np.maximum(texels, 1.0), float(SIDES[0]))
    level = np.rint(np.log2(texels)).astype(np.int32)
    side = SIDES[level]
    sides, last = side.astype(np.float32), side - 1
    column = np.floor(u * sides).astype(np.int32) & last
    row = np.floor(v * sides).astype(np.int32) & last
    index = which * TEXELS + OFFSETS[level] + row * side + column
    return np.asarray(drawn.texels.take(index, axis=0))


class FieldSurface:
    """Normals of a height field in its own frame, with the middle of its bounds as the origin."""

    def __init__(self, field: HeightField) -> None:
        heights = field.heights_m.astype(np.float32)
        self._shape = heights.shape
        self._cell_m = field.cell_m
        slopes = np.gradient(heights, field.cell_m)
        normals = np.stack((-slopes[0], -slopes[1], np.ones_like(heights))).reshape(3, -1)
        self._normals = normals / np.linalg.norm(normals, axis=0)

    def normals(self, local: Floats) -> Floats:
        """Unit normals (3, n) at points (3, n)."""
        rows, columns = self._shape
        row = np.clip(np.rint(local[0] / self._cell_m + (rows - 1) / 2), 0, rows - 1)
        column = np.clip(np.rint(local[1] / self._cell_m + (columns - 1) / 2), 0, columns - 1)
        return np.asarray(self._normals[:, (row * columns + column).astype(np.intp)])
