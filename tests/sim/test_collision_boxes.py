"""Collision boxes of scanned houses, for MuJoCo and gliding robots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from pixelgait.robot.control.controller import latent_for
from pixelgait.robot.rotation import upright
from pixelgait.robot.spec import A1, Array
from pixelgait.sim.body.camera import Camera
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.kinematic_body import KinematicBody
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.houses.gibson import (
    HEIGHT_M,
    LEVEL_M,
    MAX_BOXES,
    Gibson,
    collision_boxes,
    covering_rectangles,
)
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.tasks.navigate import Navigate
from pixelgait.sim.tasks.teacher import Teacher
from pixelgait.sim.world.traversability import PIXEL_M
from tests.helpers import HOLD, glide_episode, seen


@pytest.fixture
def glider(house: Path) -> Iterator[KinematicBody]:
    body = KinematicBody(A1, Gibson(house))
    yield body
    body.close()


def white(house: Path, points: Array) -> Array:
    """Whether points (n, 2) [m] are white on the house's map, (n,)."""
    image = cv2.imread(str(house / "floor_trav_0.png"), cv2.IMREAD_GRAYSCALE)
    columns, rows = (points / PIXEL_M + len(image) / 2.0).astype(int).T
    return np.asarray(image[rows, columns] == 255)


def test_rectangles_cover_exactly_the_blocked_cells() -> None:
    """Straight, diagonal and round walls, specks, and none."""
    image = np.zeros((60, 80), dtype=np.uint8)
    cv2.line(image, (5, 5), (70, 50), 1, 5)
    cv2.circle(image, (60, 20), 10, 1, 2)
    image[40:, 10:14] = image[0, 0] = image[59, 79] = 1
    for cells in (image == 1, image == 2, image < 2):
        again = np.zeros_like(cells)
        for top, first, bottom, end in covering_rectangles(cells):
            assert bottom > top
            assert end > first
            assert cells[top:bottom, first:end].all()
            again[top:bottom, first:end] = True
        np.testing.assert_array_equal(again, cells)
    assert len(covering_rectangles(image < 2)) == 1
    assert len(covering_rectangles(image == 1)) < 0.3 * np.count_nonzero(image)


def test_collision_boxes_cover_the_blocked_area_within_their_limit() -> None:
    image = np.full((401, 401), 255, dtype=np.uint8)  # no whole number of cells
    image[100:120, 300:310] = 0
    (box,) = collision_boxes(image, 1.5)
    pose = box.pose
    assert (pose.x, pose.y, pose.z) == pytest.approx((1.045, -0.905, 1.5 + HEIGHT_M / 2), abs=0.02)
    assert box.half_m == pytest.approx((0.05, 0.10, HEIGHT_M / 2), abs=0.02)
    specks = np.random.default_rng(0).random((800, 800)) < 0.01
    boxes = collision_boxes(np.where(specks, 0, 255).astype(np.uint8), 0.0)
    assert 100 < len(boxes) <= MAX_BOXES


def test_teacher_steers_a_gliding_robot_through_a_house(house: Path, glider: KinematicBody) -> None:
    teacher = Teacher(glider)
    episodes = [
        glide_episode(teacher.decide, glider, Navigate(4500), seed) for seed in range(9000, 9006)
    ]
    assert all(episode.success for episode in episodes)
    assert np.mean([episode.distance_m for episode in episodes]) > 5.0
    assert white(house, np.vstack([episode.path for episode in episodes])).all()


@pytest.mark.slow
def test_walls_stop_a_gliding_robot(house: Path, glider: KinematicBody) -> None:
    """No point of a straight walk of 20 s, at most 12 m, is in a wall."""
    rooms = []
    for seed in range(10):
        glider.reset(seed)
        path = []
        for _ in range(2000):
            glider.follow(latent_for(0.6, 0.0))
            path.append(glider.pose()[0][:2])
        assert white(house, np.array(path)).all()
        rooms.append(np.ptp(path, axis=0).max())
    assert 0.5 < np.mean(rooms) < 8.0


