"""Reading a recording back: the inputs of every step, bit for bit, and what came of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, Reading
from pixelgait.robot.recording.messages import IMU, JOINTS, SEEN, STATE, STEP
from pixelgait.robot.runtime.operator_commands import OperatorCommands, RobotState
from pixelgait.robot.runtime.state_machine import Inputs
from pixelgait.robot.safety.supervisor import SensorTimeouts
from pixelgait.robot.spec import Array


class DamagedError(Exception):
    """Bytes of a recording are not those that were written."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A control step, as it was."""

    inputs: Inputs
    session: int  # the controller began anew with each
    driver_timeout_s: float
    motors_enabled: bool  # or nobody did, and joints need not follow
    sensor_timeouts: dict[str, SensorTimeouts]
    targets: Array
    kp: Array
    kd: Array
    state: str
    cause: str  # of the state
    fault: str | None
    looked: bool  # anew
    took_us: float  # from when its readings were fetched until the command was out
    sent: bool  # or withheld, because the robot had been let go
    lost: int = 0  # steps right before it that are not in the file


@dataclass
class Recording:
    """All steps of a file, the bundle's files, and what else was said of it."""

    path: Path
    steps: list[RecordedStep] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    finished: bool = True  # or its writer was killed
    damaged: bool = False  # behind the last of these steps
    joint_names: tuple[str, ...] = ()
    endings: dict[int, str] = field(default_factory=dict)  # by session: state and cause

    @property
    def lost(self) -> int:
        """Steps that are missing between others, or before them."""
        return sum(step.lost for step in self.steps)

    @property
    def complete(self) -> bool:
        """Whether it ends as it should, and no step is missing."""
        return self.finished and not self.lost


def read_recording(path: Path) -> Recording:
    """A recording, also one that was cut short or is damaged: what comes before that.

    Raises:
        UserError: it is none, or damaged from the beginning.
    """
    recording = Recording(path)
    messages: dict[str, Any] = {}  # of the step that is being read, by topic
    image: Image | None = None
    awaited = 0  # number of the next step
    try:
        for topic, content, number in _records(recording):
            if topic == STATE and JOINTS not in messages and recording.steps:
                recording.endings[recording.steps[-1].session] = content.data
                continue
            if topic != STEP:
                messages[topic] = content
                continue
            if SEEN in messages:
                image = _image(messages[SEEN], content.image_time_s)
            recording.joint_names = tuple(messages[JOINTS].name)
            step = _step(content, messages, image)
            recording.steps.append(replace(step, lost=max(0, number - awaited)))
            messages, awaited = {}, number + 1
    except DamagedError:
        recording.damaged = True
        if not recording.steps:
            raise UserError(f"{path}: the recording is damaged from the beginning") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: no recording of pixelgait-run ({error!r})") from None
    if not recording.steps:
        raise UserError(f"{path}: no recording of pixelgait-run, or an empty one")
    return recording


def _records(recording: Recording) -> Iterator[tuple[str, Any, int]]:
    """(topic, decoded message, number of its step) in the order of the file.

    Keeps attachments and metadata.

    Raises:
        DamagedError: behind what was yielded.
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
    except (McapError, EOFError, struct.error):  # cut short: what came before counts
        return
    except (CRCValidationError, ZstdError, OverflowError, MemoryError, UnicodeError) as error:
        raise DamagedError from error


def _other_encoding(path: Path, channel: Any) -> str:
    said = f"{path}: topic {channel.topic} is {channel.message_encoding or 'of no encoding'}"
    return f"{said}, expected cdr: recorded by an older version? Record it anew"


def _step(step: Any, messages: dict[str, Any], image: Image | None) -> RecordedStep:
    joints, imu = messages[JOINTS], messages[IMU]
    q, w = imu.orientation, imu.angular_velocity
    reading = Reading(
        step.time_s,
        np.array(joints.position),
        np.array(joints.velocity),
        np.array((q.x, q.y, q.z, q.w)),
        np.array((w.x, w.y, w.z)),
        partial(_seen, image),
        np.array(step.odometry) if len(step.odometry) else None,
    )
    where = (step.goal_position[0], step.goal_position[1]) if len(step.goal_position) else None
    wanted, stop = RobotState(step.wanted), step.stop or None
    commands = OperatorCommands(step.armed, wanted, stop, where, step.goal_number)
    latent = np.array(step.latent) if len(step.latent) else None
    sensor_timeouts = {
        p.sensor: SensorTimeouts(p.ageing_s, p.stale_s, p.dead_s) for p in step.sensor_timeouts
    }
    return RecordedStep(
        Inputs(reading, {a.sensor: a.age_s for a in step.ages}, commands, step.gap_s, latent),
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
        looked=not math.isnan(step.image_time_s),
        took_us=step.took_us,
        sent=step.sent,
    )


def _image(message: Any, time_s: float) -> Image:
    pixels = np.frombuffer(message.data, np.uint8)
    return Image(pixels.reshape(message.height, message.width, -1), time_s)


def _seen(image: Image | None) -> Image:
    if image is None:
        raise UserError("nothing had been looked at so far in this recording")
    return image
