"""Static transforms of the robot: where its frames are in the base frame, by `/tf_static`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.rotation import is_unit
from pixelgait.robot.spec import Array

try:
    from tf2_msgs.msg import TFMessage as TFMessage  # also for sim/ros
except ModuleNotFoundError:  # part of every ROS 2 installation, but there is no wheel of it
    TFMessage = None

TF_STATIC = "/tf_static"
MAX_MESSAGES = 100  # of all publishers together


class StaticTransforms:
    """Poses of frames in the base frame, as far as they are published.

    `node` has no executor: messages are taken by `take`.
    """

    def __init__(self, node: Any, base_frame: str) -> None:
        self._node, self._base = node, base_frame.lstrip("/")
        self._parents: dict[str, tuple[str, Array]] = {}  # parent frame and pose (4, 4) in it
        self._received = 0  # number of messages
        self._subscription = TFMessage and ros2.subscribe(
            node, TFMessage, TF_STATIC, ros2.latched(MAX_MESSAGES)
        )

    @property
    def published_unread(self) -> bool:
        """Whether there are transforms, but no tf2_msgs to read them."""
        return self._subscription is None and self._node.count_publishers(TF_STATIC) > 0

    @property
    def readable(self) -> bool:
        """Whether tf2_msgs is installed."""
        return self._subscription is not None

    def pending(self) -> bool:
        """Whether there are more publishers than messages so far; some may stay silent."""
        publishers = self._subscription and self._subscription.get_publisher_count()
        return self._received < (publishers or 0)

    def take(self) -> None:
        """Fetch the transforms that have arrived."""
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

    def pose(self, frame: str) -> Array | None:
        """Pose (4, 4) of a frame in the base frame; None if it is unknown."""
        pose, frame = np.eye(4), frame.lstrip("/")
        for _ in range(len(self._parents) + 1):  # ends for circular transforms, too
            if frame == self._base:
                return pose
            if frame not in self._parents:
                return None
            frame, step = self._parents[frame]
            pose = step @ pose
        return None

    def unknown(self, sensor: str, frame: str) -> str | None:
        """Why the mount of a sensor with this frame is not known, if it is not."""
        if self.pose(frame) is not None:
            return None
        if self.published_unread:
            return f"tf2_msgs is not installed: the {sensor}'s mount is not checked"
        path = f"from '{self._base}' to '{frame}'"
        return f"the {sensor}'s mount is not checked: {TF_STATIC} does not lead {path}"


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
