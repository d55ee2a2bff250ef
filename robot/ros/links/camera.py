"""Camera topics of a link, raw or compressed."""

from __future__ import annotations

from functools import partial
from typing import Any

from pixelgait.robot.control.image_decoding import decompressed, image_of
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.links.topic_driver import Form, NewestMessages
from pixelgait.robot.runtime.camera_images import camera_topics

# Suffixes of a topic's compressed forms (image_transport), the preferred one first.
COMPRESSED = {ros2.COLOUR: ("compressed",), ros2.DEPTH: ("compressedDepth", "compressed")}


def raw_image(topic: str, message: Any) -> Any:
    """The image of a CompressedImage on a topic of colours or depth; raises as `decompressed`."""
    return image_of(decompressed(message, topic == ros2.DEPTH), message.header)


def forms(topic: str) -> list[Form]:
    """Compressed forms of an image topic."""
    convert = partial(raw_image, topic)
    return [Form(suffix, ros2.CompressedImage, convert) for suffix in COMPRESSED[topic]]


def camera_messages(node: Any, image_shape: tuple[int, int, int]) -> NewestMessages:
    """Messages for a `Camera`: a topic without a publisher is taken in its compressed form."""
    topics = camera_topics(image_shape)
    types = dict.fromkeys(topics, ros2.Image)
    return NewestMessages(node, types, {name: forms(name) for name in topics})
