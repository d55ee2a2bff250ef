"""Reading a recording back: the inputs of every step, bit for bit, and what came of them."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.recording.messages import IMU, JOINTS, SEEN, STEP
from pixelgait.robot.runtime.operation import Goal, Inputs, Orders
from pixelgait.robot.spec import Array
from pixelgait.robot.supervisor import Patience


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A control step, as it was."""

    inputs: Inputs
    session: int  # the controller began anew with each
    settings: dict[str, Any]
    patience: dict[str, Patience]
    targets: Array
    kp: Array
    kd: Array
    state: str
    cause: str  # of the state
    fault: str | None
    looked: bool  # anew
    took_us: float  # from the step's begin until the command was out


@dataclass
class Recording:
    """All steps of a file, the bundle's files, and what else was said of it."""

    path: Path
    steps: list[RecordedStep] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    complete: bool = True  # or its writer was killed


def read_recording(path: Path) -> Recording:
    """A recording, also one that was cut short.

    Raises:
        UserError: it is none.
    """
    recording = Recording(path)
    messages: dict[str, Any] = {}  # of the step that is being read, by topic
    image: Image | None = None
    try:
        for topic, content in _records(recording):
            if topic != STEP:
                messages[topic] = content
                continue
            step = json.loads(content)
            if SEEN in messages:
                image = _image(messages[SEEN], step["image_time_s"])
            recording.steps.append(_step(step, messages, image))
            messages = {}
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: no recording of pixelgait-run ({error!r})") from None
    if not recording.steps:
        raise UserError(f"{path}: no recording of pixelgait-run, or an empty one")
    return recording


def _records(recording: Recording) -> Iterator[tuple[str, Any]]:
    """(topic, decoded message) in the order of the file; keeps attachments and metadata."""
    from mcap.exceptions import McapError
    from mcap.records import Attachment, Channel, DataEnd, Message, Metadata, Schema
    from mcap.stream_reader import StreamReader
    from mcap_ros2.decoder import DecoderFactory

    factory = DecoderFactory()
    schemas: dict[int, Schema] = {}
    channels: dict[int, tuple[str, Any]] = {}
    recording.complete = False
    try:
        with recording.path.open("rb") as file:
            for record in StreamReader(file).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and record.id not in channels:
                    decode = factory.decoder_for(record.message_encoding, schemas[record.schema_id])
                    channels[record.id] = record.topic, decode or bytes
                elif isinstance(record, Message):
                    topic, decode = channels[record.channel_id]
                    yield topic, decode(record.data)
                elif isinstance(record, Attachment):
                    recording.files[record.name] = record.data
                elif isinstance(record, Metadata):
                    recording.about.update(record.metadata)
                elif isinstance(record, DataEnd):
                    recording.complete = True
                    return
    except OSError as error:
        raise UserError(f"{recording.path}: {error.strerror}") from None
    except (McapError, EOFError, struct.error):  # cut short: what came before counts
        return


def _step(step: dict[str, Any], messages: dict[str, Any], image: Image | None) -> RecordedStep:
    joints, imu = messages[JOINTS], messages[IMU]
    q, w = imu.orientation, imu.angular_velocity
    reading = Reading(
        step["time_s"],
        np.array(joints.position),
        np.array(joints.velocity),
        np.array((q.x, q.y, q.z, q.w)),
        np.array((w.x, w.y, w.z)),
        partial(_seen, image),
        None if step["odometry"] is None else np.array(step["odometry"]),
    )
    ages = {k: math.inf if v is None else v for k, v in step["ages_s"].items()}
    where = step["destination"] and tuple(step["destination"])
    orders = Orders(step["armed"], Goal(step["goal"]), step["stop"], where)
    latent = None if step["latent"] is None else np.array(step["latent"])
    return RecordedStep(
        Inputs(reading, ages, orders, step["gap_s"], latent),
        step["session"],
        step["settings"],
        {name: Patience(*ages) for name, ages in step["settings"]["patience"].items()},
        np.array(step["targets"]),
        np.array(step["kp"]),
        np.array(step["kd"]),
        step["state"],
        step["cause"],
        step["fault"],
        step["image_time_s"] is not None,
        step["took_us"],
    )


def _image(message: Any, time_s: float) -> Image:
    pixels = np.frombuffer(message.data, np.uint8)
    return Image(pixels.reshape(message.height, message.width, -1), time_s)


def _seen(image: Image | None) -> Image:
    if image is None:
        raise UserError("nothing had been looked at so far in this recording")
    return image
