"""Mount check: compares the camera's pose, from `/tf_static`, with the policy's.

Frames follow REP 103 and 105: x ahead, y left, z up for the base and the camera's body frame. A
camera frame whose name ends in "optical_frame" or "optical" has z ahead, x right, y down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.rotation import is_unit
from pixelgait.robot.spec import Array, CameraMount

try:
    from tf2_msgs.msg import TFMessage as TFMessage  # also for sim/ros
except ModuleNotFoundError:  # part of every ROS 2 installation, but there is no wheel of it
    TFMessage = None

TF_STATIC = "/tf_static"
MAX_MESSAGES = 100  # of all publishers together
# Five times and twice the randomisation of mounts in training; assumptions.
POSITION_TOLERANCE_M, ANGLE_TOLERANCE_RAD = 0.05, 0.1
OPTICAL = ("optical_frame", "optical")
# Rotation from the camera's body frame (columns: ahead, left, up) to its optical frame.
OPTICAL_FROM_BODY = np.array([(0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)])


class CameraMountCheck:
    """Checks the camera's pose by the static transforms of the robot, where they are published.

    `node` has no executor: messages are taken by `problem`.
    """

    def __init__(self, node: Any, base_frame: str, mount: CameraMount) -> None:
        self._node, self._base, self._mount = node, base_frame, mount
        self._parents: dict[str, tuple[str, Array]] = {}  # parent frame and pose (4, 4) in it
        self._received = 0  # number of messages
        self._subscription = TFMessage and ros2.subscribe(
            node, TFMessage, TF_STATIC, ros2.latched(MAX_MESSAGES)
        )

    def problem(self, frames: Iterable[str]) -> str | None:
        """A mismatch of a camera with these frame ids, as far as is known, or None."""
        self._take()
        poses = ((frame, self._pose(frame)) for frame in frames)
        found = (
            f"{TF_STATIC}: '{frame}' {what}"
            for frame, pose in poses
            if pose is not None and (what := misplaced(pose, self._mount))
        )
        return next(found, None)

    def pending(self) -> bool:
        """Whether there are more publishers than messages so far; some may stay silent."""
        publishers = self._subscription and self._subscription.get_publisher_count()
        return self._received < (publishers or 0)

    def unknown(self, frames: Iterable[str]) -> str | None:
        """Why the mount is not checked, if it is not.

        None also if neither tf2_msgs nor a publisher of `/tf_static` exists, as in a wheel's demo.
        """
        if self._subscription is None:
            if not self._node.count_publishers(TF_STATIC):
                return None
            return "tf2_msgs is not installed: the camera's mount is not checked"
        missing = [each for each in tuple(frames) or ("",) if self._pose(each) is None]
        if not missing:
            return None
        path = f"from '{self._base}' to '{missing[0]}'"
        return f"the camera's mount is not checked: {TF_STATIC} does not lead {path}"

    def _take(self) -> None:
        if self._subscription is None:
            return
        for _ in range(MAX_MESSAGES):
            if (message := ros2.take(self._subscription)) is None:
                return
            self._received += 1
            for transform in message.transforms:
                pose = matrix(transform.transform)
                if pose is not None:
                    parent = transform.header.frame_id.lstrip("/")
                    self._parents[transform.child_frame_id.lstrip("/")] = parent, pose

    def _pose(self, frame: str) -> Array | None:
        """Pose (4, 4) of a camera's body frame in the base frame; None if it is unknown."""
        pose, frame = np.eye(4), frame.lstrip("/")
        if frame.endswith(OPTICAL):
            pose[:3, :3] = OPTICAL_FROM_BODY
        for _ in range(len(self._parents) + 1):  # ends for circular transforms, too
            if frame == self._base:
                return pose
            if frame not in self._parents:
                return None
            frame, step = self._parents[frame]
            pose = step @ pose
        return None


def misplaced(pose: Array, mount: CameraMount) -> str | None:
    """A mismatch of a camera body's pose (4, 4) in the base frame with the policy's, or None."""
    x, y, z = pose[:3, 3].tolist()
    if math.dist((x, y, z), mount.position_m) > POSITION_TOLERANCE_M:
        wanted = ", ".join(f"{each:.2f}" for each in mount.position_m)
        return f"sits at ({x:.2f}, {y:.2f}, {z:.2f}) m, the policy was made for ({wanted}) m"
    (ahead_x, _, _), (ahead_y, _, _), (ahead_z, left_z, up_z) = pose[:3, :3].tolist()
    down_rad = math.atan2(-ahead_z, math.hypot(ahead_x, ahead_y))
    if abs(down_rad - mount.pitch_down_rad) > ANGLE_TOLERANCE_RAD:
        wanted = f"the policy was made for {mount.pitch_down_rad:.2f} rad"
        return f"looks {down_rad:.2f} rad down, {wanted}"
    for what, turned_rad in (
        ("to the left", math.atan2(ahead_y, ahead_x)),
        ("about its axis", math.atan2(left_z, up_z)),
    ):
        if abs(turned_rad) > ANGLE_TOLERANCE_RAD:
            return f"is turned by {turned_rad:.2f} rad {what}, the policy was made for none"
    return None


def matrix(transform: Any) -> Array | None:
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
