"""A policy's camera on its topics, with the age of what it shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pixelgait.robot.interface import Image
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.newest_messages import Inbox
from pixelgait.robot.ros.links.camera_images import BLIND, RosCamera, blind
from pixelgait.robot.safety.sensor_age import Freshness, PictureWatch
from pixelgait.robot.spec import Array

PAIR = f"{ros2.COLOUR} paired with {ros2.DEPTH}"  # has an age like a topic of its own


class CameraTopics:
    """Takes images (H, W, C) of the shape a policy wants; a picture that repeats is no news,
    nor is depth without a measurement.
    """

    def __init__(self, node: Any, image_shape: tuple[int, int, int]) -> None:
        self._node, self.camera = node, RosCamera(image_shape)
        self.sensors = self.camera.topics
        self._inbox = Inbox(node, dict.fromkeys(self.sensors, ros2.Image))
        self._pictures = {topic: PictureWatch() for topic in self.sensors}
        self._pair = Freshness(PAIR) if len(self.sensors) > 1 else None
        self._pairs = 0  # images whose parts belong together

    def take(self, joints: Array) -> None:
        """Fetch what has arrived, with the joints' angles (12,) [rad] by now.

        Raises:
            UserError: a message has no stamp.
        """
        for topic, message in self._inbox.take(
            lambda topic, message: self._odd(topic, message, joints)
        ):
            paired = self.camera.put(topic, message)
            if paired and self._pair is not None:  # its parts' own stamps are judged already
                now_s = ros2.now_s(self._node)
                self._pairs += self._pair.arrived(now_s, now_s, time.monotonic())

    def _odd(self, topic: str, message: Any, joints: Array) -> str | None:
        """Why a message shows nothing new, or None."""
        height, width, _ = self.camera.image_shape
        if topic == ros2.DEPTH and blind(message, height, width):
            return BLIND
        return self._pictures[topic].frozen(message.data, joints)

    @property
    def received(self) -> Mapping[str, int]:
        """Messages taken, of each topic, and images of both together."""
        pairs = {} if self._pair is None else {PAIR: self._pairs}
        return {**self._inbox.received, **pairs}

    @property
    def frames(self) -> tuple[str, ...]:
        """What images say is their frame, as far as they do."""
        named = (message.header.frame_id for message in list(self._inbox.newest.values()))
        return tuple(dict.fromkeys(name for name in named if name))

    def image(self) -> Image:
        """The newest image; see `RosCamera.image`."""
        return self.camera.image()

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self._inbox.forget()
        self.camera.forget()
        if self._pair is not None:
            self._pair.forget()

    def ages(self) -> dict[str, float]:
        """For how long each topic, and the pair of them, has said nothing new [s]."""
        ages = self._inbox.ages()
        if self._pair is not None:
            ages[PAIR] = self._pair.age_s(time.monotonic())
        return ages

    def warnings(self) -> dict[str, str]:
        """What is odd about what arrives, where something is."""
        warnings = self._inbox.warnings()
        if self._pair is not None and (apart_ns := self.camera.apart_ns) is not None:
            warnings[PAIR] = f"stamps are {apart_ns / 1e6:.0f} ms apart"
        return warnings

    def stamps(self) -> dict[str, float]:
        """When the newest of each topic was taken [s]."""
        return self._inbox.stamps()
