"""Decoding of image messages: encodings of sensor_msgs/Image, and sensor_msgs/CompressedImage.

Encodings without an order of colours (8UC3, 8UC4) are in OpenCV's, as in cv_bridge, RViz and
Foxglove: blue first. A CompressedImage is as image_transport's plugins write it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.observation import DEPTH_SAMPLES, middle
from pixelgait.robot.errors import UserError

# By encoding: channels, and OpenCV's code of the conversion to RGB. In the four of YUV 4:2:2 two
# pixels share their colour.
COLOURS: Mapping[str, tuple[int, int | None]] = {
    "rgb8": (3, None),
    "bgr8": (3, cv2.COLOR_BGR2RGB),
    "mono8": (1, cv2.COLOR_GRAY2RGB),
    "rgba8": (4, cv2.COLOR_RGBA2RGB),
    "bgra8": (4, cv2.COLOR_BGRA2RGB),
    "8UC1": (1, cv2.COLOR_GRAY2RGB),
    "8UC3": (3, cv2.COLOR_BGR2RGB),
    "8UC4": (4, cv2.COLOR_BGRA2RGB),
    "yuv422": (2, cv2.COLOR_YUV2RGB_UYVY),
    "uyvy": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422_yuy2": (2, cv2.COLOR_YUV2RGB_YUYV),
    "yuyv": (2, cv2.COLOR_YUV2RGB_YUYV),
}
SHARED = 2  # channels of YUV 4:2:2
LUMINANCE = {"yuv422": 1, "uyvy": 1, "yuv422_yuy2": 0, "yuyv": 0}  # channel of these
# REP 118: type, units per metre. Some drivers call 16 bits of depth mono16.
DEPTHS: Mapping[str, tuple[str, int]] = {
    "32FC1": ("f4", 1),
    "16UC1": ("u2", 1000),
    "mono16": ("u2", 1000),
}
NO_READING_MM = 65535  # of some drivers, instead of REP 118's 0
PNG = b"\x89PNG"
CONFIG = struct.Struct("<iff")  # of compressedDepth, before the PNG: format, a, b


def colour_pixels(message: Any) -> tuple[NDArray[np.uint8], int | None]:
    """Pixels (H, W, C) of a colour image, and OpenCV's code of their conversion to RGB.

    Raises:
        UserError: the encoding is not one of `COLOURS`, or the message is cut short.
    """
    _check_encoding("camera", message, COLOURS)
    channels, conversion = COLOURS[message.encoding]
    pixels = _pixels(message, np.dtype(np.uint8), channels)
    if channels != SHARED:
        return pixels, conversion
    assert conversion is not None
    pairs = np.ascontiguousarray(pixels[:, : message.width // 2 * 2])
    return np.asarray(cv2.cvtColor(pairs, conversion), dtype=np.uint8), None


def brightness(message: Any, height: int, width: int) -> NDArray[np.float32]:
    """Brightness (height, width), 0 to 1, of the middle of a colour image, from few of its pixels.

    Raises:
        UserError: see `colour_pixels`.
    """
    _check_encoding("camera", message, COLOURS)
    channels, _ = COLOURS[message.encoding]
    pixels = middle(_pixels(message, np.dtype(np.uint8), channels), height, width)
    stride = max(1, min(len(pixels) // height, pixels.shape[1] // width) // 3)
    channel = LUMINANCE.get(message.encoding, channels // 2)  # of other colours the green one
    few = np.ascontiguousarray(pixels[::stride, ::stride, min(channel, 1)])
    few = cv2.resize(few, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(few, dtype=np.float32) / np.float32(255.0)


def depth_samples(message: Any, height: int, width: int) -> NDArray[np.float32]:
    """Samples (height, width, 9) of the middle of a depth image [m], NaN where not measured.

    Raises:
        UserError: the encoding is not one of `DEPTHS`, or the message is cut short.
    """
    return depth_part(message, lambda pixels: _cells(middle(pixels, height, width), height, width))


def depth_part(message: Any, part: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float32]:
    """A part, such as every third pixel, of a depth image (H, W) [m]; NaN where not measured.

    Raises:
        UserError: see `depth_samples`.
    """
    _check_encoding("depth camera", message, DEPTHS)
    kind, per_metre = DEPTHS[message.encoding]
    order = ">" if message.is_bigendian else "<"
    depth = part(_pixels(message, np.dtype(order + kind), 1)[..., 0]).astype(np.float32)
    depth[(depth <= 0.0) & np.isfinite(depth)] = np.nan
    if kind == "u2":
        depth[depth == NO_READING_MM] = np.nan
    return np.asarray(depth / np.float32(per_metre), dtype=np.float32)


def _check_encoding(camera: str, message: Any, known: Mapping[str, Any]) -> None:
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

    With 480 x 480 pixels the medians take 1.7 ms over whole cells, 0.2 ms over nine samples.
    """
    rows, columns = (
        ((np.arange(DEPTH_SAMPLES * wanted) + 0.5) * there / (DEPTH_SAMPLES * wanted)).astype(int)
        for wanted, there in zip((height, width), pixels.shape, strict=True)
    )
    samples = pixels[np.ix_(rows, columns)].reshape(height, DEPTH_SAMPLES, width, DEPTH_SAMPLES)
    return samples.swapaxes(1, 2).reshape(height, width, DEPTH_SAMPLES * DEPTH_SAMPLES)


