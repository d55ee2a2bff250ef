"""Low-level messages of a Go2: C layout, DDS encoding and checksum from one description.

Field for field as in the IDL of unitree_sdk2 (module unitree_go::msg::dds_). A message is a numpy
record in the layout of the vendor's C struct, over which the checksum is computed. DDS's encoding
(XCDR1, little endian) has the same bytes at other offsets, because it pads differently.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Record = NDArray[np.void]

ENCAPSULATION = bytes((0, 1, 0, 0))  # XCDR1, little endian
MOTORS = 20  # slots in a message; a Go2 has 12
HEAD = (0xFE, 0xEF)
LOW_LEVEL = 0xFF  # level_flag
SERVO = 1  # mode of a motor that follows commands; 0: off
NO_POSITION, NO_SPEED = 2.146e9, 16000.0  # PosStopF, VelStopF: no target
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class Message:
    """A message type: its name in the IDL, and its fields in order."""

    name: str
    fields: tuple[tuple[str, str | Message, int], ...]  # name, numpy type or message, count

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The C struct with natural alignment; padding is zero."""
        parts = [
            (name, kind.dtype if isinstance(kind, Message) else kind, *((n,) if n > 1 else ()))
            for name, kind, n in self.fields
        ]
        return np.dtype(parts, align=True)


def _message(name: str, **fields: str | Message | tuple[str | Message, int]) -> Message:
    counted = {key: kind if isinstance(kind, tuple) else (kind, 1) for key, kind in fields.items()}
    return Message(name, tuple((key, *each) for key, each in counted.items()))


MOTOR_CMD = _message(
    "MotorCmd_",
    mode="u1",
    q="f4",  # [rad]
    dq="f4",  # [rad/s]
    tau="f4",  # [Nm]
    kp="f4",  # [Nm/rad]
    kd="f4",  # [Nm s/rad]
    reserve=("u4", 3),
)
BMS_CMD = _message("BmsCmd_", off="u1", reserve=("u1", 3))  # off = 0xA5 is never to be sent
LOW_CMD = _message(
    "LowCmd_",
    head=("u1", 2),
    level_flag="u1",
    frame_reserve="u1",
    sn=("u4", 2),
    version=("u4", 2),
    bandwidth="u2",
    motor_cmd=(MOTOR_CMD, MOTORS),
    bms_cmd=BMS_CMD,
    wireless_remote=("u1", 40),
    led=("u1", 12),
    fan=("u1", 2),
    gpio="u1",
    reserve="u4",
    crc="u4",
)
IMU_STATE = _message(
    "IMUState_",
    quaternion=("f4", 4),  # w first
    gyroscope=("f4", 3),  # [rad/s]
    accelerometer=("f4", 3),  # [m/s^2], +g upwards at rest
    rpy=("f4", 3),  # [rad]
    temperature="u1",  # [deg C]
)
MOTOR_STATE = _message(
    "MotorState_",
    mode="u1",
    q="f4",
    dq="f4",
    ddq="f4",
    tau_est="f4",
    q_raw="f4",
    dq_raw="f4",
    ddq_raw="f4",
    temperature="u1",  # [deg C]
    lost="u4",  # packets
    reserve=("u4", 2),
)
BMS_STATE = _message(
    "BmsState_",
    version_high="u1",
    version_low="u1",
    status="u1",
    soc="u1",  # [%]
    current="i4",  # [mA]
    cycle="u2",
    bq_ntc=("u1", 2),
    mcu_ntc=("u1", 2),
    cell_vol=("u2", 15),  # [mV]
)
LOW_STATE = _message(
    "LowState_",
    head=("u1", 2),
    level_flag="u1",
    frame_reserve="u1",
    sn=("u4", 2),
    version=("u4", 2),
    bandwidth="u2",
    imu_state=IMU_STATE,
    motor_state=(MOTOR_STATE, MOTORS),
    bms_state=BMS_STATE,
    foot_force=("i2", 4),  # raw
    foot_force_est=("i2", 4),
    tick="u4",  # [ms]
    wireless_remote=("u1", 40),
    bit_flag="u1",
    adc_reel="f4",
    temperature_ntc1="u1",
    temperature_ntc2="u1",
    power_v="f4",  # [V]
    power_a="f4",  # [A]
    fan_frequency=("u2", 4),
    reserve="u4",
    crc="u4",
)


class Codec:
    """Converts records of one message to their bytes on the wire, and back."""

    def __init__(self, message: Message) -> None:
        self.dtype = message.dtype
        self._places = _places(self.dtype)  # (payload,) offset of every byte in the C struct
        sources = np.full(self.dtype.itemsize + 1, len(self._places))
        sources[self._places] = np.arange(len(self._places))
        self._sources = sources[:-1]  # (struct,) the inverse

    def new(self) -> Record:
        """A record of zeros."""
        return np.zeros((), self.dtype)

    def encode(self, record: Record) -> bytes:
        """The encapsulated payload."""
        padded = np.frombuffer(record.tobytes() + b"\0", np.uint8)
        return ENCAPSULATION + padded[self._places].tobytes()

    def decode(self, data: bytes) -> Record:
        """The record of an encapsulated payload.

        Raises:
            ValueError: the payload has another length, or is not XCDR1 in little endian.
        """
        body = data[len(ENCAPSULATION) :]
        if data[:2] != ENCAPSULATION[:2] or len(body) != len(self._places):
            raise ValueError(f"{len(data)} bytes, expected {len(self._places) + 4} of XCDR1")
        padded = np.frombuffer(body + b"\0", np.uint8)
        struct: Record = padded[self._sources].view(self.dtype)
        return struct.reshape(())


def checksum(record: Record) -> int:
    """CRC-32/MPEG-2 over the C struct's 32-bit words except the last, most significant byte first.

    Computed by zlib's CRC, which has reversed bits and a final inversion.
    """
    words = np.frombuffer(record.tobytes()[:-4], "<u4").astype(">u4").tobytes()
    reflected = zlib.crc32(words.translate(_REVERSED)) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)


def _places(dtype: np.dtype[np.void]) -> NDArray[np.intp]:
    """Offset in the C struct of every payload byte; padding has the offset behind its end."""
    places: list[int] = []
    for offset, size in _leaves(dtype, 0):
        places += [dtype.itemsize] * (-len(places) % size) + list(range(offset, offset + size))
    return np.array(places + [dtype.itemsize] * (-len(places) % 4))


def _leaves(dtype: np.dtype[np.void], base: int) -> Iterator[tuple[int, int]]:
    """Offset and size of all numbers, in order."""
    if dtype.subdtype is not None:
        part, shape = dtype.subdtype
        for i in range(shape[0]):
            yield from _leaves(part, base + i * part.itemsize)
    elif dtype.fields is not None:
        for name in dtype.names or ():
            part, offset = dtype.fields[name][:2]
            yield from _leaves(part, base + offset)
    else:
        yield base, dtype.itemsize
