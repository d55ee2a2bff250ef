"""Torque-speed curve of a motor: the faster it turns, the less torque it can give."""

from __future__ import annotations

from collections.abc import Iterable


def limited_by_speed(
    torques: Iterable[float],
    velocities: Iterable[float],
    limits: Iterable[float],
    slopes: Iterable[float],
) -> list[float]:
    """Torques [Nm] that motors turning at these velocities [rad/s] can give of those wanted.

    The line from stall torque to no-load speed of Isaac Lab's DCMotor: driving a joint, a motor
    loses the share `slope` [s/rad] of its torque limit [Nm] per rad/s; braking it, none. Plain
    floats: for twelve joints numpy is slower.
    """
    given = []
    for torque, velocity, limit, slope in zip(torques, velocities, limits, slopes, strict=True):
        if torque * velocity > 0.0:
            left = limit * max(0.0, 1.0 - slope * abs(velocity))
            torque = max(-left, min(left, torque))
        given.append(torque)
    return given
