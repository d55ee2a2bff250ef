"""Frames of a robot: their poses in the base frame, by static transforms.

Frames follow REP 103 and 105: x ahead, y left, z up for the base and a camera's body frame. A
camera frame whose name ends in "optical_frame" or "optical" has z ahead, x right, y down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import cv2
import numpy as np

from pixelgait.robot.rotation import Quaternion, Vector, is_unit
from pixelgait.robot.spec import Array

LEAST_TURN_RAD = 1e-3  # of an IMU's mount; less is rounding
TF_STATIC = "/tf_static"  # topic of the transforms
OPTICAL = ("optical_frame", "optical")
# Rotation from the camera's body frame (columns: ahead, left, up) to its optical frame.
OPTICAL_FROM_BODY = np.array([(0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)])


class FrameTree:
    """Frames of a robot, by the static transforms that were published."""

    def __init__(self, base_frame: str) -> None:
        self.base = base_frame.lstrip("/")
        self._parents: dict[str, tuple[str, Array]] = {}  # parent frame and pose (4, 4) in it

    def add(self, transforms: Iterable[Any]) -> None:
        """Add TransformStamped messages, without those that are invalid."""
        for each in transforms:
            if (pose := pose_of(each.transform)) is not None:
                parent = each.header.frame_id.lstrip("/")
                self._parents[each.child_frame_id.lstrip("/")] = parent, pose

    def pose(self, frame: str) -> Array | None:
        """Pose (4, 4) of a frame in the base frame; None if it is unknown."""
        pose, frame = np.eye(4), frame.lstrip("/")
        for _ in range(len(self._parents) + 1):  # ends for circular transforms, too
            if frame == self.base:
                return pose
            if frame not in self._parents:
                return None
            frame, step = self._parents[frame]
            pose = step @ pose
        return None

    def camera_pose(self, frame: str) -> Array | None:
        """Pose (4, 4) of a camera's body frame in the base frame; None if it is unknown."""
        pose = self.pose(frame)
        if pose is not None and frame.endswith(OPTICAL):
            pose[:3, :3] = pose[:3, :3] @ OPTICAL_FROM_BODY
        return pose


def pose_of(transform: Any) -> Array | None:
    """A Transform as pose (4, 4); None if it is invalid, as for tf2."""
    t, q = transform.translation, transform.rotation
    x, y, z, w = q.x, q.y, q.z, q.w
    if not is_unit((x, y, z, w)):
        return None
    pose = np.eye(4)
    pose[:3, 3] = t.x, t.y, t.z
    pose[:3, :3] = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return pose if np.isfinite(pose).all() else None


def turn_of(pose: Array) -> tuple[Quaternion, float, Vector] | None:
    """The rotation of a pose (4, 4), its angle [rad] and its axis; None if there is none."""
    turn = cv2.Rodrigues(pose[:3, :3])[0].ravel()  # (3,) axis times angle [rad]
    if (angle_rad := float(np.linalg.norm(turn))) < LEAST_TURN_RAD:
        return None
    x, y, z = (turn / angle_rad).tolist()
    sin, cos = math.sin(angle_rad / 2.0), math.cos(angle_rad / 2.0)
    return (sin * x, sin * y, sin * z, cos), angle_rad, (x, y, z)