def pushed(body: SimulatedBody, x: float, y: float, yaw: float) -> float:
    """Distance [m] of a standing robot that is pushed ahead for 2 s, at up to 1 m/s."""
    body.reset(0)
    body.place((x, y, LEVEL_M + A1.stand_height_m), upright(yaw))
    ahead = np.array((np.cos(yaw), np.sin(yaw), 0.0))
    before, far = np.array((x, y, 0.0)), 0.0
    for _ in range(200):
        last = far
        body.apply(HOLD)
        far = float((np.array(body.pose()[0]) - before) @ ahead)
        if far - last < 0.01:
            body.push(0.2 * ahead)
    return far


def to_the_wall(house: Path, scene: Gibson) -> tuple[float, float, float, float]:
    """A pose x, y, yaw straight in front of a wall, and its distance, 0.6 to 1 m."""
    along = np.arange(0.0, 1.2, PIXEL_M)
    for row, column in scene.map.cells[::7].tolist():
        place = np.array(scene.map.place((row, column)))
        for yaw in (0.0, np.pi / 2):
            ahead, aside = np.array(((np.cos(yaw), np.sin(yaw)), (-np.sin(yaw), np.cos(yaw))))
            feet = [place + along[:, None] * ahead + d * aside for d in (-0.3, 0.0, 0.3)]
            free = [int(white(house, points).argmin()) * PIXEL_M for points in feet]
            if min(free) == max(free) > 0.6 and scene.map.turnable[row, column]:
                return float(place[0]), float(place[1]), yaw, free[0]
    raise AssertionError("no wall")


@pytest.mark.parametrize("name", BODIES)
def test_walls_stop_a_pushed_robot(house: Path, name: str) -> None:
    """The head is 0.2 to 0.3 m ahead of the middle; without the wall it would go further."""
    scene = Gibson(house)
    scene.layout(np.random.default_rng(0))
    x, y, yaw, distance_m = to_the_wall(house, scene)
    body, outside = make_body(name, A1, scene), make_body(name, A1, FlatGround())
    assert distance_m - 0.35 < pushed(body, x, y, yaw) < distance_m - 0.15
    assert pushed(outside, 0.0, 0.0, 0.0) > distance_m + 0.2
    body.close()
    outside.close()


def test_depth_in_a_house_is_equal_in_both_simulators(house: Path) -> None:
    scene = Gibson(house)
    bullet, other = (make_body(name, A1, scene) for name in BODIES)
    camera, shares = Camera(A1.camera, kind="depth"), []
    for seed in range(5):
        bullet.reset(seed)
        other.reset(seed)
        other.place(*bullet.pose())
        off = seen(bullet, camera) - seen(other, camera)
        shares.append((np.abs(off) < 0.01).mean())
    assert min(shares) > 0.99
    bullet.close()
    other.close()


def test_every_floor_has_its_own_collision_boxes(house: Path, tmp_path: Path) -> None:
    """The lower floor is a cross-shaped hall, the upper one the house."""
    for path in house.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "floor_trav_0.png").rename(tmp_path / "floor_trav_1.png")
    (tmp_path / "floors.txt").write_text("0.0\n3.0\n")
    with (tmp_path / "mesh_z_up.obj").open("a") as mesh:
        mesh.writelines(f"v {x} {y} 3\n" for x, y in ((-6, -6), (6, -6), (6, 6), (-6, 6)))
        mesh.write("f -4 -3 -2 -1\n")
    hall = np.zeros((1200, 1200), dtype=np.uint8)
    hall[500:700, 50:1150] = hall[50:1150, 500:700] = 255
    cv2.imwrite(str(tmp_path / "floor_trav_0.png"), hall)
    body = KinematicBody(A1, make_scene(f"gibson:{tmp_path}"))
    heights = []
    for seed in range(6):
        body.reset(seed)
        heights.append(floor := round(body.pose()[0][2] - 0.25))
        path = []
        for _ in range(1500):
            body.follow(latent_for(0.6, 0.1))
            path.append(body.pose()[0][:2])
        points = np.array(path)
        if floor == 0:
            assert (np.abs(points).min(axis=1) < 1.0).all()
        else:
            assert white(house, points).all()
    assert {*heights} == {0, 3}
    body.close()
