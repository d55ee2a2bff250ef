"""Rotations: unit quaternions xyzw of a base in the world (x forward, y left, z up), and angles.

Written with plain floats, which are faster than numpy for three or four numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]  # xyzw
UNIT_TOLERANCE = 0.02  # assumption: of a quaternion's squared norm; covers float32 rounding


def is_unit(orientation: Sequence[float]) -> bool:
    """Whether a quaternion (4,) has unit length; one with a nan has not."""
    x, y, z, w = orientation
    return abs(x * x + y * y + z * z + w * w - 1.0) <= UNIT_TOLERANCE


def up_z(orientation: Sequence[float]) -> float:
    """The cosine of the tilt of an orientation (4,): z of the base's up axis, 1 to -1."""
    x, y, _, _ = orientation
    return 1.0 - 2.0 * (x * x + y * y)


def roll_pitch(orientation: Sequence[float]) -> tuple[float, float]:
    """Roll and pitch [rad] of an orientation (4,), as z-y-x Euler angles."""
    x, y, z, w = orientation
    roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))
    return roll, pitch


def heading(orientation: Sequence[float]) -> float:
    """Yaw [rad] of an orientation (4,), as z-y-x Euler angle."""
    x, y, z, w = orientation
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def gravity(orientation: Sequence[float]) -> Vector:
    """The direction of gravity in the frame of a base with this orientation (4,), of length 1."""
    x, y, z, w = orientation
    square = x * x + y * y + z * z + w * w
    if not square > 0.0:  # no quaternion; true for a nan as well
        return (0.0, 0.0, -1.0)
    s = 2.0 / square
    return (-s * (x * z - w * y), -s * (y * z + w * x), s * (x * x + y * y) - 1.0)


def upright(yaw_rad: float) -> Quaternion:
    """The orientation of a level base with this heading."""
    return (0.0, 0.0, math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0))


def to_base_frame(vector: Sequence[float], orientation: Sequence[float]) -> Vector:
    """A vector (3,) of the world in the frame of a base with this orientation (4,)."""
    x, y, z = vector
    qx, qy, qz, qw = (-orientation[0], -orientation[1], -orientation[2], orientation[3])
    tx, ty, tz = 2 * (qy * z - qz * y), 2 * (qz * x - qx * z), 2 * (qx * y - qy * x)
    return (
        x + qw * tx + qy * tz - qz * ty,
        y + qw * ty + qz * tx - qx * tz,
        z + qw * tz + qx * ty - qy * tx,
    )


def inverse(rotation: Quaternion) -> Quaternion:
    """The opposite of a rotation (4,)."""
    x, y, z, w = rotation
    return -x, -y, -z, w


def product(second: Quaternion, first: Quaternion) -> Quaternion:
    """The rotation (4,) by `first`, then by `second`; both (4,)."""
    a, b, c, d = second
    x, y, z, w = first
    return (
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
        d * w - a * x - b * y - c * z,
    )


def tilted(orientation: NDArray[np.float64], tilt: NDArray[np.float64]) -> NDArray[np.float64]:
    """An orientation (4,) turned by small angles (2,), roll and pitch [rad], about its own axes."""
    x, y, z, w = orientation
    a, b = tilt / 2.0
    turned = np.array((x + w * a - z * b, y + w * b + z * a, z + x * b - y * a, w - x * a - y * b))
    return np.asarray(turned / np.linalg.norm(turned))


def turned(orientation: NDArray[np.float64], yaw_rad: float) -> NDArray[np.float64]:
    """An orientation (4,) turned by an angle to the left about the world's z."""
    x, y, z, w = orientation
    sin, cos = math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0)
    return np.array((cos * x - sin * y, cos * y + sin * x, cos * z + sin * w, cos * w - sin * z))


def rotation_at(up: Vector, heading_rad: float) -> NDArray[np.float64]:
    """The rotation (3, 3) of a base with this heading and the world's up axis in its frame."""
    up_x, up_y, up_z = up
    level = math.sqrt(max(1e-12, 1.0 - up_x * up_x))  # cosine of the pitch
    sin_roll, cos_roll = up_y / level, up_z / level
    sin, cos = math.sin(heading_rad), math.cos(heading_rad)
    return np.array(
        (
            (
                cos * level,
                -cos * up_x * sin_roll - sin * cos_roll,
                sin * sin_roll - cos * up_x * cos_roll,
            ),
            (
                sin * level,
                cos * cos_roll - sin * up_x * sin_roll,
                -sin * up_x * cos_roll - cos * sin_roll,
            ),
            up,
        )
    )


def wrap_angle(angle_rad: float) -> float:
    """The same angle [rad], from -pi to pi."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi
