"""Images of a camera's messages: colour, depth or both, cropped and resized for the policy.

A sensor_msgs/Image is cropped to its middle, which keeps pixels square, and resized to the policy's
image shape. A policy trained on a square view sees the middle of a wide one. Messages need only the
fields of sensor_msgs/Image: no ROS 2 is imported, so that recordings can be played without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.image_decoding import colour_pixels, depth_samples
from pixelgait.robot.control.observation import (
    DEPTH_SAMPLES,
    ENCODINGS,
    LENS_M,
    THIN_PER_M,
    THIN_SAMPLES,
    fill_holes,
    rgb,
    rgbd,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.robot.runtime.newest import NANOSECONDS, stamp_ns

TOPICS = {"rgb8": (COLOUR,), "depth": (DEPTH,), "rgbd": (COLOUR, DEPTH)}
APART_NS = NANOSECONDS // 30  # between colour and depth of an image: a frame at 30 Hz
EMPTY_DEPTH = "measures nothing, all its pixels are 0, 65535 or NaN"


def camera_topics(image_shape: tuple[int, int, int]) -> tuple[str, ...]:
    """The image topics of a policy whose images have this shape (H, W, C)."""
    return TOPICS[ENCODINGS[image_shape[2]]]


class CameraImages:
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
            self._image = Image(pixels, min(map(stamp_ns, self._complete.values())) / 1e9)
        elif self._image is None:
            raise UserError(f"{DEPTH} {EMPTY_DEPTH}")
        return self._image

    def _pixels(self) -> NDArray[Any] | None:
        """Pixels of the newest image, see `Image`; None if its depth has no measurement."""
        height, width, _ = self.image_shape
        parts = [CONVERSIONS[topic](self._complete[topic], height, width) for topic in self.topics]
        if parts[-1] is None:
            return None
        return rgbd(*parts) if len(parts) == 2 else parts[0]


def _apart_ns(messages: dict[str, Any]) -> int:
    """Difference between the newest and the oldest stamp [ns]."""
    stamps = [stamp_ns(message) for message in messages.values()]
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


CONVERSIONS: dict[str, Callable[[Any, int, int], Any]] = {
    COLOUR: rgb_frame,
    DEPTH: depth_frame,
}
