"""Compares `camera_info` with what a policy was trained with: a camera of another lens misleads."""

from __future__ import annotations

import math
from typing import Any

from sensor_msgs.msg import CameraInfo

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.monitoring.camera_mount import ANGLE_TOLERANCE_RAD
from pixelgait.robot.spec import CameraMount

FOV_TOLERANCE = 0.1  # of an angle of view; ours
# Who says it once and latches it tells late ones who ask for that; others hear only who does not.
QUALITIES = (ros2.NEWEST_QOS, ros2.latched(1))


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
        self._subscriptions: dict[str, list[Any]] = {}
        for topic in topics:
            # Beside what is heard: an image that is remapped is another camera's.
            name = f"{node.resolve_topic_name(topic).rpartition('/')[0]}/camera_info"
            self._subscriptions[name] = [
                ros2.subscribe(node, CameraInfo, name, quality, event_callbacks=ros2.SILENT)
                for quality in QUALITIES
            ]
        self._infos: dict[str, Any] = {}  # the newest

    def problem(self) -> str | None:
        """What is wrong with the camera, as far as is known."""
        for name, subscriptions in self._subscriptions.items():
            for subscription in subscriptions:
                if (info := ros2.take(subscription)) is not None:
                    self._infos[name] = info
        for name, info in self._infos.items():
            if what := misfit(info, self._image_shape, self._mount):
                return f"{name}: {what}"
        return None

    def pending(self) -> bool:
        """Whether somebody publishes what has not been heard yet."""
        unheard = self._subscriptions.keys() - self._infos.keys()
        return any(self._subscriptions[name][0].get_publisher_count() for name in unheard)

    def unknown(self) -> str | None:
        """Why nothing was compared, if so."""
        for name in self._subscriptions:
            if name not in self._infos:
                return f"the camera's lens is not checked: {name} says nothing"
            if not calibrated(self._infos[name]):
                return f"the camera's lens is not checked: {name} is not calibrated"
        return None


def calibrated(info: Any) -> bool:
    """Whether a CameraInfo tells of the lens: of one that is not known, K is 0."""
    return bool(info.k[0] > 0.0 and info.k[4] > 0.0 and info.height and info.width)


def misfit(info: Any, image_shape: tuple[int, int, int], mount: CameraMount) -> str | None:
    """What is wrong with the camera of a CameraInfo for images of this shape (H, W, C), or None.

    Its images are a region of what the lens shows, whose pixels may have been binned; K, and where
    that region is, count in pixels of the whole. 0 means all of it, and no binning.
    """
    if not calibrated(info):
        return None
    size = info.roi.height or info.height, info.roi.width or info.width
    return _other_lens(info, size, image_shape, mount) or _off_middle(info, size)


def _other_lens(
    info: Any, size: tuple[int, int], image_shape: tuple[int, int, int], mount: CameraMount
) -> str | None:
    """Whether the middle of the region, of this size (H, W), that a policy sees is too much."""
    down, across = info.binning_y or 1, info.binning_x or 1
    ratio = image_shape[1] / image_shape[0]
    rows = min(size[0] / down, size[1] / across / ratio)
    half = math.tan(mount.vertical_fov_rad / 2.0)
    sides = {
        "high": (rows * down / info.k[4], half),
        "wide": (rows * ratio * across / info.k[0], half * ratio),
    }
    for side, (seen, wanted) in sides.items():
        seen_rad, wanted_rad = 2.0 * math.atan(seen / 2.0), 2.0 * math.atan(wanted)
        if abs(seen_rad - wanted_rad) > FOV_TOLERANCE * wanted_rad:
            made = f"it was made for {wanted_rad:.2f} rad"
            return f"the policy would see {seen_rad:.2f} rad {side}, {made}"
    return None


def _off_middle(info: Any, size: tuple[int, int]) -> str | None:
    """Whether the region's middle is not the lens's: it shows what a camera turned so far would."""
    for way, first, pixels, axis, focal in (
        ("down", info.roi.y_offset, size[0], info.k[5], info.k[4]),
        ("to the right", info.roi.x_offset, size[1], info.k[2], info.k[0]),
    ):
        turned_rad = math.atan((first + (pixels - 1) / 2.0 - axis) / focal)
        if not abs(turned_rad) <= ANGLE_TOLERANCE_RAD:
            made = "it was made for the middle of a lens"
            return f"the policy would look {turned_rad:.2f} rad {way}, {made}"
    return None
