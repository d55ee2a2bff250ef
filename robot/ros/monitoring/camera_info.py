"""Lens check: compares `camera_info` with the camera that the policy was trained with."""

from __future__ import annotations

import math
from typing import Any

from sensor_msgs.msg import CameraInfo

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.monitoring.camera_mount import ANGLE_TOLERANCE_RAD
from pixelgait.robot.spec import CameraMount

FOV_TOLERANCE = 0.1  # share of the field of view; assumption


class CameraInfoCheck:
    """Checks the `camera_info` beside every image topic, where it is published.

    `node` has no executor: messages are taken by `problem`. A latched message is received only by a
    subscription that asks for it, which does not match other publishers: it is added for latched
    publishers alone, as the others would warn of incompatible QoS.
    """

    def __init__(
        self,
        node: Any,
        topics: tuple[str, ...],
        image_shape: tuple[int, int, int],
        mount: CameraMount,
    ) -> None:
        self._node, self._image_shape, self._mount = node, image_shape, mount
        self._subscriptions: dict[str, list[Any]] = {}
        for topic in topics:
            # Beside the images that are subscribed: a remapped one is another camera's.
            name = f"{node.resolve_topic_name(topic).rpartition('/')[0]}/camera_info"
            self._subscriptions[name] = [ros2.subscribe(node, CameraInfo, name)]
        self._infos: dict[str, Any] = {}  # the newest by topic

    def problem(self) -> str | None:
        """A mismatch with the policy's camera, as far as is known, or None."""
        for name, subscriptions in self._subscriptions.items():
            if len(subscriptions) == 1 and self._is_latched(name):
                subscriptions.append(
                    ros2.subscribe(
                        self._node, CameraInfo, name, ros2.latched(1), event_callbacks=ros2.SILENT
                    )
                )
            for subscription in subscriptions:
                if (info := ros2.take(subscription)) is not None:
                    self._infos[name] = info
        for name, info in self._infos.items():
            if what := misfit(info, self._image_shape, self._mount):
                return f"{name}: {what}"
        return None

    def _is_latched(self, name: str) -> bool:
        publishers = self._node.get_publishers_info_by_topic(name)
        return any(each.qos_profile.durability == ros2.LATCHED for each in publishers)

    def pending(self) -> bool:
        """Whether there is a publisher without a message so far."""
        missing = self._subscriptions.keys() - self._infos.keys()
        return any(self._subscriptions[name][0].get_publisher_count() for name in missing)

    def unknown(self) -> str | None:
        """Why nothing was compared, if so."""
        for name in self._subscriptions:
            if name not in self._infos:
                return f"the camera's lens is not checked: {name} has no message"
            if not calibrated(self._infos[name]):
                return f"the camera's lens is not checked: {name} is not calibrated"
        return None


def calibrated(info: Any) -> bool:
    """Whether a CameraInfo describes the lens; K is 0 if the lens is unknown."""
    return bool(info.k[0] > 0.0 and info.k[4] > 0.0 and info.height and info.width)


def misfit(info: Any, image_shape: tuple[int, int, int], mount: CameraMount) -> str | None:
    """A mismatch of a CameraInfo with a policy's images of this shape (H, W, C), or None.

    The images show a region of interest (0: all of the sensor), whose pixels may be binned (0: not
    binned). K and the region are in pixels of the whole, unbinned sensor.
    """
    if not calibrated(info):
        return None
    size = info.roi.height or info.height, info.roi.width or info.width
    return _other_lens(info, size, image_shape, mount) or _off_middle(info, size)


def _other_lens(
    info: Any, size: tuple[int, int], image_shape: tuple[int, int, int], mount: CameraMount
) -> str | None:
    """A mismatch of the field of view in a region's middle, or None; the region has size (H, W)."""
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
    """How far the region's middle is off the optical axis, if too far; its size is (H, W)."""
    for direction, first, pixels, axis, focal in (
        ("down", info.roi.y_offset, size[0], info.k[5], info.k[4]),
        ("to the right", info.roi.x_offset, size[1], info.k[2], info.k[0]),
    ):
        turned_rad = math.atan((first + (pixels - 1) / 2.0 - axis) / focal)
        if not abs(turned_rad) <= ANGLE_TOLERANCE_RAD:
            made = "it was made for the middle of a lens"
            return f"the policy would look {turned_rad:.2f} rad {direction}, {made}"
    return None
