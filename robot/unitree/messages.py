"""Low-level messages of a Go2: C layout, DDS encoding and checksum from one description.

Field for field as in the IDL of unitree_sdk2. A message is a numpy record in the layout of the
vendor's C struct: the checksum is computed over it, and Cyclone DDS encodes it (XCDR1).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Record = NDArray[np.void]

MODULE = "unitree_go::msg::dds_"
TEXT, BYTES = "text", "bytes"  # a string, and a sequence of 8-bit numbers: pointers in the C struct
SEQUENCE = (("maximum", "u4"), ("length", "u4"), ("at", "u8"), ("release", "u1"))
# Operations of Cyclone DDS's encoder (dds/ddsc/dds_opcodes.h): a member by its offset, the end.
MEMBER, END, ARRAY_OF, SEQUENCE_OF = 1 << 24, 0, 8, 7
SIZES = {"u1": 1, "u2": 2, "i2": 2, "u4": 3, "i4": 3, "f4": 3, "i8": 4, TEXT: 5}
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

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The C struct with natural alignment; padding is zero."""
        parts = [(name, _dtype(kind), *((n,) if n > 1 else ())) for name, kind, n in self.fields]
        return np.dtype(parts, align=True)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Names of the fields that are strings."""
        return tuple(name for name, kind, _ in self.fields if kind == TEXT)

    def new(self) -> Record:
        """A record of zeros."""
        return np.zeros((), self.dtype)

    def operations(self, base: int = 0) -> Iterator[int]:
        """The encoder's operations: nested structs are final, so their members are listed."""
        for name, kind, count in self.fields:
            offset = base + self.dtype.fields[name][1]  # type: ignore[index]
            if isinstance(kind, Message):
                for i in range(count):
                    yield from kind.operations(offset + i * kind.dtype.itemsize)
            elif count > 1:
                yield from (MEMBER | ARRAY_OF << 16 | SIZES[kind] << 8, offset, count)
            elif kind == BYTES:
                yield from (MEMBER | SEQUENCE_OF << 16 | SIZES["u1"] << 8, offset)
            else:
                yield from (MEMBER | SIZES[kind] << 16, offset)


def _dtype(kind: str | Message) -> Any:
    if isinstance(kind, Message):
        return kind.dtype
    pointers: dict[str, Any] = {TEXT: "u8", BYTES: np.dtype(list(SEQUENCE), align=True)}
    return pointers.get(kind, kind)


def _message(name: str, **fields: str | Message | tuple[str | Message, int]) -> Message:
    """A message of the robot's; a field is a type, or a type and a count."""
    counted = {key: kind if isinstance(kind, tuple) else (kind, 1) for key, kind in fields.items()}
    return Message(f"{MODULE}::{name}", tuple((key, *each) for key, each in counted.items()))


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
SPORT_MODE_STATE = _message(
    "SportModeState_",
    stamp=_message("TimeSpec_", sec="i4", nanosec="u4"),
    error_code="u4",
    imu_state=IMU_STATE,
    mode="u1",
    progress="f4",
    gait_type="u1",
    foot_raise_height="f4",  # [m]
    position=("f4", 3),  # [m], odometry
    body_height="f4",  # [m]
    velocity=("f4", 3),  # [m/s]
    yaw_speed="f4",  # [rad/s]
    range_obstacle=("f4", 4),
    foot_force=("i2", 4),  # raw
    foot_position_body=("f4", 12),  # [m]
    foot_speed_body=("f4", 12),  # [m/s]
    path_point=(
        _message(
            "PathPoint_",
            **dict.fromkeys(("t_from_start", "x", "y", "yaw"), "f4"),
            **dict.fromkeys(("vx", "vy", "vyaw"), "f4"),
        ),
        10,
    ),
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


def checksum(record: Record) -> int:
    """CRC-32/MPEG-2 over the C struct's 32-bit words except the last, most significant byte first.

    Computed by zlib's CRC, which has reversed bits and a final inversion.
    """
    words = np.frombuffer(record.tobytes()[:-4], "<u4").astype(">u4").tobytes()
    reflected = zlib.crc32(words.translate(_REVERSED)) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
