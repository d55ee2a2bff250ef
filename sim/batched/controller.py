"""Batched controller and supervisor: n robots as arrays with a row each, bit-equal to single ones.

For training low levels in MuJoCo. A robot whose readings fail a check of
`robot.safety` is flagged: its episode is run again by the single robot's code, which decides what
to do about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import Decision, HeadingHold
from pixelgait.robot.control.gait import mapped
from pixelgait.robot.control.low_level import (
    LinearLowLevel,
    LinearShape,
    act,
    completed,
    features,
    followed,
    shape_with,
)
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import UNIT_TOLERANCE, roll_pitch
from pixelgait.robot.safety.sensor_checks import (
    ANSWER_S,
    DRIFT_S,
    DRIFT_TOLERANCE_RAD,
    IMU_DRIFT_RAD,
    IMU_DRIFT_S,
    JUMP_TOLERANCE_RAD,
    LIMIT_TOLERANCE_RAD,
    SPEED_TOLERANCE,
    STUCK_RAD,
    STUCK_S,
)
from pixelgait.robot.safety.supervisor import MIN_UP_Z
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.batched.mujoco_batch import BatchReading


@dataclass(frozen=True, slots=True)
class BatchLowLevel:
    """n `LinearLowLevel`s."""

    spec: RobotSpec
    matrix: Array  # (n, 19, 20), or (n, 20, 22)
    bias: Array  # (n, 19)

    @property
    def shape(self) -> LinearShape:
        return shape_with(self.matrix.shape[2])

    def __call__(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        carried = completed(self.spec, carried, self.shape)
        command = followed(self.shape, latent, carried)
        x = features(command, imu, joint_angles, carried[:, :1])
        action = np.minimum(np.maximum(mapped(self.matrix, x) + self.bias, -1.0), 1.0)
        return act(self.spec, command, action, carried, joint_angles)


def stacked(low_levels: Sequence[LinearLowLevel]) -> BatchLowLevel:
    """n low levels as one."""
    matrix = np.stack([low_level.matrix for low_level in low_levels])
    return BatchLowLevel(low_levels[0].spec, matrix, np.stack([low.bias for low in low_levels]))


class BatchController:
    """Controls n robots that decide in step: latent commands (n, 2), a low level for each robot."""

    def __init__(self, high_level: Callable[[], Decision], low_level: BatchLowLevel) -> None:
        robots = len(low_level.bias)
        self.high_level, self.low_level = high_level, low_level
        self.supervisor = BatchSupervisor(low_level.spec, robots)
        self.heading_holds = BatchHeadingHold(robots)
        self.carried = np.zeros((robots, 1))  # by the low levels
        self.decision: Decision | None = None  # the newest
        self.decisions = 0
        self.limited_steps = np.zeros(robots)  # whose targets the supervisor limited
        self._steps_left = 0

    @property
    def phase(self) -> Array:
        """Phases of the gait generators (n, 1) [rad]."""
        return self.carried[:, :1]

    def step(self, reading: BatchReading) -> Array:
        """The joint targets (n, 12) [rad] that answer this reading."""
        if self.decision is None or self._steps_left <= 0:
            self.decision = self.high_level()
            self.decisions += 1
            self._steps_left = self.decision.duration_steps
        self._steps_left -= 1
        latent = self.heading_holds.corrected(self.decision.latent, reading.orientation)
        targets, self.carried = self.low_level(
            latent, imu_vectors(reading), reading.joint_angles, self.carried
        )
        sent = self.supervisor.review(reading, targets)
        self.limited_steps += (sent != targets).any(1)
        return sent


def imu_vectors(reading: BatchReading) -> Array:
    """(n, 4): see `imu_vector`."""
    tilts = [roll_pitch(orientation) for orientation in reading.orientation.tolist()]
    return np.column_stack((tilts, reading.angular_velocity[:, :2]))


class BatchHeadingHold:
    """n `HeadingHold`s."""

    def __init__(self, robots: int) -> None:
        self._holds = [HeadingHold() for _ in range(robots)]

    def corrected(self, latent: Array, orientation: Array) -> Array:
        """The latent commands (n, 2) for the low levels; orientations (n, 4)."""
        rows = zip(self._holds, latent, orientation, strict=True)
        return np.array([hold.corrected(command, at) for hold, command, at in rows])


class BatchSupervisor:
    """Limits the targets of n robots as `Supervisor` does, and flags readings it might reject.

    Robots that are not `flagged` (n,) need neither bridging nor damping.
    """

    def __init__(self, spec: RobotSpec, robots: int) -> None:
        self.spec = spec
        self.flagged = np.zeros(robots, dtype=bool)
        self._joints = _BatchJointMonitor(spec, robots)
        self._inverse_kp = 1.0 / spec.kp_nm_per_rad
        self._reach = spec.torque_limit_nm * self._inverse_kp
        self._step = spec.target_speed_limit_rad_per_s * CONTROL_DT_S
        self._sent: Array | None = None
        self._imu: Array | None = None  # the last orientations and rates (7, n)
        self._drift = np.zeros((3, robots))

    def review(self, reading: BatchReading, targets: Array) -> Array:
        """The targets (n, 12) [rad] to send for those of the low levels."""
        with np.errstate(over="ignore", invalid="ignore"):  # of robots that are flagged
            self._check(reading, targets)
            self._sent = self._limit(reading, targets)
        return self._sent

    def _check(self, reading: BatchReading, targets: Array) -> None:
        orientation, rate = reading.orientation, reading.angular_velocity
        for part in (reading.joint_angles, reading.joint_velocities, rate, orientation, targets):
            self.flagged |= ~np.isfinite(part).all(-1)
        x, y, z, w = orientation.T
        self.flagged |= ~(np.abs(x * x + y * y + z * z + w * w - 1.0) <= UNIT_TOLERANCE)
        self.flagged |= up_z(orientation) < MIN_UP_Z
        self._check_imus(np.concatenate((orientation.T, rate.T)))
        sent = targets if self._sent is None else self._sent
        self.flagged |= self._joints.suspect(reading, sent)

    def _check_imus(self, values: Array) -> None:
        """Compare orientations and rates (7, n) with the last ones; see `ImuMonitor`."""
        last, self._imu = self._imu, values
        if last is None:
            return
        rates = 0.5 * CONTROL_DT_S * (last[4:] + values[4:])
        self._drift = (1.0 - CONTROL_DT_S / IMU_DRIFT_S) * self._drift + _turn(last, values) - rates
        self.flagged |= (self._drift * self._drift).sum(0) > IMU_DRIFT_RAD**2
        self.flagged |= (values == last).all(0)

    def _limit(self, reading: BatchReading, targets: Array) -> Array:
        """See `Supervisor`."""
        spec, q = self.spec, reading.joint_angles
        hold = q + spec.kd_nms_per_rad * reading.joint_velocities * self._inverse_kp
        targets = np.minimum(np.maximum(targets, hold - self._reach), hold + self._reach)
        lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
        targets = np.minimum(np.maximum(targets, lower), upper)
        sent = np.minimum(np.maximum(q, lower), upper) if self._sent is None else self._sent
        return np.minimum(np.maximum(targets, sent - self._step), sent + self._step)


class _BatchJointMonitor:
    """Finds joints of n robots that `JointMonitor` would not trust; readings come every step."""

    def __init__(self, spec: RobotSpec, robots: int) -> None:
        lower, upper, speed = (
            spec.joint_lower_rad,
            spec.joint_upper_rad,
            spec.velocity_limit_rad_per_s,
        )
        self._middle, self._half_range = (lower + upper) / 2.0, (upper - lower) / 2.0
        self._most_rad = self._half_range + LIMIT_TOLERANCE_RAD
        self._most_rad_per_s = SPEED_TOLERANCE * speed
        self._most_moved_rad = JUMP_TOLERANCE_RAD + speed * CONTROL_DT_S
        self._angles: Array | None = None  # of the last reading (n, 12)
        joints = robots, len(spec.joint_names)
        self._drift = np.zeros(joints)
        self._clock_s, self._stamp_s = 0.0, 0.0
        self._still = False  # some joint is
        self._still_since_s, self._low, self._high = (np.zeros(joints) for _ in range(3))
        self._moving_since_s = np.zeros(joints)  # since their targets have left `STUCK_RAD`

    def suspect(self, reading: BatchReading, sent: Array) -> NDArray[np.bool_]:
        """Which robots (n,) have a joint in doubt; `sent` are the joints' targets (n, 12) [rad]."""
        angles, velocities = reading.joint_angles, reading.joint_velocities
        bad = np.abs(angles - self._middle) > self._most_rad
        bad |= np.abs(velocities) > self._most_rad_per_s
        if self._angles is not None:
            step_s = reading.time_s - self._stamp_s
            last_s, self._clock_s = self._clock_s, self._clock_s + step_s
            moved = angles - self._angles
            integrated = velocities * (self._clock_s - last_s)
            self._drift = self._drift * (1.0 - step_s / DRIFT_S) + moved - integrated
            bad |= np.abs(moved) > self._most_moved_rad
            bad |= np.abs(self._drift) > DRIFT_TOLERANCE_RAD
            bad |= self._stuck(moved != 0.0, sent, last_s)
        self._angles, self._stamp_s = angles, reading.time_s
        return np.asarray(bad.any(-1))

    def _stuck(self, changed: NDArray[np.bool_], sent: Array, last_s: float) -> NDArray[np.bool_]:
        """Which joints (n, 12) read exactly the same although their targets move."""
        if changed.all():
            self._still = False
            return ~changed
        if not self._still:
            self._still = True
            self._still_since_s.fill(last_s)
            self._low[:] = self._high[:] = sent
        self._still_since_s[changed] = self._clock_s
        self._low[changed] = self._high[changed] = sent[changed]
        np.minimum(self._low, sent, out=self._low)
        np.maximum(self._high, sent, out=self._high)
        near = self._high - self._low <= STUCK_RAD
        np.copyto(self._moving_since_s, self._clock_s, where=near)
        stuck = self._clock_s - self._still_since_s >= STUCK_S
        return np.asarray(stuck & (self._clock_s - self._moving_since_s >= ANSWER_S))


def up_z(orientation: Array) -> Array:
    """Cosines of the tilts (n,) of orientations (n, 4); see `rotation.up_z`."""
    x, y = orientation[:, 0], orientation[:, 1]
    return 1.0 - 2.0 * (x * x + y * y)


def _turn(last: Array, now: Array) -> Array:
    """Small angles (3, n) [rad] about the bases' axes between two orientations (4, n)."""
    a, b, c, d = -last[0], -last[1], -last[2], last[3]
    x, y, z, w = now[:4]
    sign = 2.0 - 4.0 * (d * w - a * x - b * y - c * z < 0.0)  # -2: the other of two quaternions
    turned = (
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
    )
    return np.asarray(sign * turned)
