"""Kernels of maps in machine code: what slow code answers, and what defines a shortest path."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pixelgait.robot.spec import A1, Array
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.teacher import _goals
from pixelgait.sim.world import raster, traversability
from pixelgait.sim.world.ground import Ground
from pixelgait.sim.world.obstacles import obstacle_boxes
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import corners
from pixelgait.sim.world.traversability import (
    CELL_M,
    CELL_PIXELS,
    DIAGONAL,
    HALF_WIDTH_M,
    PIXEL_M,
    STRAIGHT,
    TraversabilityMap,
)

SCENES = ("rooms", "clutter", "bridges", "rough", "steps", "free-standing", "room-chain")
HEIGHT_M = A1.stand_height_m
AROUND = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]


@pytest.mark.parametrize("name", SCENES)
def test_cells_within_reach_are_those_of_a_search_point_by_point(name: str) -> None:
    scene = make_scene(name, 0.8)
    for seed in range(2):
        layout = scene.layout(np.random.default_rng(seed))
        corner = np.floor(np.array((layout.start.x, layout.start.y)) / 0.1) * 0.1 - raster.REACH_M
        cells = raster._ground_cells(scene, layout, corner, raster.REACH_M)
        asked = raster._asked_cells(scene, layout, corner, round(raster.REACH_M / CELL_M))
        assert np.array_equal(cells, asked)


@pytest.mark.parametrize("name", [*SCENES, "passers-by"])
def test_room_around_cells_is_that_of_distances_to_obstacles(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images: list[NDArray[np.uint8]] = []

    def noted(image: NDArray[np.uint8], *rest: Any) -> TraversabilityMap:
        images.append(image)
        return TraversabilityMap(image, *rest)

    monkeypatch.setattr(raster, "TraversabilityMap", noted)
    scene = make_scene(name, 0.8)
    for seed in range(2):
        walk_map(scene, scene.layout(np.random.default_rng(seed)), HEIGHT_M)
    images.append(images[0][:-37, 3:-4])  # no whole cells
    radii_m = HALF_WIDTH_M, traversability.TURNING_M, traversability.ROOMY_M
    for image in images:
        room_m = room_around_cells_m(image)
        assert np.array_equal(traversability._clear(image, *radii_m), [room_m > r for r in radii_m])


def room_around_cells_m(traversable: NDArray[np.uint8]) -> Array:
    """Distance [m] from the middle of every cell to the nearest obstacle, by OpenCV."""
    coarse = cv2.resize(traversable, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    walkable = np.pad((coarse == 255).astype(np.uint8), 1)  # the map's edge is a wall
    clear = cv2.distanceTransform(walkable, cv2.DIST_L2, 3)[1:-1, 1:-1]
    every = CELL_PIXELS // 2
    return np.asarray(clear[every // 2 :: every, every // 2 :: every] * 2 * PIXEL_M)


@pytest.mark.parametrize("name", SCENES)
def test_paths_are_the_shortest(name: str) -> None:
    """Bellman's equation, and paths that go down to the goal from neighbour to neighbour."""
    scene, rng = make_scene(name, 0.8), np.random.default_rng(0)
    for seed in range(2):
        area = walk_map(scene, scene.layout(np.random.default_rng(seed)), HEIGHT_M)
        goals, goal, ones = _goals(scene, area), area.draw(rng), np.ones_like(area.counts)
        require_bellman(area, area.costs_to_go(goals), goals, area.counts)
        distances = area.geodesic_distances(goal)
        require_bellman(area, distances, np.array([goal]), ones)
        for _ in range(3):
            path = area.path(distances, area.draw(rng))
            assert tuple(path[-1]) == goal
            assert (np.abs(np.diff(path, axis=0)).max(axis=1, initial=0) <= 1).all()
            assert (np.diff(distances[tuple(path.T)]) < 0.0).all()


def require_bellman(
    area: TraversabilityMap, costs: Array, goals: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Each free cell's cost is that of its cheapest neighbour and of the step from there."""
    rows, columns = area.free.shape
    padded = np.pad(np.where(area.free, costs, np.inf), 1, constant_values=np.inf)
    through = np.full((rows, columns), np.inf)
    for i, j in AROUND:
        there = slice(1 + i, 1 + i + rows), slice(1 + j, 1 + j + columns)
        length_m = (DIAGONAL if i and j else STRAIGHT) * CELL_M / STRAIGHT
        through = np.minimum(through, padded[there] + length_m * counts)
    through[tuple(goals.T)] = 0.0
    np.testing.assert_allclose(costs[area.free], through[area.free], atol=1e-9)


@pytest.mark.parametrize("name", ["clutter", "rooms", "passers-by", "mixture"])
def test_progress_at_many_places_is_that_at_each(name: str) -> None:
    scene = make_scene(name, 0.5, "train")
    scene.layout(np.random.default_rng(0))
    places = np.random.default_rng(0).uniform(-3.0, 3.0, (50, 2))
    each = [scene.progress_m(x, y) for x, y in places.tolist()]
    assert scene.progresses_m(places).tolist() == each


def test_every_scene_has_a_ground_of_the_same_types() -> None:
    """So that kernels are compiled once."""
    for name in (*SCENES, "passers-by", "ramps", "mixture"):
        ground = make_scene(name, 0.8).ground()
        assert isinstance(ground, Ground)
        kinds = [(part.dtype, part.ndim, part.flags.carray) for part in ground]
        assert kinds == [(np.float64, dimensions, True) for dimensions in (2, 2, 1)]


def test_outlines_of_many_boxes_are_those_of_each() -> None:
    """Bit for bit: walls end where pixels do."""
    scene = make_scene("clutter", 1.0)
    layout = scene.layout(np.random.default_rng(0))
    boxes = obstacle_boxes(scene, layout, HEIGHT_M)
    many = corners([pose for _, pose in boxes], np.array([box.half_m[:2] for box, _ in boxes]))
    signs = np.array(((-1, -1), (1, -1), (1, 1), (-1, 1)))
    each = [pose.points(signs * np.array(box.half_m[:2])) for box, pose in boxes]
    assert len(boxes) > 10
    assert np.array_equal(many, each)
