"""The safety supervisor: the last word on every command, in training and on the robot alike."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.observation import roll_pitch
from pixelgait.robot.reading import JointCommand, Reading
from pixelgait.robot.spec import Array, RobotSpec

TILT_LIMIT_RAD = 1.2  # end of episode in Google's Laikago v2 environment


class Supervisor:
    """Clips targets to joint and torque limits; damps, and stays damped, when something is wrong.

    `fault` names why the robot is damped, or is None. Only `reset` clears it.
    """

    def __init__(self, spec: RobotSpec) -> None:
        self.spec = spec
        self.fault: str | None = None
        self._zeros = np.zeros(len(spec.joint_names))
        self._damping = np.full(len(spec.joint_names), spec.damping_nms_per_rad)
        self._inverse_kp = 1.0 / spec.kp_nm_per_rad

    def reset(self) -> None:
        self.fault = None

    def trip(self, reason: str) -> None:
        """Damp from now on; the first reason is kept."""
        self.fault = self.fault or reason

    def review(self, reading: Reading, targets: Array) -> JointCommand:
        """The command to send for the low level's joint targets (12,) [rad]."""
        if self.fault is None:
            self.fault = self._find_fault(reading, targets)
        if self.fault is not None:
            return self.damp(reading)
        return JointCommand(
            reading.time_s,
            self._limit(reading, targets),
            self.spec.kp_nm_per_rad,
            self.spec.kd_nms_per_rad,
            self._zeros,
        )

    def damp(self, reading: Reading) -> JointCommand:
        """No stiffness, only damping: the robot sinks to the ground."""
        q = reading.joint_angles
        return JointCommand(reading.time_s, q, self._zeros, self._damping, self._zeros)

    def _find_fault(self, reading: Reading, targets: Array) -> str | None:
        # A sum is finite only if all of its terms are; this is far cheaper than isfinite().all().
        q, dq, w = reading.joint_angles, reading.joint_velocities, reading.angular_velocity
        if not math.isfinite(q.sum() + dq.sum() + w.sum() + reading.orientation.sum()):
            return "a sensor value is not finite"
        if not math.isfinite(targets.sum()):
            return "a joint target is not finite"
        roll, pitch = roll_pitch(reading.orientation)
        if max(abs(roll), abs(pitch)) > TILT_LIMIT_RAD:
            return f"tilted: roll {roll:.2f} rad, pitch {pitch:.2f} rad"
        return None

    def _limit(self, reading: Reading, targets: Array) -> Array:
        """Targets within joint limits whose PD torque stays within the torque limits."""
        spec, q = self.spec, reading.joint_angles
        hold = q + spec.kd_nms_per_rad * reading.joint_velocities * self._inverse_kp  # no torque
        reach = spec.torque_limit_nm * self._inverse_kp
        targets = np.minimum(np.maximum(targets, hold - reach), hold + reach)
        return np.minimum(np.maximum(targets, spec.joint_lower_rad), spec.joint_upper_rad)
