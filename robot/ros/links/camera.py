"""Camera on ROS 2 topics: colour, depth or both, cropped and resized as the policy needs.

A sensor_msgs/Image is cropped to its middle, which keeps pixels square, and resized to the policy's
image shape. A policy trained on a square view sees the middle of a wide one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.image_decoding import (
    brightness,
    colour_pixels,
    decompressed,
    depth_samples,
)
from pixelgait.robot.control.observation import (
    DEPTH_RANGE_M,
    DEPTH_SAMPLES,
    ENCODINGS,
    THIN_PER_M,
    THIN_SAMPLES,
    fill_holes,
    rgb,
    rgbd,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_driver import Form, NewestMessages
from pixelgait.robot.safety.image_checks import DepthCheck, ImageMotionCheck
from pixelgait.robot.safety.sensor_age import Freshness, FrozenImageCheck
from pixelgait.robot.spec import Array, RobotSpec

TOPICS = {"rgb8": (ros2.COLOUR,), "depth": (ros2.DEPTH,), "rgbd": (ros2.COLOUR, ros2.DEPTH)}
PAIR = f"{ros2.COLOUR} paired with {ros2.DEPTH}"  # has an age like a topic
APART_NS = ros2.NANOSECONDS // 30  # between colour and depth of an image: a frame at 30 Hz
# Suffixes of a topic's compressed forms (image_transport), the preferred one first.
COMPRESSED = {ros2.COLOUR: ("compressed",), ros2.DEPTH: ("compressedDepth", "compressed")}
EMPTY_DEPTH = "measures nothing, all its pixels are 0, 65535 or NaN"
LENS_M = 0.01  # -inf, and nearer, is at the lens
NEAREST_M = 0.5  # for the motion of pictures: nearer things would outweigh all others; assumption


def camera_topics(image_shape: tuple[int, int, int]) -> tuple[str, ...]:
    """The image topics of a policy whose images have this shape (H, W, C)."""
    return TOPICS[ENCODINGS[image_shape[2]]]


class RosCamera:
    """Pairs colour and depth messages by their stamps and converts the newest pair on demand.

    Colour and depth form an image if their stamps are at most `APART_NS` apart. A message without a
    counterpart changes nothing: the last image stays, with its old stamp.
    """

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        self.image_shape = image_shape
        self.topics = camera_topics(image_shape)
        self.forget()

    def forget(self) -> None:
        """Drop all messages."""
        self._newest: dict[str, Any] = {}
        self._complete: dict[str, Any] = {}  # messages of the newest image
        self._image: Image | None = None

    @property
    def apart_ns(self) -> int | None:
        """Gap between the newest stamps [ns] if neither message is part of an image, else None."""
        newest, complete = dict(self._newest), self._complete
        if any(newest.get(topic) is complete.get(topic) for topic in self.topics):
            return None
        return _apart_ns(newest)

    def put(self, topic: str, message: Any) -> bool:
        """Keep a message; returns whether it completes an image."""
        self._newest[topic] = message
        if len(self._newest) < len(self.topics) or _apart_ns(self._newest) > APART_NS:
            return False
        self._complete = dict(self._newest)
        return True

    def image(self) -> Image:
        """The newest image, stamped as the older of its parts.

        After a depth image without any measurement the previous image stays.

        Raises:
            UserError: an encoding is not supported, a message is cut short, the first depth image
                has no measurement, or there was no fresh image so far.
        """
        if not self._complete:
            raise UserError(f"no fresh image on {' and '.join(self.topics)} so far")
        pixels = self._pixels()
        if pixels is not None:
            self._image = Image(pixels, min(_stamps(self._complete)) / 1e9)
        elif self._image is None:
            raise UserError(f"{ros2.DEPTH} {EMPTY_DEPTH}")
        return self._image

    def _pixels(self) -> NDArray[Any] | None:
        """Pixels of the newest image, see `Image`; None if its depth has no measurement."""
        height, width, _ = self.image_shape
        parts = [CONVERSIONS[topic](self._complete[topic], height, width) for topic in self.topics]
        if parts[-1] is None:
            return None
        return rgbd(*parts) if len(parts) == 2 else parts[0]


def _stamps(messages: dict[str, Any]) -> list[int]:
    """Stamps of the messages [ns]."""
    return [ros2.nanoseconds(message.header.stamp) for message in messages.values()]


def _apart_ns(messages: dict[str, Any]) -> int:
    """Difference between the newest and the oldest stamp [ns]."""
    stamps = _stamps(messages)
    return max(stamps) - min(stamps)


def rgb_frame(message: Any, height: int, width: int) -> NDArray[np.uint8]:
    """RGB image (height, width, 3) of a colour message; raises a UserError as `colour_pixels`."""
    return rgb(*colour_pixels(message), height, width)


def depth_frame(message: Any, height: int, width: int) -> NDArray[np.float32] | None:
    """Depth image (height, width) [m], inf beyond range; None if no pixel was measured.

    Values follow REP 118 and 117: NaN or 0 is a pixel without a stereo match, -inf too near to
    measure, inf beyond range. 65535 of 16 bits is not measured either.

    Raises:
        UserError: see `depth_samples`.
    """
    depth = depth_samples(message, height, width)
    if np.isnan(depth).all():
        return None
    distinct = DEPTH_SAMPLES * height <= message.height and DEPTH_SAMPLES * width <= message.width
    return fill_holes(_nearest_thing(depth) if distinct else _median(depth)).clip(min=0.0)


def _median(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The lower median (H, W) of the samples (H, W, n) that are not NaN; NaN if all are.

    The median is a measured depth, as in RealSense's decimation filter. A mean across an edge would
    lie in free space. The simulated cameras used in training have one ray per pixel, no mixtures.
    """
    return _lower_median(np.sort(samples, axis=-1))


