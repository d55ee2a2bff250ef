"""Camera topics of a link: subscriptions, ages and checks of colour and depth images."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.image_decoding import (
    brightness,
    decompressed,
    depth_samples,
    image_of,
)
from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.ros_camera import EMPTY_DEPTH, RosCamera
from pixelgait.robot.ros.links.topic_driver import Form, NewestMessages
from pixelgait.robot.safety.image_checks import DepthCheck, ImageMotionCheck
from pixelgait.robot.safety.sensor_age import Freshness, FrozenImageCheck
from pixelgait.robot.spec import Array, RobotSpec

PAIR = f"{ros2.COLOUR} paired with {ros2.DEPTH}"  # has an age like a topic
# Suffixes of a topic's compressed forms (image_transport), the preferred one first.
COMPRESSED = {ros2.COLOUR: ("compressed",), ros2.DEPTH: ("compressedDepth", "compressed")}
NEAREST_M = 0.5  # for the motion of pictures: nearer things would outweigh all others; assumption


def raw_image(topic: str, message: Any) -> Any:
    """The image of a CompressedImage on a topic of colours or depth; raises as `decompressed`."""
    return image_of(decompressed(message, topic == ros2.DEPTH), message.header)


def forms(topic: str) -> list[Form]:
    """Compressed forms of an image topic."""
    convert = partial(raw_image, topic)
    return [Form(suffix, ros2.CompressedImage, convert) for suffix in COMPRESSED[topic]]


class CameraTopics:
    """Camera of a `RosLink`: images (H, W, C) in the policy's shape, with their ages.

    An image that shows nothing new, or nothing that can be true, does not count: a frozen or
    mirrored picture, and depth without any measurement or without the ground. A topic
    without a publisher is taken in its compressed form, if that has one.
    """

    def __init__(self, node: Any, image_shape: tuple[int, int, int], spec: RobotSpec) -> None:
        self._node, self.camera = node, RosCamera(image_shape)
        self.sensors = self.camera.topics
        types = dict.fromkeys(self.sensors, ros2.Image)
        self._messages = NewestMessages(node, types, {name: forms(name) for name in self.sensors})
        self.image, self.stamps = self.camera.image, self._messages.stamps
        self._pictures = {topic: FrozenImageCheck() for topic in self.sensors}
        self._motion = {
            topic: ImageMotionCheck(spec.camera, image_shape[0]) for topic in self.sensors
        }
        self._depth = DepthCheck(spec.camera, spec.stand_height_m, DEPTH_RANGE_M)
        self._pair = Freshness(PAIR) if len(self.sensors) > 1 else None
        self._pairs = 0  # number of complete RGB-D images

    def take(self, joints: Array) -> None:
        """Fetch what has arrived, given the current joint angles (12,) [rad].

        Raises:
            UserError: a message has no stamp.
        """
        for topic, message in self._messages.take(
            lambda topic, message: self._problem(topic, message, joints)
        ):
            paired = self.camera.put(topic, message)
            if paired and self._pair is not None:  # the stamps of its parts are checked already
                now_s = ros2.now_s(self._node)
                self._pairs += self._pair.arrived(now_s, now_s, time.monotonic())

    def turned(self, reading: Reading) -> None:
        """Take note of the body's angular velocity, which pictures are compared with."""
        for motion in self._motion.values():
            motion.turned(reading.time_s, reading.angular_velocity)

    def _problem(self, topic: str, message: Any, joints: Array) -> str | None:
        """Why a message shows nothing new, or nothing true; None: nothing is known against it.

        A message that cannot be read is left to `image`, which raises.
        """
        try:
            picture, problem = self._picture(topic, message)
        except UserError:
            return None
        problem = problem or self._pictures[topic].judge(message.data, joints)
        stamp_s = ros2.seconds(message.header.stamp)
        return problem or self._motion[topic].judge(picture, stamp_s)

    def _picture(self, topic: str, message: Any) -> tuple[NDArray[np.float32], str | None]:
        """Brightness, or inverse depth [1/m], (H, W) for `ImageMotionCheck`; a problem of depth.

        Raises:
            UserError: the message cannot be read.
        """
        height, width, _ = self.camera.image_shape
        if topic == ros2.COLOUR:
            return brightness(message, height, width), None
        samples = depth_samples(message, height, width)
        depth = samples[..., samples.shape[2] // 2]
        if np.isnan(samples).all():
            return depth, EMPTY_DEPTH
        inverse = np.asarray(1.0 / depth.clip(min=NEAREST_M), dtype=np.float32)
        return inverse, self._depth.judge(depth)

    @property
    def received(self) -> Mapping[str, int]:
        """Number of messages taken from each topic, and of complete RGB-D images."""
        pairs = {} if self._pair is None else {PAIR: self._pairs}
        return {**self._messages.received, **pairs}

    @property
    def frames(self) -> tuple[str, ...]:
        """The frame ids of the newest images, without empty ones."""
        named = (message.header.frame_id for message in list(self._messages.newest.values()))
        return tuple(dict.fromkeys(name for name in named if name))

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self._messages.forget()
        self.camera.forget()
        self._depth.forget()
        for motion in self._motion.values():
            motion.forget()
        if self._pair is not None:
            self._pair.forget()

    def ages(self) -> dict[str, float]:
        """Time since the newest data of each topic, and of the pair, was measured [s]."""
        ages = self._messages.ages()
        if self._pair is not None:
            ages[PAIR] = self._pair.age_s(time.monotonic())
        return ages

    def warnings(self) -> dict[str, str]:
        """Warnings per topic, empty if all are healthy."""
        warnings = self._messages.warnings()
        if self._pair is not None and (apart_ns := self.camera.apart_ns) is not None:
            warnings[PAIR] = f"stamps are {apart_ns / 1e6:.0f} ms apart"
        return warnings
