"""The one observation builder: a reading becomes what the low level sees."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.reading import Reading
from pixelgait.robot.spec import Array


def roll_pitch(orientation: Array) -> tuple[float, float]:
    """Roll and pitch [rad] of a base-in-world quaternion xyzw (z-y-x Euler angles)."""
    x, y, z, w = orientation.tolist()
    roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))
    return roll, pitch


def imu_vector(reading: Reading) -> Array:
    """(4,): roll, pitch [rad], roll rate, pitch rate [rad/s] (Google's PMTG IMU channels)."""
    roll, pitch = roll_pitch(reading.orientation)
    return np.array((roll, pitch, reading.angular_velocity[0], reading.angular_velocity[1]))