def _lower_median(ranked: NDArray[np.float32]) -> NDArray[np.float32]:
    measured = (~np.isnan(ranked)).sum(-1, keepdims=True)  # NaN last
    middle = np.take_along_axis(ranked, np.maximum(measured - 1, 0) // 2, -1)
    return np.asarray(middle[..., 0])


def _nearest_thing(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The median of the samples (H, W, n), or a thin thing in front of it: see `THIN_SAMPLES`.

    A leg of a chair fills less than half of a pixel's samples, and the median would remove it.
    Single near samples, and those between a near and a far surface, stay outvoted.
    """
    ranked = np.sort(samples, axis=-1)
    median = _lower_median(ranked)
    thing = ranked[..., THIN_SAMPLES - 1]  # NaN where fewer were measured
    first, this, behind = (1.0 / each.clip(min=LENS_M) for each in (ranked[..., 0], thing, median))
    agree = (this - behind > THIN_PER_M) & (first - this < THIN_PER_M)
    return np.where(agree, thing, median)


def raw_image(topic: str, message: Any) -> Any:
    """The Image of a CompressedImage on a topic of colours or depth; raises as `decompressed`."""
    pixels = decompressed(message, topic == ros2.DEPTH)
    depth = "16UC1" if pixels.dtype == np.uint16 else "32FC1"
    image = ros2.Image(header=message.header, encoding=depth if pixels.ndim == 2 else "bgr8")
    image.height, image.width = pixels.shape[:2]
    image.step, image.data = pixels.nbytes // image.height, pixels.tobytes()
    return image


def _forms(topic: str) -> list[Form]:
    """Compressed forms of an image topic."""
    convert = partial(raw_image, topic)
    return [Form(suffix, ros2.CompressedImage, convert) for suffix in COMPRESSED[topic]]


CONVERSIONS: dict[str, Callable[[Any, int, int], Any]] = {
    ros2.COLOUR: rgb_frame,
    ros2.DEPTH: depth_frame,
}


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
        self._messages = NewestMessages(node, types, {name: _forms(name) for name in self.sensors})
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
            UserError: a message has no stamp, or a compressed one cannot be decoded.
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
