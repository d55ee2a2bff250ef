"""Static transforms of the robot: where its frames are in the base frame, by `/tf_static`."""

from __future__ import annotations

from typing import Any

from pixelgait.robot.frames import TF_STATIC, FrameTree
from pixelgait.robot.ros.common import ros2

try:
    from tf2_msgs.msg import TFMessage as TFMessage  # also for sim/ros
except ModuleNotFoundError:  # part of every ROS 2 installation, but there is no wheel of it
    TFMessage = None

MAX_MESSAGES = 100  # of all publishers together


class StaticTransforms:
    """A `tree` of frames, as far as they are published.

    `node` has no executor: messages are taken by `take`.
    """

    def __init__(self, node: Any, base_frame: str) -> None:
        self._node, self.tree = node, FrameTree(base_frame)
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
            self.tree.add(message.transforms)

    def unknown(self, sensor: str, frame: str) -> str | None:
        """Why the mount of a sensor with this frame is not known, if it is not."""
        if self.tree.pose(frame) is not None:
            return None
        if self.published_unread:
            return f"tf2_msgs is not installed: the {sensor}'s mount is not checked"
        path = f"from '{self.tree.base}' to '{frame}'"
        return f"the {sensor}'s mount is not checked: {TF_STATIC} does not lead {path}"
