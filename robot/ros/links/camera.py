"""A policy's camera behind ROS 2 topics: colour, depth, or both at once.

Messages (sensor_msgs/Image) become what the policy's own camera would have given: cropped to the
middle and resized. Cropping keeps pixels square: a policy trained on a square view sees the middle
of a wide one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import (
    DEPTH_SAMPLES,
    ENCODINGS,
    fill_holes,
    middle,
    rgb,
    rgbd,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_driver import Inbox
from pixelgait.robot.safety.sensor_age import Freshness, PictureWatch
from pixelgait.robot.spec import Array

TOPICS = {"rgb8": (ros2.COLOUR,), "depth": (ros2.DEPTH,), "rgbd": (ros2.COLOUR, ros2.DEPTH)}
APART_NS = ros2.NANOSECONDS // 30  # colour and depth of an image: a frame of a 30 Hz camera
COLOURS = {"rgb8": None, "bgr8": cv2.COLOR_BGR2RGB, "mono8": cv2.COLOR_GRAY2RGB}
BLIND = "measures nothing, all its pixels are 0 or NaN"
DEPTHS = {"32FC1": ("f4", 1), "16UC1": ("u2", 1000)}  # REP 118: type, units per metre


def camera_topics(image_shape: tuple[int, int, int]) -> tuple[str, ...]:
    """What a policy with images of this shape (H, W, C) subscribes."""
    return TOPICS[ENCODINGS[image_shape[2]]]


class RosCamera:
    """Keeps the newest messages that make an image together, and converts them when asked.

    Colour and depth belong together if their stamps are at most `APART_NS` apart. A message that
    fits no other changes nothing: the last image stays, with its old stamp.
    """

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        self.image_shape = image_shape
        self.topics = camera_topics(image_shape)
        self.forget()

    def forget(self) -> None:
        """Drop all messages."""
        self._newest: dict[str, Any] = {}
        self._together: dict[str, Any] = {}
        self._image: Image | None = None

    @property
    def apart_ns(self) -> int | None:
        """How far the stamps of newest parts are apart, none of which came to be in an image.

        One that did waits for the next one's other half, as always.
        """
        newest, together = dict(self._newest), self._together
        if any(newest.get(topic) is together.get(topic) for topic in self.topics):
            return None
        return _apart_ns(newest)

    def put(self, topic: str, message: Any) -> bool:
        """Keep a message; whether it completes an image."""
        self._newest[topic] = message
        if len(self._newest) < len(self.topics) or _apart_ns(self._newest) > APART_NS:
            return False
        self._together = dict(self._newest)
        return True

    def image(self) -> Image:
        """The newest image, as old as the older of its parts.

        A depth image without a single measurement shows nothing: the last image stays.

        Raises:
            UserError: an encoding is not supported, a message is cut short, the first depth image
                already shows nothing, or none was fresh so far.
        """
        if not self._together:
            raise UserError(f"no fresh image on {' and '.join(self.topics)} so far")
        pixels = self._pixels()
        if pixels is not None:
            self._image = Image(pixels, min(_stamps(self._together)) / 1e9)
        elif self._image is None:
            raise UserError(f"{ros2.DEPTH} {BLIND}")
        return self._image

    def _pixels(self) -> NDArray[Any] | None:
        """The pixels of the newest image, see `Image`; None if its depth shows nothing."""
        height, width, _ = self.image_shape
        parts = [CONVERSIONS[topic](self._together[topic], height, width) for topic in self.topics]
        if parts[-1] is None:
            return None
        return rgbd(*parts) if len(parts) == 2 else parts[0]


def _stamps(messages: dict[str, Any]) -> list[int]:
    """Of messages [ns]."""
    return [ros2.nanoseconds(message.header.stamp) for message in messages.values()]


def _apart_ns(messages: dict[str, Any]) -> int:
    """How far the stamps of messages are apart."""
    stamps = _stamps(messages)
    return max(stamps) - min(stamps)


def rgb_frame(message: Any, height: int, width: int) -> NDArray[np.uint8]:
    """Colours (height, width, 3).

    Raises:
        UserError: the encoding is not one of `COLOURS`, or the message is cut short.
    """
    _check_encoding("camera", message, COLOURS)
    pixels = _pixels(message, np.dtype(np.uint8), 1 if message.encoding == "mono8" else 3)
    return rgb(pixels, COLOURS[message.encoding], height, width)


def depth_frame(message: Any, height: int, width: int) -> NDArray[np.float32] | None:
    """Depth (height, width) [m], inf where nothing is in range; None if no pixel was measured.

    Values follow REP 118 and 117: a stereo camera could not match a pixel that is NaN or 0,
    -inf is too near to measure, inf beyond range.

    Raises:
        UserError: the encoding is not one of `DEPTHS`, or the message is cut short.
    """
    depth = _depth_samples(message, height, width)
    if np.isnan(depth).all():
        return None
    metres = fill_holes(_median(depth)).clip(min=0.0) / DEPTHS[message.encoding][1]
    return np.asarray(metres, dtype=np.float32)


def blind(message: Any, height: int, width: int) -> bool:
    """Whether a depth image measures nothing at all where a policy looks.

    Not of what is none: `depth_frame` says why.
    """
    try:
        return bool(np.isnan(_depth_samples(message, height, width)).all())
    except UserError:
        return False


def _depth_samples(message: Any, height: int, width: int) -> NDArray[np.float32]:
    """Samples (height, width, 9) of a depth image, in its own unit; NaN where none was measured.

    Raises:
        UserError: see `depth_frame`.
    """
    _check_encoding("depth camera", message, DEPTHS)
    kind, _ = DEPTHS[message.encoding]
    order = ">" if message.is_bigendian else "<"
    pixels = middle(_pixels(message, np.dtype(order + kind), 1)[..., 0], height, width)
    depth = _cells(pixels, height, width).astype(np.float32)
    depth[(depth <= 0.0) & np.isfinite(depth)] = np.nan
    return depth


def _check_encoding(camera: str, message: Any, known: dict[str, Any]) -> None:
    if message.encoding not in known:
        names = ", ".join(known)
        raise UserError(f"{camera} encoding '{message.encoding}' is not supported, need {names}")


def _pixels(message: Any, kind: np.dtype[Any], channels: int) -> NDArray[Any]:
    """The message's pixels (H, W, channels)."""
    data, row = np.frombuffer(message.data, np.uint8), message.width * channels * kind.itemsize
    size = message.height * message.step
    if not (0 < size <= data.size and 0 < row <= message.step):
        raise UserError(f"camera image is cut short: {data.size} bytes, step {message.step}")
    rows = np.ascontiguousarray(data[:size].reshape(message.height, message.step)[:, :row])
    return rows.view(kind).reshape(message.height, message.width, channels)


