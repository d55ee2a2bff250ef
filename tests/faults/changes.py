"""Changes of a robot's messages, for faults of sensors."""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from pixelgait.robot.ros.common import ros2
from tests.faults.trial import Trial

HIP = 1  # the joint that fails: the second
Change = Callable[[Any], Any]


def on(sensor: str, change: Change) -> Callable[[Trial], None]:
    """Fault: all messages of a sensor are changed."""
    return lambda trial: trial.alter(**{sensor: change})


def each(values: str, function: Callable[[np.ndarray[Any, Any]], Any]) -> Change:
    """Apply a function to the positions or velocities of all joints."""

    def change(message: Any) -> Any:
        setattr(message, values, np.asarray(function(np.array(getattr(message, values)))).tolist())
        return message

    return change


def one(values: str, function: Callable[[float], float]) -> Change:
    """Apply a function to the position or velocity of one joint."""

    def of_all(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        array[HIP] = function(float(array[HIP]))
        return array

    return each(values, of_all)


def degrees(message: Any) -> Any:
    return each("velocity", np.degrees)(each("position", np.degrees)(message))


def assign(**values: Any) -> Change:
    """Assign values to fields of a message, by dotted names with `__` for the dot."""

    def change(message: Any) -> Any:
        for name, value in values.items():
            *path, last = name.split("__")
            part = message
            for step in path:
                part = getattr(part, step)
            setattr(part, last, value)
        return message

    return change


def shifted(seconds: float) -> Change:
    """Shift the time stamp."""

    def change(message: Any) -> Any:
        stamp = ros2.nanoseconds(message.header.stamp) + round(seconds * 1e9)
        message.header.stamp = ros2.stamp(stamp)
        return message

    return change


def silent(_: Any) -> None:
    """Drop the message."""


def for_a_while(sensor: str, change: Change, seconds: float) -> Callable[[Trial], None]:
    def inject(trial: Trial) -> None:
        until = time.monotonic() + seconds
        trial.alter(**{sensor: lambda m: change(m) if time.monotonic() < until else m})

    return inject


def once(sensor: str, change: Change) -> Callable[[Trial], None]:
    """Fault of three messages: a control step reads one of them."""
    return for_a_while(sensor, change, 0.012)


def frozen(*names: str) -> Change:
    """Repeat values of the first message, with new stamps."""
    first: Any = None

    def change(message: Any) -> Any:
        nonlocal first
        first = message if first is None else first
        for name in names:
            setattr(message, name, getattr(first, name))
        return message

    return change


def repeated_stamp(trial: Trial, sensor: str) -> None:
    first: Any = None

    def change(message: Any) -> Any:
        nonlocal first
        first = message.header.stamp if first is None else first
        message.header.stamp = first
        return message

    trial.alter(**{sensor: change})


def drifting(trial: Trial, sensor: str) -> None:
    began = time.monotonic()
    trial.alter(**{sensor: lambda m: shifted(-0.2 * (time.monotonic() - began))(m)})


def every(count: int, change: Change = lambda message: message) -> Change:
    """Pass every so manyth message, changed."""
    numbers = itertools.count()
    return lambda message: change(message) if next(numbers) % count == 0 else None


def spikes(message: Any) -> Any:
    rng = np.random.default_rng()
    if rng.random() < 0.5:
        message.position[HIP] += rng.uniform(0.7, 1.0)
    return message


def shuffled(message: Any) -> Any:
    for name in ("name", "position", "velocity"):
        setattr(message, name, list(getattr(message, name))[::-1])
    return message


def renamed(one: int, two: int) -> Change:
    """Two joints have each other's name."""

    def change(message: Any) -> Any:
        names = list(message.name)
        names[one], names[two] = names[two], names[one]
        message.name = names
        return message

    return change


def with_gripper(message: Any) -> Any:
    message.name = [*message.name, "gripper"]
    message.position = [*message.position, 7.0]
    message.velocity = [*message.velocity, 0.0]
    return message


def flipped(message: Any) -> Any:
    flip = next(_FLIPS) % 2
    q = message.orientation
    if flip:
        q.x, q.y, q.z, q.w = -q.x, -q.y, -q.z, -q.w
    return message


_FLIPS = itertools.count()


def stuck(message: Any) -> Any:
    """One joint repeats its position, without a velocity."""
    message.position[HIP], message.velocity[HIP] = 1.0, 0.0
    return message


def depth(function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
    """Apply a function to a depth image (H, W) [m] of encoding 32FC1."""

    def change(message: Any) -> Any:
        before = np.frombuffer(message.data, np.float32).reshape(message.height, message.width)
        stamp = ros2.nanoseconds(message.header.stamp)
        return ros2.image_message(stamp, message.header.frame_id, function(before))

    return change


def turning_with(**changes: Change) -> Callable[[Trial], None]:
    """Fault: the robot turns left and right, and messages of sensors are changed."""

    def inject(trial: Trial) -> None:
        trial.alter(**changes)
        trial.driver.turns = True

    return inject


def colours(function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
    """Apply a function to a colour image (H, W, 3) of encoding rgb8."""

    def change(message: Any) -> Any:
        before = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)
        _fill(message, function(before))
        return message

    return change


def _fill(message: Any, pixels: np.ndarray[Any, Any]) -> None:
    """Replace an image's pixels; as an array, which is not checked byte by byte."""
    message.data = array("B", pixels.tobytes())


def mirrored(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(pixels[:, ::-1])


def upside_down(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(pixels[::-1, ::-1])


def frozen_but_for_noise(deviation: float) -> Callable[[Any], Any]:
    """The first picture again and again, with new noise."""
    rng, first = np.random.default_rng(0), None

    def change(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        nonlocal first
        first = pixels if first is None else first
        noisy = first + rng.normal(0.0, deviation, first.shape)
        return np.asarray(np.clip(noisy, 0.0, 255.0).astype(first.dtype))

    return change


def in_encoding(encoding: str) -> Change:
    """The same picture in another encoding: bgra8 of colours, 16UC1 or mono16 of depth."""

    def change(message: Any) -> Any:
        depth = message.encoding == "32FC1"
        if depth:
            metres = np.frombuffer(message.data, np.float32)
            pixels: Any = (1000.0 * metres).clip(0.0, 65534.0).astype(np.uint16)
        else:
            colours = np.frombuffer(message.data, np.uint8).reshape(-1, 3)
            pixels = np.insert(colours[:, ::-1], 3, 255, axis=1)
        message.encoding, message.step = encoding, pixels.nbytes // message.height
        _fill(message, pixels)
        return message

    return change


def with_65535(message: Any) -> Any:
    """16UC1, in which a third of the blocks of 4 x 4 pixels is 65535."""
    message = in_encoding("16UC1")(message)
    pixels = np.frombuffer(message.data, np.uint16).reshape(message.height, message.width)
    holes = np.random.default_rng().random((message.height // 4, message.width // 4)) < 0.3
    holes = np.kron(holes, np.ones((4, 4), bool))
    _fill(message, np.where(holes, np.uint16(65535), pixels))
    return message


def blind(metres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.full_like(metres, np.nan)


def blind_inside(metres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Twice as wide; only the parts left and right of the policy's view have depth."""
    width = metres.shape[1]
    nothing = blind(metres)
    return np.hstack((metres[:, : width // 2], nothing, metres[:, width // 2 :]))


def half_blind(metres: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A random half of the pixels is NaN."""
    return np.where(np.random.default_rng().random(metres.shape) < 0.5, np.float32(np.nan), metres)
