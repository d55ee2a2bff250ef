"""Local map against analytic scenes: a level floor with boxes, seen by rays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pixelgait.robot.estimation.leg_odometry import up_in_base
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.mapping.depth_view import DepthView, Floats
from pixelgait.robot.mapping.local_map import (
    AHEAD_M,
    ASIDE_M,
    CELL_M,
    KEPT_S,
    LocalMap,
    Surroundings,
)
from pixelgait.robot.mapping.mapper import Mapper
from pixelgait.robot.mapping.poses import Poses
from pixelgait.robot.rotation import rotation_at, tilted, upright
from pixelgait.robot.spec import A1, Array

Box = tuple[float, float, float, float, float, float]  # from x, y, z to x, y, z [m]
STAND_M = 0.268  # of the base above the soles in the default pose
WALL: Box = (1.5, -3.0, 0.0, 1.6, 3.0, 1.0)


def seen(view: DepthView, place: Array, rotation: Array, boxes: list[Box]) -> Floats:
    """Depth (h, w) [m] of a floor at 0 and boxes, by a base at a place (3,); inf: nothing."""
    eye = place + rotation @ view.position
    rays = (rotation @ view.rays).T.astype(np.float64)
    rays[rays == 0.0] = 1e-12
    nearest = np.where(rays[:, 2] < 0.0, -eye[2] / rays[:, 2], np.inf)
    for box in boxes:
        one, two = (np.array(box[:3]) - eye) / rays, (np.array(box[3:]) - eye) / rays
        enters, leaves = np.minimum(one, two).max(axis=1), np.maximum(one, two).min(axis=1)
        hit = (enters < leaves) & (enters > 0.0)
        nearest = np.where(hit, np.minimum(nearest, enters), nearest)
    height, width = view.used(np.zeros((120, 212))).shape
    return nearest.reshape(height, width).astype(np.float32)


class Walker:
    """A robot that glides over the floor; its map sees every tenth step of 10 ms."""

    def __init__(self, boxes: list[Box], late_s: float = 0.0, noise_per_m: float = 0.0) -> None:
        self.boxes, self.late_s, self.noise_per_m = boxes, late_s, noise_per_m
        self.mapper = Mapper(A1, 212 / 120)
        self.view = self.mapper.view(120, 212)
        self.place = np.zeros(3)  # x, y, heading
        self.time_s = 0.0
        self.tilt_rad = np.zeros(2)  # roll, pitch of the camera that the IMU does not see
        self.sway_rad = self.imu_noise_rad = 0.0
        self.rng = np.random.default_rng(1)
        self.waiting: list[tuple[float, Floats]] = []

    def reading(self) -> Reading:
        level = np.array(upright(float(self.place[2])))
        noise = self.rng.normal(0.0, 1.0, 2) * self.imu_noise_rad
        orientation = tilted(level, self._sway() + noise)
        image = Image(np.zeros((1, 1, 1), np.uint8), 0.0)
        zeros = np.zeros(12)
        return Reading(
            self.time_s,
            A1.default_pose_rad,
            zeros,
            orientation,
            zeros[:3],
            lambda: image,
            self.place.copy(),
        )

    def go(self, seconds: float, speed: float = 0.0, turn: float = 0.0) -> Surroundings:
        """Move for so long; returns the map."""
        for step in range(round(seconds / 0.01)):
            self.time_s += 0.01
            x, y, heading = self.place
            self.place = np.array(
                (
                    x + 0.01 * speed * math.cos(heading),
                    y + 0.01 * speed * math.sin(heading),
                    heading + 0.01 * turn,
                )
            )
            self.mapper.step(self.reading())
            if step % 10 == 0:
                self.waiting.append((self.time_s, self._look()))
            while self.waiting and self.waiting[0][0] <= self.time_s - self.late_s:
                self.mapper.add(*self.waiting.pop(0), self.view)
        around = self.mapper.around
        assert around is not None
        return around

    def _sway(self) -> Array:
        """Roll and pitch [rad] of a trot."""
        phase = 12.0 * self.time_s
        return self.sway_rad * np.array((math.sin(phase), math.cos(phase)))

    def _look(self) -> Floats:
        x, y, heading = self.place.tolist()
        orientation = tilted(np.array(upright(0.0)), self._sway() + self.tilt_rad)
        rotation = rotation_at(up_in_base(orientation.tolist()), heading)
        depth = seen(self.view, np.array((x, y, STAND_M)), rotation, self.boxes)
        noise = (
            self.rng.normal(0.0, 1.0, depth.shape) * self.noise_per_m * np.minimum(depth, 10.0) ** 2
        )
        return (depth + noise).astype(np.float32)


def at(layer: Floats, ahead_m: float, left_m: float) -> float:
    """A layer's value at a place in the heading frame."""
    return float(layer[int((AHEAD_M - ahead_m) / CELL_M), int((ASIDE_M - left_m) / CELL_M)])


