"""Camera checks: compares lens (`camera_info`) and pose (`/tf_static`) with the policy's camera."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sensor_msgs.msg import CameraInfo

from pixelgait.robot.control.lens import calibrated, misfit, misplaced
from pixelgait.robot.frames import TF_STATIC
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.spec import CameraMount, TrainedMounts


class CameraMountCheck:
    """Checks the camera's pose by the static transforms of the robot, where they are published."""

    def __init__(self, transforms: StaticTransforms, mounts: TrainedMounts) -> None:
        self._transforms, self._mounts = transforms, mounts

    def problem(self, frames: Iterable[str]) -> str | None:
        """A mismatch of a camera with these frame ids, as far as is known, or None."""
        self._transforms.take()
        poses = ((frame, self._transforms.tree.camera_pose(frame)) for frame in frames)
        found = (
            f"{TF_STATIC}: '{frame}' {what}"
            for frame, pose in poses
            if pose is not None and (what := misplaced(pose, self._mounts))
        )
        return next(found, None)

    def unknown(self, frames: Iterable[str]) -> str | None:
        """Why the mount is not checked, if it is not.

        None also if neither tf2_msgs nor a publisher of `/tf_static` exists, as in a wheel's demo.
        """
        transforms = self._transforms
        if not transforms.readable and not transforms.published_unread:
            return None
        reasons = (transforms.unknown("camera", frame) for frame in tuple(frames) or ("",))
        return next((reason for reason in reasons if reason), None)


def unaligned(frames: tuple[str, ...]) -> str | None:
    """A note on colour and depth in several frames, which drivers give them if not aligned."""
    if len(frames) < 2:
        return None
    return (
        f"colour and depth are in several frames, {', '.join(frames)}: is depth aligned to colour?"
    )


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
            waits = len(subscriptions) == 1 and name not in self._infos  # graph queries cost time
            if waits and self._is_latched(name):
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
