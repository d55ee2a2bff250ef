"""Safety supervisor: limits every command, and damps the robot on a fault."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import is_unit, up_z
from pixelgait.robot.safety.sensor_checks import MAX_BRIDGED, ImuMonitor, JointMonitor, MotionCheck
from pixelgait.robot.spec import Array, Legs, RobotSpec


class SensorHealth(IntEnum):
    """Health of a sensor by the age of its data."""

    FRESH = 0
    AGEING = 1  # no new decision, the last one holds
    STALE = 2  # the robot slows to a stand
    DEAD = 3  # the robot is damped


class SensorTimeouts(NamedTuple):
    """Ages beyond which a sensor is ageing, stale, dead [s]."""

    ageing_s: float
    stale_s: float
    dead_s: float

    @property
    def ordered(self) -> bool:
        """Whether all are positive, finite and in order."""
        return 0.0 < self.ageing_s <= self.stale_s <= self.dead_s < math.inf

    def sensor_health(self, age_s: float) -> SensorHealth:
        """Health at this age; a nan counts as dead."""
        if age_s <= self.ageing_s and age_s <= self.dead_s:
            return SensorHealth.FRESH
        if not age_s <= self.dead_s:
            return SensorHealth.DEAD
        return SensorHealth.STALE if age_s > self.stale_s else SensorHealth.AGEING


# Name of the camera among the sensors; a link may have several, named camera/TOPIC.
CAMERA = "camera"
# Assumptions. Without joint readings a robot falls within tenths of a second, without images it
# does not: the camera may miss a few dozen frames. Until it is stale the robot walks 0.3 m without
# images at full speed.
SENSOR_TIMEOUTS: Mapping[str, SensorTimeouts] = MappingProxyType(
    {
        "joints": SensorTimeouts(0.03, 0.06, 0.1),
        "imu": SensorTimeouts(0.03, 0.06, 0.1),
        CAMERA: SensorTimeouts(0.3, 0.5, 2.0),
    }
)
NO_AGES: Mapping[str, float] = MappingProxyType({})
TILT_LIMIT_RAD = 1.2  # ends an episode in Google's Laikago v2 environment
MIN_UP_Z = math.cos(TILT_LIMIT_RAD)
# Assumption: largest tilt to stand up from; ramps have 0.35 rad at most, a robot on its side 1 rad.
MIN_UP_Z_TO_RISE = math.cos(0.6)
NOT_FINITE = "a sensor value is not finite"


def without_camera(ages: Mapping[str, float]) -> dict[str, float]:
    """Ages [s] of all sensors except cameras."""
    return {name: age for name, age in ages.items() if name.split("/")[0] != CAMERA}


class Gains:
    """Gains of the motors (12,), and how far a target may be from a joint without their torque
    limit."""

    def __init__(self, spec: RobotSpec, kp: Array, kd: Array) -> None:
        self.kp, self.kd = kp, kd
        self.inverse_kp = 1.0 / kp
        self.reach = spec.torque_limit_nm * self.inverse_kp

    def hold(self, angles: Array, velocities: Array) -> Array:
        """Targets (12,) [rad] without torque."""
        return np.asarray(angles + self.kd * velocities * self.inverse_kp)


class Supervisor:
    """Limits joint targets by torque, joint range and speed; damps for good on a fault.

    Whatever is read, no stiff command leaves the joint limits or moves a target faster than
    `target_speed_limit_rad_per_s`.

    Attributes:
        fault: why the robot is damped, or None; only `reset` and `rise` clear it.
        bridged: number of readings with joints, or an orientation, that were not trusted.
        sensor_timeouts: time-outs by sensor name.
        motors_enabled: False in a dry run, whose commands reach no motor: no joint counts as stuck.
        legs: what walks; None: by the gains of the specification.
        standing, walking: gains of a robot that stands or lies down, and of one that walks.
    """

    def __init__(
        self,
        spec: RobotSpec,
        sensor_timeouts: Mapping[str, SensorTimeouts] = SENSOR_TIMEOUTS,
        legs: Legs | None = None,
    ) -> None:
        self.spec, self.legs = spec, legs
        self.standing = self.walking = Gains(spec, spec.kp_nm_per_rad, spec.kd_nms_per_rad)
        if legs is not None and not legs.gait:
            self.walking = Gains(spec, legs.kp_nm_per_rad, legs.kd_nms_per_rad)
        self.sensor_timeouts = sensor_timeouts
        self.motors_enabled = True
        self._softness = self.walking.kp / self.standing.kp
        self._joints, self._imu, self._motion = JointMonitor(spec), ImuMonitor(), MotionCheck()
        self._zeros = np.zeros(len(spec.joint_names))
        self._damping = np.full(len(spec.joint_names), spec.damping_nms_per_rad)
        self._step = spec.target_speed_limit_rad_per_s * CONTROL_DT_S
        self.reset()

    def reset(self) -> None:
        """Start anew: no fault, no reading, no command sent."""
        self._joints.reset()
        self._unreadable = 0  # successive readings of a limp robot that are not finite
        self.rise()

    def rise(self) -> None:
        """Start anew with a robot that stands up: no fault, no command sent.

        Trusted joint readings are kept; IMU monitor and motion check start anew.
        """
        self.fault: str | None = None
        self.bridged = self._bad_imu = 0
        self._imu.reset()
        self._motion.reset()
        self._sent: Array | None = None
        self._gains = self.standing  # of the last command

    def fail(self, reason: str) -> None:
        """Damp for good, for a reason found elsewhere; the first reason is kept."""
        self.fault = self.fault or reason

    def filtered(self, reading: Reading) -> Reading:
        """The reading for the low level: impossible joints at their last trusted angle, at rest."""
        angles, velocities = self._joints.filtered(reading)
        if angles is reading.joint_angles and velocities is reading.joint_velocities:
            return reading  # as in almost every step: a copy of a reading takes 5 us
        return replace(reading, joint_angles=angles, joint_velocities=velocities)

    @property
    def trusted_joints(self) -> tuple[Array, Array]:
        """Joint angles and velocities (12,) [rad, rad/s] of the last reading, as trusted."""
        return self._joints.angles, self._joints.velocities

    def check_limp(self, reading: Reading, rises: bool = False) -> bool:
        """Check a reading of a limp robot; returns whether its joint angles can be trusted.

        Standing up begins at these angles. If the robot `rises`, that is, would stand up now, what
        is wrong for good is a fault.
        """
        joints, q = self._joints, reading.joint_angles
        finite = _finite(q, reading.joint_velocities)
        self._unreadable = 0 if finite else self._unreadable + 1
        wrong = joints.judge(reading, q) if finite else NOT_FINITE
        if wrong is not None:
            joints.reset()
            if rises and (finite or self._unreadable > MAX_BRIDGED):
                self.fault = wrong
        elif rises and (up := up_z(reading.orientation.tolist())) < MIN_UP_Z_TO_RISE:
            self.fault = f"{tilted(up)}: it cannot stand up from there"
            return False
        return joints.trusted and not joints.suspect

    def sensor_health(self, ages: Mapping[str, float]) -> SensorHealth:
        """The worst health of sensors with these ages [s]."""
        sensor_timeouts = self.sensor_timeouts
        return max(
            (sensor_timeouts[n].sensor_health(age) for n, age in ages.items()),
            default=SensorHealth.FRESH,
        )

    def silent(self, ages: Mapping[str, float]) -> list[str]:
        """Names of the dead sensors among those with these ages [s]."""
        return [name for name, age in ages.items() if not age <= self.sensor_timeouts[name].dead_s]

    def review(
        self,
        reading: Reading,
        targets: Array,
        ages: Mapping[str, float] = NO_AGES,
        gains: Gains | None = None,
    ) -> JointCommand:
        """The command to send for the low level's joint targets (12,) [rad].

        Until there is a trusted joint reading it damps, without a fault.

        Args:
            reading: the sensor values that the targets answer.
            targets: joint targets (12,) [rad].
            ages: of the sensors behind the reading [s]; see `Body.ages`.
            gains: of the command; by default those of a robot that stands.
        """
        if self.fault is None:
            with np.errstate(over="ignore"):  # of values near the largest float
                self.fault = self._find_silence(ages) or self._find_fault(reading, targets)
        if self.fault is not None or not self._joints.trusted:
            return self.damp(reading.time_s)
        self.bridged += self._joints.suspect or self._bad_imu > 0
        # The targets answer an impossible orientation: repeat the last ones.
        gains = gains or self.standing
        self.hand_over(gains)
        held = self._sent if self._bad_imu else None
        self._sent = self._limit(targets if held is None else held, gains)
        return JointCommand(reading.time_s, self._sent, gains.kp, gains.kd, self._zeros)

    def hand_over(self, gains: Gains) -> Array | None:
        """The last targets (12,) [rad] as they are under other gains: of the same torque.

        The next command goes on from there. None: no command was sent.
        """
        if self._sent is not None and gains is not self._gains:
            joints, before = (self._joints.angles, self._joints.velocities), self._gains
            torque = before.kp * (self._sent - before.hold(*joints))
            same = gains.hold(*joints) + torque * gains.inverse_kp
            self._sent = np.clip(same, self.spec.joint_lower_rad, self.spec.joint_upper_rad)
        if gains is not self._gains:
            self._motion.reset()
        self._gains = gains
        return self._sent

    def damp(self, time_s: float) -> JointCommand:
        """A command without stiffness: the robot sinks to the ground. Needs no reading."""
        return JointCommand(time_s, self._zeros, self._zeros, self._damping, self._zeros)

    def _find_silence(self, ages: Mapping[str, float]) -> str | None:
        for name in self.silent(ages):
            allowed = self.sensor_timeouts[name].dead_s
            return f"{name} is silent for {ages[name]:.2f} s, at most {allowed} s is allowed"
        return None

    def _find_fault(self, reading: Reading, targets: Array) -> str | None:
        q, dq, w = reading.joint_angles, reading.joint_velocities, reading.angular_velocity
        orientation = reading.orientation
        # A squared length is finite only if all terms are; far cheaper than isfinite().all().
        squares = q.dot(q) + dq.dot(dq) + w.dot(w) + orientation.dot(orientation)
        if not (math.isfinite(squares) or _finite(q, dq, w, orientation)):
            return NOT_FINITE
        if not (math.isfinite(targets.dot(targets)) or _finite(targets)):
            return "a joint target is not finite"
        if is_unit(quaternion := orientation.tolist()):
            self._bad_imu, up = 0, up_z(quaternion)
            if up < MIN_UP_Z:
                return tilted(up)
            if warning := self._imu.judge(reading):
                return warning
        else:
            self._bad_imu += 1
            if self._bad_imu > MAX_BRIDGED or self._sent is None:
                return "the IMU's orientation is no unit quaternion"
        sent = q if self._sent is None or not self.motors_enabled else self._sent
        # Soft legs need larger motions of their targets for the same torque.
        felt = sent if self._gains is self.standing else sent * self._softness
        return self._joints.judge(reading, sent) or self._motion.judge(reading, felt)

    def _limit(self, targets: Array, gains: Gains) -> Array:
        """Limit targets (12,) [rad] by PD torque, then joint range, then speed.

        The last targets were within the joint range, so the speed limit keeps them there.
        """
        spec, q = self.spec, self._joints.angles
        hold = gains.hold(q, self._joints.velocities)
        targets = np.minimum(np.maximum(targets, hold - gains.reach), hold + gains.reach)
        lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
        np.minimum(np.maximum(targets, lower, out=targets), upper, out=targets)
        sent = np.minimum(np.maximum(q, lower), upper) if self._sent is None else self._sent
        return np.minimum(np.maximum(targets, sent - self._step), sent + self._step)


def tilted(up: float) -> str:
    """The fault of a base whose up axis has this z."""
    return f"tilted by {math.acos(max(-1.0, up)):.2f} rad"


def _finite(*vectors: Array) -> bool:
    """Whether all values are finite, even if their squares are not."""
    return all(np.isfinite(vector).all() for vector in vectors)


def sensor_timeouts_contract() -> dict[str, dict[str, float]]:
    """The default time-outs as they stand in a contract."""
    return {name: sensor_timeouts._asdict() for name, sensor_timeouts in SENSOR_TIMEOUTS.items()}


def sensor_timeouts_of(contract: Mapping[str, Any]) -> Mapping[str, SensorTimeouts]:
    """Sensor time-outs of a contract.

    Raises:
        UserError: if they are not positive numbers in order.
    """
    try:
        sensor_timeouts = {
            name: _ages(contract["sensor_timeouts"][name]) for name in SENSOR_TIMEOUTS
        }
        if all(each.ordered for each in sensor_timeouts.values()):
            return sensor_timeouts
    except (KeyError, TypeError, OverflowError):
        pass
    names, ages = ", ".join(SENSOR_TIMEOUTS), ", ".join(SensorTimeouts._fields)
    raise UserError(
        f"contract: sensor_timeouts needs {names}, each with {ages} above 0, in that order"
    )


def _ages(entry: Any) -> SensorTimeouts:
    """Time-outs of one sensor, as floats: JSON may have 2 for 2.0, and the type of a ROS parameter
    is that of its initial value.

    Raises:
        TypeError, OverflowError: if the entry has other keys, or values that are no float.
    """
    ages = SensorTimeouts(**entry)
    if not all(type(age) in (int, float) for age in ages):  # a bool is an int too
        raise TypeError
    return SensorTimeouts(*map(float, ages))
