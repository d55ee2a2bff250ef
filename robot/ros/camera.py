"""A policy's camera behind ROS 2 topics: colour, depth, or both at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image
from pixelgait.robot.observation import ENCODINGS, rgbd
from pixelgait.robot.ros import common as ros
from pixelgait.robot.ros.images import depth_frame, rgb_frame

TOPICS = {"rgb8": (ros.COLOUR,), "depth": (ros.DEPTH,), "rgbd": (ros.COLOUR, ros.DEPTH)}
CONVERSIONS: dict[str, Callable[[Any, int, int], Any]] = {
    ros.COLOUR: rgb_frame,
    ros.DEPTH: depth_frame,
}
APART_NS = ros.NANOSECONDS // 30  # colour and depth of an image: a frame of a 30 Hz camera


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

    def put(self, topic: str, message: Any) -> bool:
        """Keep a message; whether it completes an image."""
        self._newest[topic] = message
        if len(self._newest) < len(self.topics):
            return False
        stamps = _stamps(self._newest)
        if max(stamps) - min(stamps) > APART_NS:
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
            raise UserError(f"{ros.DEPTH} measures nothing, all its pixels are 0 or NaN")
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
    return [ros.nanoseconds(message.header.stamp) for message in messages.values()]