def _cells(pixels: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Evenly spread samples (height, width, 9) of every cell that becomes one pixel.

    Of 480 x 480 pixels the medians of whole cells take 1.7 ms, of nine samples 0.2 ms.
    """
    rows, columns = (
        ((np.arange(DEPTH_SAMPLES * wanted) + 0.5) * there / (DEPTH_SAMPLES * wanted)).astype(int)
        for wanted, there in zip((height, width), pixels.shape, strict=True)
    )
    samples = pixels[np.ix_(rows, columns)].reshape(height, DEPTH_SAMPLES, width, DEPTH_SAMPLES)
    return samples.swapaxes(1, 2).reshape(height, width, DEPTH_SAMPLES * DEPTH_SAMPLES)


def _median(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The lower median (H, W) of samples (H, W, n) that are not NaN; NaN where all are.

    A depth that was measured, as in RealSense's decimation filter: a mean across an edge would lie
    between its sides, where nothing is. Simulated cameras, with which policies are trained, have
    one ray per pixel and no mixtures.
    """
    ranked = np.sort(samples, axis=-1)  # NaN last
    measured = (~np.isnan(samples)).sum(-1, keepdims=True)
    middle = np.take_along_axis(ranked, np.maximum(measured - 1, 0) // 2, -1)
    return np.asarray(middle[..., 0])


CONVERSIONS: dict[str, Callable[[Any, int, int], Any]] = {
    ros2.COLOUR: rgb_frame,
    ros2.DEPTH: depth_frame,
}


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
