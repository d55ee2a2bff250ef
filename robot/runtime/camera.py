"""Camera of a robot's link: images with their ages, and checks of colour and depth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.image_decoding import brightness, depth_samples
from pixelgait.robot.control.observation import DEPTH_RANGE_M
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Reading
from pixelgait.robot.ros.common.topic_names import CAMERA_TOPICS, COLOUR, DEPTH
from pixelgait.robot.runtime.camera_images import EMPTY_DEPTH, CameraImages
from pixelgait.robot.runtime.newest import Newest, stamp_s
from pixelgait.robot.safety.image_checks import DepthCheck, ImageMotionCheck
from pixelgait.robot.safety.sensor_age import Freshness, FrozenImageCheck
from pixelgait.robot.safety.supervisor import CAMERA, SensorTimeouts
from pixelgait.robot.spec import Array, TrainedMounts

PAIR = f"{COLOUR} paired with {DEPTH}"  # has an age like a topic
NEAREST_M = 0.5  # for the motion of pictures: nearer things would outweigh all others; assumption


def with_cameras(timeouts: Mapping[str, SensorTimeouts]) -> dict[str, SensorTimeouts]:
    """Time-outs by topic, also of the pair, as depth's, and of the controller's one camera.

    That is the topic that may be stale for longest.
    """
    camera = max((timeouts[topic] for topic in CAMERA_TOPICS), key=lambda each: each.stale_s)
    return {**timeouts, PAIR: timeouts[DEPTH], CAMERA: camera}


class Camera:
    """Camera of a `RobotLink`: images (H, W, C) in the policy's shape, with their ages.

    An image that shows nothing new, or nothing that can be true, does not count: a frozen or
    mirrored picture, and depth without any measurement or without the ground.
    """

    def __init__(
        self,
        messages: Newest,
        image_shape: tuple[int, int, int],
        mounts: TrainedMounts,
        stand_height_m: float,
    ) -> None:
        self._messages, self.camera = messages, CameraImages(image_shape)
        self.sensors = self.camera.topics
        self.image, self.stamps = self.camera.image, messages.stamps
        self._pictures = {topic: FrozenImageCheck() for topic in self.sensors}
        self._motion = {
            topic: ImageMotionCheck(mounts.usual, image_shape[0]) for topic in self.sensors
        }
        self._depth = DepthCheck(mounts, stand_height_m, DEPTH_RANGE_M)
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
                monotonic_s = time.monotonic()
                self._pairs += self._pair.arrived(monotonic_s, monotonic_s, monotonic_s)

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
        return problem or self._motion[topic].judge(picture, stamp_s(message))

    def _picture(self, topic: str, message: Any) -> tuple[NDArray[np.float32], str | None]:
        """Brightness, or inverse depth [1/m], (H, W) for `ImageMotionCheck`; a problem of depth.

        Raises:
            UserError: the message cannot be read.
        """
        height, width, _ = self.camera.image_shape
        if topic == COLOUR:
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
