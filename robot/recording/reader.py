"""Reader of recordings: inputs of every control step, bit for bit, and their results."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.recording.messages import (
    IMU,
    JOINTS,
    LOCAL_MAP,
    SEEN,
    SEEN_DEPTH,
    STATE,
    STEP,
    TYPES,
)
from pixelgait.robot.runtime.state_machine import Inputs, OperatorCommands, RobotState
from pixelgait.robot.safety.supervisor import SensorTimeouts
from pixelgait.robot.spec import Array


class DamagedError(Exception):
    """The bytes of a recording are corrupt."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A control step as it was recorded."""

    inputs: Inputs
    session: int  # the controller was reset at the start of each
    driver_timeout_s: float
    motors_enabled: bool  # otherwise joints need not follow
    sensor_timeouts: dict[str, SensorTimeouts]
    targets: Array
    kp: Array
    kd: Array
    state: str
    cause: str  # of the state
    fault: str | None
    decided: bool  # an image was processed
    took_us: float  # from fetching the readings to sending the command
    sent: bool  # otherwise withheld: the driver had timed out, and damping was sent
    lost: int = 0  # missing steps right before it
    local_map: NDArray[np.uint8] | None = None  # a picture (H, W, 3), where there is a new one


@dataclass
class Recording:
    """All steps of a file, the files of its bundle, and metadata."""

    path: Path
    steps: list[RecordedStep] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    finished: bool = True  # otherwise the writer was killed
    damaged: bool = False  # after the last of these steps
    joint_names: tuple[str, ...] = ()
    endings: dict[int, str] = field(default_factory=dict)  # by session: state and cause

    @property
    def lost(self) -> int:
        """Number of missing steps."""
        return sum(step.lost for step in self.steps)

    @property
    def complete(self) -> bool:
        """Whether the file was finished and no step is missing."""
        return self.finished and not self.lost


def read_recording(path: Path) -> Recording:
    """Read a recording; of a truncated or damaged one the part before the damage.

    Raises:
        UserError: if the file is no recording, or damaged from the beginning.
    """
    recording = Recording(path)
    messages: dict[str, Any] = {}  # of the current step, by topic
    image: Image | None = None
    expected = 0  # number of the next step
    try:
        for topic, content, number in _records(recording):
            if topic == STATE and JOINTS not in messages and recording.steps:
                recording.endings[recording.steps[-1].session] = content.data
                continue
            if topic != STEP:
                messages[topic] = content
                continue
            if SEEN in messages:
                image = _image(messages, content.image_time_s)
            recording.joint_names = tuple(messages[JOINTS].name)
            step = _step(content, messages, image)
            if LOCAL_MAP in messages:
                step = replace(step, local_map=_pixels(messages[LOCAL_MAP]))
            recording.steps.append(replace(step, lost=max(0, number - expected)))
            messages, expected = {}, number + 1
    except DamagedError:
        recording.damaged = True
        if not recording.steps:
            raise UserError(f"{path}: the recording is damaged from the beginning") from None
    except AttributeError as error:  # a message lacks a field
        raise UserError(f"{path}: recorded by another version ({error}). Record it anew") from None
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: no recording of pixelgait-run ({error!r})") from None
    if not recording.steps:
        raise UserError(f"{path}: no recording of pixelgait-run, or an empty one")
    return recording


def is_other_bag(path: Path) -> bool:
    """Whether an MCAP file is readable, and its first topic is none of `TYPES`."""
    from mcap.records import Channel
    from mcap.stream_reader import StreamReader

    try:
        with path.open("rb") as file:
            records = StreamReader(file).records
            topic = next(record.topic for record in records if isinstance(record, Channel))
    except Exception:  # missing, damaged, empty: `read_recording` says what it is
        return False
    return topic not in TYPES


