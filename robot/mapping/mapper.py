"""Mapper of a robot: its local map from readings and depth images, and the collision guard."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.estimation.leg_odometry import UNKNOWN, Motion, up_in_base
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.depth_view import DepthView, Floats, Lens, depth_view, lens_of
from pixelgait.robot.mapping.guard import CollisionGuard
from pixelgait.robot.mapping.height_scan import POINTS
from pixelgait.robot.mapping.local_map import LocalMap, Surroundings
from pixelgait.robot.mapping.poses import FootHeights, Poses, jumped
from pixelgait.robot.rotation import Vector, is_unit, rotation_at
from pixelgait.robot.spec import Array, RobotSpec

STALE_S = 0.5  # as of a camera; without a newer image the guard stops the robot
BACK_S = 0.1  # between two readings: more is a clock that was set; assumption
UNKNOWN_POSE = (math.nan, math.nan, math.nan), (0.0, 0.0, 1.0)


class Mapper:
    """`step` after every control step, `add` for every depth image; owned by one thread.

    The map needs odometry: without it, or after a jump, it starts anew, as when the readings' clock
    is set back.

    Attributes:
        around: the map at the newest image, or None; any thread may read it.
        blind: why there is no map that can be relied on, or None.
    """

    def __init__(self, spec: RobotSpec, aspect: float) -> None:
        """`aspect` is the ratio of width to height of the view that the mount describes."""
        self._spec, self._aspect = spec, aspect
        self.map, self.guard = LocalMap(), CollisionGuard(spec)
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self.map.forget()
        self.around: Surroundings | None = None
        self._poses, self._heights = Poses(), FootHeights(self._spec)
        self._place: tuple[float, float, float] | None = None  # x, y [m], heading [rad]
        self._position: Vector = 0.0, 0.0, 0.0
        self._now_s = 0.0
        self.blind: str | None = "no depth image so far"

    def step(self, reading: Reading, motion: Motion | None = None) -> None:
        """Move the map with the robot: by its legs, or by the reading's odometry."""
        pose, up = _pose(reading) if motion is None else _pose_by_legs(motion)
        if not math.isfinite(sum(pose)):
            if self._place is not None:
                self.forget()
            self.blind = "no odometry"
            return
        x, y, heading_rad = pose
        if reading.time_s < self._now_s - BACK_S:
            self.forget()
            self.blind = "the clock was set back"
        if self._place is not None and jumped(self._place, pose):
            self.forget()
            self.blind = "the odometry has jumped"
        self._place, self._now_s = (x, y, heading_rad), reading.time_s
        rotation = rotation_at(up, heading_rad)
        soles = self._heights.step(reading.joint_angles.tolist(), rotation)
        position = self._position = x, y, self._heights.height_m
        self._poses.add(reading.time_s, position, rotation)
        self.map.step(reading.time_s, position, soles)

    def view(self, height: int, width: int, lens: Lens | None = None) -> DepthView:
        """The used pixels of depth images (height, width); without a lens that of the mount."""
        camera = self._spec.camera
        lens = lens or lens_of(camera, height, width, self._aspect)
        return depth_view(camera, height, width, lens)

    def add(self, time_s: float, depth: Floats, view: DepthView) -> None:
        """Fuse the used pixels (h, w) [m] of a depth image with its stamp; NaN is a hole."""
        pose = self._poses.at(time_s)
        if pose is None:  # older than all poses
            return
        if not self.map.add(time_s, depth, view, *pose):  # a camera that is covered, say
            return
        if self._place is not None:
            heading_rad = self._place[2]
            self.around = self.map.surroundings(self._now_s, self._position, heading_rad)
            self.blind = None

    def free_m(self, velocity: Array) -> float:
        """Free distance [m] at this velocity (3,): ahead, left [m/s], yaw rate [rad/s].

        inf: nothing is in the way. Without a map it is 0, but inf for a turn on the spot.
        """
        if self.around is not None and self._now_s > self.around.time_s + STALE_S:
            self.blind = f"no depth image for {STALE_S:g} s"
        if self.blind is not None or self._place is None:
            return 0.0 if velocity[:2].any() else math.inf
        if self.around is not None:
            self.guard.look(self.around)
        return self.guard.free_m(*self._place, velocity)

    def height_scan(self, points: Array = POINTS) -> Floats:
        """How far the ground is below the base (n,) [m], at points (n, 2) in the heading frame.

        Before there is a map it is level ground below a robot that stands.
        """
        if not self.map.begun:
            return np.full(len(points), self._spec.stand_height_m, np.float32)
        heading_rad = 0.0 if self._place is None else self._place[2]
        return self.map.height_scan(self._position, heading_rad, points)


def _pose(reading: Reading) -> tuple[Vector, Vector]:
    """x, y [m], heading [rad] by a reading's odometry, nan if unknown; up in the base's frame."""
    quaternion = reading.orientation.tolist()
    if reading.odometry is None or not is_unit(quaternion):
        return UNKNOWN_POSE
    x, y, heading_rad = reading.odometry.tolist()
    return (x, y, heading_rad), up_in_base(quaternion)


def _pose_by_legs(motion: Motion) -> tuple[Vector, Vector]:
    """The same by the legs."""
    if motion.problem in UNKNOWN:
        return UNKNOWN_POSE
    return (motion.x, motion.y, motion.heading), motion.up