def test_a_box_that_is_out_of_view_stays_in_the_map() -> None:
    walker = Walker([(1.0, 0.3, 0.0, 1.2, 0.5, 0.2)], noise_per_m=0.003)
    before = walker.go(0.5, speed=0.4)
    assert math.isnan(at(before.ground, -0.5, 0.0))  # never seen
    around = walker.go(3.0, speed=0.4)  # the box is beside the body
    assert walker.place[0] == pytest.approx(1.4)
    assert at(around.top, -0.3, 0.4) == pytest.approx(0.2, abs=0.02)
    assert at(around.ground, 0.0, 0.0) == pytest.approx(0.0, abs=0.01)
    assert 0.5 < at(around.age_s, -0.3, 0.4) < 3.5
    floor = around.ground[~around.obstacles()]
    assert np.nanpercentile(np.abs(floor), 95) < 0.01
    places = np.array((AHEAD_M, ASIDE_M)) - (np.argwhere(around.obstacles()) + 0.5) * CELL_M
    assert len(places) > 3
    assert (np.abs(places - (-0.3, 0.4)) < 0.2).all()


def test_a_late_image_counts_where_it_was_taken() -> None:
    around = Walker([WALL], late_s=0.08).go(2.0, turn=0.5)
    heading = 1.0
    rows, columns = np.nonzero(around.obstacles())
    ahead, left = AHEAD_M - (rows + 0.5) * CELL_M, ASIDE_M - (columns + 0.5) * CELL_M
    x = math.cos(heading) * ahead - math.sin(heading) * left
    assert len(x) > 20
    assert (np.abs(x - 1.55) < 0.12).all()