def _records(recording: Recording) -> Iterator[tuple[str, Any, int]]:
    """(topic, decoded message, step number) in file order. Stores attachments and metadata.

    Raises:
        DamagedError: if the following bytes are corrupt.
    """
    from mcap.exceptions import McapError
    from mcap.records import Attachment, Channel, DataEnd, Message, Metadata, Schema
    from mcap.stream_reader import CRCValidationError, StreamReader
    from mcap_ros2.decoder import DecoderFactory
    from zstandard import ZstdError

    factory = DecoderFactory()
    schemas: dict[int, Schema] = {}
    channels: dict[int, tuple[str, Any]] = {}
    recording.finished = False
    try:
        with recording.path.open("rb") as file:
            for record in StreamReader(file, validate_crcs=True).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and record.id not in channels:
                    decode = factory.decoder_for(record.message_encoding, schemas[record.schema_id])
                    if decode is None:
                        raise UserError(_other_encoding(recording.path, record))
                    channels[record.id] = record.topic, decode
                elif isinstance(record, Message):
                    topic, decode = channels[record.channel_id]
                    yield topic, decode(record.data), record.sequence
                elif isinstance(record, Attachment):
                    recording.files[record.name] = record.data
                elif isinstance(record, Metadata):
                    recording.about.update(record.metadata)
                elif isinstance(record, DataEnd):
                    recording.finished = True
                    return
    except OSError as error:
        raise UserError(f"{recording.path}: {error.strerror}") from None
    except (McapError, EOFError, struct.error):  # truncated: the records before count
        return
    except (CRCValidationError, ZstdError, OverflowError, MemoryError, UnicodeError) as error:
        raise DamagedError from error


def _other_encoding(path: Path, channel: Any) -> str:
    topic = f"{path}: topic {channel.topic} is {channel.message_encoding or 'of no encoding'}"
    return f"{topic}, expected cdr: recorded by an older version? Record it anew"


def _step(step: Any, messages: dict[str, Any], image: Image | None) -> RecordedStep:
    joints, imu = messages[JOINTS], messages[IMU]
    q, w, f = imu.orientation, imu.angular_velocity, imu.linear_acceleration
    measured = imu.linear_acceleration_covariance[0] >= 0.0  # REP 145
    reading = Reading(
        step.time_s,
        np.array(joints.position),
        np.array(joints.velocity),
        np.array((q.x, q.y, q.z, q.w)),
        np.array((w.x, w.y, w.z)),
        partial(_require_image, image),
        np.array(step.odometry) if len(step.odometry) else None,
        getattr(step, "lies", False),  # False: recordings before it was told
        height_scan=np.array(scan) if len(scan := getattr(step, "height_scan", ())) else None,
        specific_force=np.array((f.x, f.y, f.z)) if measured else None,
    )
    where = (step.goal_position[0], step.goal_position[1]) if len(step.goal_position) else None
    wanted, stop = RobotState(step.wanted), step.stop or None
    commands = OperatorCommands(step.armed, wanted, stop, where, step.goal_number)
    latent = np.array(step.latent) if len(step.latent) else None
    sensor_timeouts = {
        p.sensor: SensorTimeouts(p.ageing_s, p.stale_s, p.dead_s) for p in step.sensor_timeouts
    }
    free_m = getattr(step, "free_m", math.inf)  # recordings before there was a guard
    ages = {a.sensor: a.age_s for a in step.ages}
    return RecordedStep(
        Inputs(reading, ages, commands, step.gap_s, latent, free_m),
        session=step.session,
        driver_timeout_s=step.driver_timeout_s,
        motors_enabled=step.motors_enabled,
        sensor_timeouts=sensor_timeouts,
        targets=np.array(step.targets),
        kp=np.array(step.kp),
        kd=np.array(step.kd),
        state=step.state,
        cause=step.cause,
        fault=step.fault or None,
        decided=not math.isnan(step.image_time_s),
        took_us=step.took_us,
        sent=step.sent,
    )


def _image(messages: dict[str, Any], time_s: float) -> Image:
    """The image (H, W, C) of a step, of one message or of colours and depth."""
    parts = [_pixels(messages[topic]) for topic in (SEEN, SEEN_DEPTH) if topic in messages]
    return Image(np.concatenate(parts, axis=2), time_s)


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Pixels (H, W, C) of an image message."""
    return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, -1)


def _require_image(image: Image | None) -> Image:
    if image is None:
        raise UserError("no image was processed before this step of the recording")
    return image
