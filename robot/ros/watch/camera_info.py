"""Compares `camera_info` with what a policy was trained with: a camera of another lens misleads."""

from __future__ import annotations

import math
from typing import Any

from sensor_msgs.msg import CameraInfo

from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.spec import CameraMount

FOV_TOLERANCE = 0.1  # of an angle of view; ours


class CameraInfoWatch:
    """Hears the `camera_info` beside every image topic, where somebody publishes it.

    `node` is spun by nobody: messages are taken when it is asked.
    """

    def __init__(
        self,
        node: Any,
        topics: tuple[str, ...],
        image_shape: tuple[int, int, int],
        mount: CameraMount,
    ) -> None:
        self._image_shape, self._mount = image_shape, mount
        self._subscriptions = {}
        for topic in topics:
            # Beside what is heard: an image that is remapped is another camera's.
            name = f"{node.resolve_topic_name(topic).rpartition('/')[0]}/camera_info"
            self._subscriptions[name] = ros.subscribe(node, CameraInfo, name)
        self._problems: dict[str, str | None] = {}

    def problem(self) -> str | None:
        """What is wrong with the camera, as far as is known."""
        for name, subscription in self._subscriptions.items():
            if (info := ros.take(subscription)) is not None:
                self._problems[name] = misfit(info, self._image_shape, self._mount)
        return next((f"{name}: {what}" for name, what in self._problems.items() if what), None)

    def pending(self) -> bool:
        """Whether somebody publishes what has not been heard yet."""
        unheard = self._subscriptions.keys() - self._problems.keys()
        return any(self._subscriptions[name].get_publisher_count() for name in unheard)


def misfit(info: Any, image_shape: tuple[int, int, int], mount: CameraMount) -> str | None:
    """What is wrong with the camera of a CameraInfo for images of this shape (H, W, C), or None."""
    focal_x, focal_y, height, width = info.k[0], info.k[4], info.height, info.width
    if not (focal_x > 0.0 and focal_y > 0.0 and height and width):
        return None  # not calibrated, says sensor_msgs
    ratio = image_shape[1] / image_shape[0]
    rows = min(height, width / ratio)  # of the middle that a policy sees
    half = math.tan(mount.vertical_fov_rad / 2.0)
    pairs = {"high": (rows / focal_y, half), "wide": (rows * ratio / focal_x, half * ratio)}
    for side, (size, wanted) in pairs.items():
        seen_rad, wanted_rad = 2.0 * math.atan(size / 2.0), 2.0 * math.atan(wanted)
        if abs(seen_rad - wanted_rad) > FOV_TOLERANCE * wanted_rad:
            made = f"it was made for {wanted_rad:.2f} rad"
            return f"the policy would see {seen_rad:.2f} rad {side}, {made}"
    return None