def test_holes_stay_unseen() -> None:
    mapper = Mapper(A1, 212 / 120)
    view = mapper.view(120, 212)
    walker = Walker([])
    mapper.step(walker.reading())
    rotation = np.eye(3)
    depth = seen(view, np.array((0.0, 0.0, STAND_M)), rotation, [])
    depth[:, : depth.shape[1] // 2] = np.nan
    mapper.add(0.0, depth, view)
    assert mapper.around is not None
    assert math.isnan(at(mapper.around.ground, 1.0, 0.3))
    assert at(mapper.around.ground, 1.0, -0.3) == pytest.approx(0.0, abs=0.01)
    scan = mapper.height_scan(np.array([[1.0, 0.3], [0.0, 0.0]]))  # filled, for policies
    assert scan == pytest.approx([STAND_M, STAND_M], abs=0.02)


def test_what_has_gone_is_cleared_and_a_thin_bar_is_not() -> None:
    post: Box = (0.9, -0.02, 0.0, 0.94, 0.02, 0.5)
    walker = Walker([(0.9, 0.4, 0.0, 1.1, 0.6, 0.3), post])
    around = walker.go(1.0)
    assert at(around.top, 0.92, 0.0) > 0.3
    assert at(around.top, 0.92, 0.5) > 0.2
    walker.boxes = [post]
    around = walker.go(1.0)
    assert at(around.top, 0.92, 0.0) > 0.3
    assert at(around.top, 0.92, 0.5) < 0.05


def test_the_cameras_tilt_is_found_on_level_ground() -> None:
    walker = Walker([])
    walker.tilt_rad = np.array((0.0, 0.04))
    around = walker.go(6.0, speed=0.2)
    assert walker.mapper.map.tilt_rad == pytest.approx([0.0, 0.04], abs=0.008)
    assert abs(at(around.ground, 1.2, 0.0)) < 0.015


def test_noise_and_sway_make_no_obstacles() -> None:
    walker = Walker([], late_s=0.08, noise_per_m=0.005)
    walker.tilt_rad = np.array((0.04, 0.0))
    walker.sway_rad, walker.imu_noise_rad = 0.03, 0.005
    turns = [turn for turn in (0.0, 0.5, 0.0, -0.5) for _ in range(4)]
    found = [walker.go(0.5, 0.4, turn).obstacles().sum() for turn in turns]
    assert sum(found) < 10  # of 40000 cells


def test_the_map_forgets_after_its_time() -> None:
    local_map = LocalMap()
    local_map.step(0.0, (0.0, 0.0, 0.3), [(0.2, 0.1, -0.3)])
    here = (0.0, 0.0, 0.3), 0.0
    assert at(local_map.surroundings(1.0, *here).ground, 0.22, 0.12) == pytest.approx(0.0)
    assert math.isnan(at(local_map.surroundings(KEPT_S + 1.0, *here).ground, 0.22, 0.12))


def test_the_guard_judges_the_commanded_way() -> None:
    walker = Walker([(0.75, -0.1, 0.0, 0.9, 0.1, 0.3)])

    def free_m(ahead: float, left: float = 0.0, turn: float = 0.0) -> float:
        return walker.mapper.free_m(np.array((ahead, left, turn)))

    walker.go(0.6)
    assert math.isinf(free_m(0.4))  # 0.5 m ahead of the front
    walker.go(1.0, speed=0.3)
    assert 0.05 <= free_m(0.4) <= 0.25
    assert math.isinf(free_m(0.0, turn=1.0))  # it may turn away
    assert math.isinf(free_m(0.2, turn=1.0))  # a bend round it
    assert math.isinf(free_m(-0.2))
    assert math.isinf(free_m(0.0, left=0.2))
    walker.go(0.9, speed=0.3, turn=-1.0)
    walker.go(0.65, turn=-1.0)  # now it is to the left
    assert math.isinf(free_m(0.4))
    assert free_m(0.0, left=0.3) <= 0.3
    walker.time_s += 1.0
    walker.mapper.step(walker.reading())
    assert free_m(0.4) == 0.0
    assert walker.mapper.blind == "no depth image for 0.5 s"


def test_the_map_starts_anew_when_the_odometry_jumps() -> None:
    walker = Walker([WALL])
    walker.go(1.0)
    walker.place = walker.place + np.array((0.5, 0.0, 0.0))
    walker.time_s += 0.01
    walker.mapper.step(walker.reading())
    assert walker.mapper.blind == "the odometry has jumped"
    assert walker.mapper.around is None
    walker.go(0.3)
    assert walker.mapper.blind is None


def test_the_map_starts_anew_when_the_clock_is_set_back() -> None:
    """Otherwise an image would count as new until the clock is there again."""
    walker, ahead = Walker([]), np.array((0.4, 0.0, 0.0))
    walker.go(1.0)
    walker.time_s -= 0.7
    walker.mapper.step(walker.reading())
    assert walker.mapper.blind == "the clock was set back"
    assert walker.mapper.free_m(ahead) == 0.0
    walker.go(0.3)
    assert math.isinf(walker.mapper.free_m(ahead))


def test_a_camera_that_measures_nothing_makes_no_way_free() -> None:
    walker = Walker([])
    walker.go(0.3)
    ahead = np.array((0.4, 0.0, 0.0))
    assert math.isinf(walker.mapper.free_m(ahead))
    for _ in range(60):
        walker.time_s += 0.01
        walker.mapper.step(walker.reading())
        nothing = np.full_like(walker._look(), np.nan)
        walker.mapper.add(walker.time_s, nothing, walker.view)
    assert walker.mapper.free_m(ahead) == 0.0
    assert walker.mapper.blind == "no depth image for 0.5 s"
    walker.go(0.1)
    assert math.isinf(walker.mapper.free_m(ahead))


def test_a_repeated_reading_keeps_the_earlier_poses() -> None:
    poses = Poses()
    for time_s in (1.0, 1.1, 1.1):
        poses.add(time_s, (time_s, 0.0, 0.0), np.eye(3))
    found = poses.at(1.05)
    assert found is not None
    assert found[0] == pytest.approx((1.05, 0.0, 0.0))
    poses.add(0.5, (0.0, 0.0, 0.0), np.eye(3))  # the clock was set back
    assert poses.at(0.4) is None
