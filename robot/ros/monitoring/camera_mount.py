"""Compares where a camera sits, by `/tf_static`, with what a policy was trained with.

Frames are those of REP 103 and 105: of the base x ahead, y left, z up. A camera's is the same, or,
where its name ends in "optical_frame" or "optical", z ahead, x right, y down.
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
    from tf2_msgs.msg import TFMessage as TFMessage  # also for who publishes them
except ModuleNotFoundError:  # it comes with every ROS 2, but there is no wheel of it
    TFMessage = None

TF_STATIC = "/tf_static"
MOST_WAITING = 100  # messages, one or more from every publisher
# Ours: five times what mounts are off by in training, and twice.
POSITION_TOLERANCE_M, ANGLE_TOLERANCE_RAD = 0.05, 0.1
OPTICAL = ("optical_frame", "optical")
# Columns: where ahead, left and up are in an optical frame.
LOOKS_AHEAD = np.array([(0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0)])


class CameraMountWatch:
    """Hears the static transforms between the frames of a robot, where somebody publishes them.

    `node` is spun by nobody: messages are taken when it is asked.
    """

    def __init__(self, node: Any, base_frame: str, mount: CameraMount) -> None:
        self._base, self._mount = base_frame, mount
        self._parents: dict[str, tuple[str, Array]] = {}  # with poses (4, 4) in them
        self._heard = 0  # messages
        self._subscription = TFMessage and ros2.subscribe(
            node, TFMessage, TF_STATIC, ros2.latched(MOST_WAITING)
        )

    def problem(self, frames: Iterable[str]) -> str | None:
        """What is wrong with a camera whose images are in these frames, as far as is known."""
        self._take()
        poses = ((frame, self._pose(frame)) for frame in frames)
        found = (
            f"{TF_STATIC}: '{frame}' {what}"
            for frame, pose in poses
            if pose is not None and (what := misplaced(pose, self._mount))
        )
        return next(found, None)

    def pending(self) -> bool:
        """Whether there are more publishers than have been heard; some may never say a word."""
        there = self._subscription and self._subscription.get_publisher_count()
        return self._heard < (there or 0)

    def unknown(self, frames: Iterable[str]) -> str | None:
        """Why nothing was compared, if so."""
        if self._subscription is None:
            return "tf2_msgs is not installed: the camera's mount is not checked"
        missing = [each for each in tuple(frames) or ("",) if self._pose(each) is None]
        if not missing:
            return None
        way = f"from '{self._base}' to '{missing[0]}'"
        return f"the camera's mount is not checked: {TF_STATIC} does not lead {way}"

    def _take(self) -> None:
        if self._subscription is None:
            return
        for _ in range(MOST_WAITING):
            if (message := ros2.take(self._subscription)) is None:
                return
            self._heard += 1
            for transform in message.transforms:
                pose = matrix(transform.transform)
                if pose is not None:
                    parent = transform.header.frame_id.lstrip("/")
                    self._parents[transform.child_frame_id.lstrip("/")] = parent, pose

    def _pose(self, frame: str) -> Array | None:
        """Of a camera (4, 4) in the base's frame, x ahead; None: nothing leads there."""
        pose, frame = np.eye(4), frame.lstrip("/")
        if frame.endswith(OPTICAL):
            pose[:3, :3] = LOOKS_AHEAD
        for _ in range(len(self._parents) + 1):  # a circle ends, too
            if frame == self._base:
                return pose
            if frame not in self._parents:
                return None
            frame, step = self._parents[frame]
            pose = step @ pose
        return None


def misplaced(pose: Array, mount: CameraMount) -> str | None:
    """What is wrong with the pose (4, 4) of a camera, x ahead, in the base's frame, or None."""
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
    """A Transform as pose (4, 4); None if it is none, which tf2 would refuse as well."""
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
