"""Kernels of maps and of the teacher: bit for bit what the former code for numpy answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pixelgait.robot.spec import A1
from pixelgait.sim.scenes.houses.indoor import Indoor, straightened_length_m
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.teacher import _goals, decide, learn
from pixelgait.sim.world import raster, traversability
from pixelgait.sim.world.ground import Ground
from pixelgait.sim.world.map_kernels import next_cell
from pixelgait.sim.world.obstacles import moving_obstacles, obstacle_boxes
from pixelgait.sim.world.raster import walk_map
from pixelgait.sim.world.scene import Box, Layout, Plane, Pose, Scene, Swing, corners
from pixelgait.sim.world.traversability import HALF_WIDTH_M, TraversabilityMap

from . import former_maps

SCENES = ("rooms", "clutter", "bridges", "rough", "steps", "free-standing", "room-chain")
HEIGHT_M = A1.stand_height_m


class Junction(Scene):
    """Two swinging boxes, one turned, near a wall; it tells its ground for a point only."""

    name = "junction"
    goal_m = 5.0
    fixed = (Plane(), Box(Pose(2.5, 1.0, 0.4, 0.3), (0.1, 0.8, 0.4), (0.5, 0.5, 0.5)))
    movable = (Box(Pose(0, 0, 0), (0.15, 0.25, 0.85), (0.2, 0.3, 0.6)),) * 2

    def ground_m(self, x: float, y: float) -> float | None:
        return 0.02 * math.floor(x) if abs(y) < 1.5 and -2.0 < x < 7.0 else None

    def layout(self, rng: np.random.Generator) -> Layout:
        swings = [Swing(0, (0.2, 0.7, 0.0), 6.0), Swing(1, (0.5, -0.9, 0.0), 9.0)]
        places = [Pose(1.5, float(rng.uniform(-0.5, 0.5)), 0.85), Pose(3.5, 0.0, 0.85, 0.5)]
        return Layout(Pose(0, 0, 0), places, swings)


def scene_named(name: str) -> Scene:
    return Junction() if name == "junction" else make_scene(name, 0.8)


@pytest.mark.parametrize("name", [*SCENES, "junction"])
def test_cells_within_reach_are_those_of_a_search_point_by_point(name: str) -> None:
    scene = scene_named(name)
    for seed in range(2):
        layout = scene.layout(np.random.default_rng(seed))
        corner = np.floor(np.array((layout.start.x, layout.start.y)) / 0.1) * 0.1 - raster.REACH_M
        cells = raster._ground_cells(scene, layout, corner)
        assert np.array_equal(cells, former_maps.ground_cells(scene, layout, corner))


@pytest.mark.parametrize("name", [*SCENES, "passers-by"])
def test_room_around_cells_is_that_of_distances_to_obstacles(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images: list[NDArray[np.uint8]] = []

    def noted(image: NDArray[np.uint8], *rest: Any) -> TraversabilityMap:
        images.append(image)
        return TraversabilityMap(image, *rest)

    monkeypatch.setattr(raster, "TraversabilityMap", noted)
    scene = scene_named(name)
    for seed in range(2):
        walk_map(scene, scene.layout(np.random.default_rng(seed)), HEIGHT_M)
    images.append(images[0][:-37, 3:-4])  # no whole cells
    for image in images:
        for clearance_m in (HALF_WIDTH_M, traversability.CLEARANCE_M):
            radii_m = clearance_m, traversability.TURNING_M, traversability.ROOMY_M
            clear = traversability._clear(image, *radii_m)
            assert np.array_equal(clear, former_maps.clear_cells(image, clearance_m))


@pytest.mark.parametrize("name", [*SCENES, "junction"])
def test_paths_are_those_of_waves(name: str) -> None:
    scene, rng = scene_named(name), np.random.default_rng(0)
    for seed in range(2):
        area = walk_map(scene, scene.layout(np.random.default_rng(seed)), HEIGHT_M)
        goals = _goals(scene, area)
        costs = area.costs_to_go(goals)
        assert np.array_equal(costs, former_maps.distances(area, goals, area.counts))
        goal, ones = area.draw(rng), np.ones_like(area.counts)
        distances = area.geodesic_distances(goal)
        assert np.array_equal(distances, former_maps.distances(area, np.array([goal]), ones))
        for _ in range(3):
            path = area.path(distances, area.draw(rng))
            cells = [(row, column) for row, column in path.tolist()]
            assert cells == former_maps.path(area, distances, cells[0])
            length_m = former_maps.straightened_length_m(area.free, cells)
            assert straightened_length_m(area.free, path) == length_m
        for row, column in area.cells[rng.integers(len(area.cells), size=20)].tolist():
            cell = max(row - 3, 0), max(column - 2, 0)  # also in walls
            if costs[cell] > 0.0:
                assert next_cell(area.free, costs, *cell) == former_maps._next(area, costs, cell)


@pytest.mark.parametrize("name", [*SCENES, "passers-by", "junction"])
def test_decisions_are_those_of_the_former_teacher(name: str) -> None:
    scene, rng = scene_named(name), np.random.default_rng(1)
    courses, poses, turned, times, expected = [], [], [], [], []
    for seed in range(2):
        layout = scene.layout(np.random.default_rng(seed))
        area, course = walk_map(scene, layout, HEIGHT_M), learn(scene, layout, HEIGHT_M)
        movers = moving_obstacles(scene, layout, HEIGHT_M)
        for _ in range(100):
            x, y = np.add(area.place(area.draw(rng)), rng.normal(0.0, 0.1, 2)).tolist()
            poses.append((x, y, float(rng.uniform(-math.pi, math.pi))))
            turned.append(float(rng.choice((-0.2, 0.0, 0.2))))
            times.append(float(rng.uniform(0.0, 30.0)))
            courses.append(course)
            expected.append(
                former_maps.decision(area, course.costs, movers, poses[-1], turned[-1], times[-1])
            )
    assert np.array_equal(decide(courses, np.array(poses), turned, times), expected)


@pytest.mark.parametrize("name", ["clutter", "rooms", "passers-by", "mixture"])
def test_progress_at_many_places_is_that_at_each(name: str) -> None:
    scene = make_scene(name, 0.5, "train")
    scene.layout(np.random.default_rng(0))
    places = np.random.default_rng(0).uniform(-3.0, 3.0, (50, 2))
    each = [scene.progress_m(x, y) for x, y in places.tolist()]
    assert scene.progresses_m(places).tolist() == each


def test_a_house_measures_the_shortest_path_as_before() -> None:
    scene = make_scene("rooms", 0.7)
    assert isinstance(scene, Indoor)
    for seed in range(5):
        scene.layout(np.random.default_rng(seed))
        start = scene.map.place(scene.start)
        path = former_maps.path(scene.map, scene.distances, scene.start)
        length_m = former_maps.straightened_length_m(scene.map.free, path)
        assert scene.path_length_m(*start) == length_m
        for x, y in np.random.default_rng(seed).uniform(-7.0, 7.0, (50, 2)).tolist():
            remaining_m = former_maps.geodesic_distance(scene.map, scene.distances, x, y)
            assert scene.progress_m(x, y) == -remaining_m


def test_every_scene_has_a_ground_of_the_same_types() -> None:
    """So that kernels are compiled once."""
    for name in (*SCENES, "passers-by", "ramps", "mixture"):
        ground = scene_named(name).ground()
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