def decompressed(message: Any, depth: bool) -> NDArray[Any]:
    """Pixels of a CompressedImage: colours (H, W, 3), blue first, of JPEG or PNG; depth (H, W).

    Depth is uint16 [mm] of a PNG with 16 bits, or float32 [m] of one of compressedDepth, which
    keeps 32FC1 as steps of inverse depth: depth is a / (step - b), and step 0 is not measured.

    Raises:
        UserError: it cannot be decoded, or has no 16 bits of depth.
    """
    if not depth:
        return _decoded(message, message.data, cv2.IMREAD_COLOR)
    data = bytes(message.data)
    begin = data.find(PNG, 0, CONFIG.size + len(PNG))
    if begin < 0:
        raise UserError(f"depth compressed as '{message.format}' is not supported, need png")
    steps = _decoded(message, data[begin:], cv2.IMREAD_UNCHANGED)
    if steps.dtype != np.uint16 or steps.ndim != 2:
        raise UserError(f"depth compressed as '{message.format}' has no 16 bits a pixel")
    if begin != CONFIG.size or not message.format.lstrip().startswith("32FC1"):
        return steps
    _, a, b = CONFIG.unpack_from(data)
    with np.errstate(divide="ignore", invalid="ignore"):
        metres = np.float32(a) / (steps.astype(np.float32) - np.float32(b))
    return np.where(steps == 0, np.float32(np.nan), metres).astype(np.float32)


def image_of(pixels: NDArray[Any], header: Any) -> Any:
    """A message of colours (H, W, 3) blue first, or of depth (H, W) uint16 [mm] or float32 [m]."""
    encoding = "bgr8" if pixels.ndim == 3 else "16UC1" if pixels.dtype == np.uint16 else "32FC1"
    height, width = pixels.shape[:2]
    size = {"height": height, "width": width, "step": pixels.nbytes // height}
    data = np.ascontiguousarray(pixels).view(np.uint8).ravel()
    return SimpleNamespace(header=header, **size, encoding=encoding, is_bigendian=0, data=data)


def _decoded(message: Any, data: Any, flags: int) -> NDArray[Any]:
    """The pixels of a file in memory, as it is turned: no camera's lens turns with its EXIF."""
    raw = np.frombuffer(data, np.uint8)
    try:
        pixels = cv2.imdecode(raw, flags | cv2.IMREAD_IGNORE_ORIENTATION) if raw.size else None
    except cv2.error:
        pixels = None
    if pixels is None:
        raise UserError(f"camera image compressed as '{message.format}' cannot be decoded")
    return np.asarray(pixels)
