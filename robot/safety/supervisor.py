"""The safety supervisor: the last word on every command, and the only one on what damps a robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import is_unit, up_z
from pixelgait.robot.safety.motion_check import MotionCheck
from pixelgait.robot.safety.sensor_checks import MOST_BRIDGED, ImuMonitor, JointMonitor
from pixelgait.robot.spec import Array, RobotSpec


class SensorHealth(IntEnum):
    """How far what a sensor says can be relied on, by its age."""

    FRESH = 0
    AGEING = 1  # nothing new is decided, the last decision holds
    STALE = 2  # the robot slows to a stand
    DEAD = 3  # it is damped


class SensorTimeouts(NamedTuple):
    """From which ages on a sensor is ageing, stale, dead [s]."""

    ageing_s: float
    stale_s: float
    dead_s: float

    @property
    def ordered(self) -> bool:
        """Whether a sensor ages before it is stale, and is stale before it is dead."""
        return 0.0 < self.ageing_s <= self.stale_s <= self.dead_s < math.inf

    def sensor_health(self, age_s: float) -> SensorHealth:
        """Of what is so old; an age that is not a number is dead."""
        if age_s <= self.ageing_s and age_s <= self.dead_s:
            return SensorHealth.FRESH
        if not age_s <= self.dead_s:
            return SensorHealth.DEAD
        return SensorHealth.STALE if age_s > self.stale_s else SensorHealth.AGEING


# The controller's; a link calls what brings its images so, or camera/..., by the topic.
CAMERA = "camera"
# All ours. The robot falls within tenths of a second without its joints, but not without its eyes:
# the camera may miss a few dozen frames. Until it is stale it walks 0.3 m unseeing at full speed.
SENSOR_TIMEOUTS: Mapping[str, SensorTimeouts] = MappingProxyType(
    {
        "joints": SensorTimeouts(0.03, 0.06, 0.1),
        "imu": SensorTimeouts(0.03, 0.06, 0.1),
        CAMERA: SensorTimeouts(0.3, 0.5, 2.0),
    }
)
NO_AGES: Mapping[str, float] = MappingProxyType({})
TILT_LIMIT_RAD = 1.2  # ends an episode in Google's Laikago v2 environment
LEAST_UP_Z = math.cos(TILT_LIMIT_RAD)
# To stand up from, [rad] of tilt: ramps have 0.35 at most, who lies on a side has 1 and more. Ours.
LEAST_UP_Z_TO_RISE = math.cos(0.6)
NOT_FINITE = "a sensor value is not finite"


def without_camera(ages: Mapping[str, float]) -> dict[str, float]:
    """The ages [s] of a robot's sensors without those of its camera."""
    return {name: age for name, age in ages.items() if name.split("/")[0] != CAMERA}


class Supervisor:
    """Keeps targets to torque, joint and speed limits; damps, for good, when something is wrong.

    No command of stiff joints is outside the joint limits, and none moves a target faster than
    `target_speed_limit_rad_per_s`, whatever is read. `fault` names why the robot is damped, or is
    None. Only `reset` and `rise` clear it. `bridged` counts readings with joints, or an
    orientation, that were not believed. `patience` says of every sensor by name what its age means.
    Where nobody shall obey (`obeyed` is false), no joint is stuck.
    """

    def __init__(
        self, spec: RobotSpec, sensor_timeouts: Mapping[str, SensorTimeouts] = SENSOR_TIMEOUTS
    ) -> None:
        self.spec = spec
        self.sensor_timeouts = sensor_timeouts
        self.motors_enabled = True
        self._joints, self._imu, self._obedience = JointMonitor(spec), ImuMonitor(), MotionCheck()
        self._zeros = np.zeros(len(spec.joint_names))
        self._damping = np.full(len(spec.joint_names), spec.damping_nms_per_rad)
        self._inverse_kp = 1.0 / spec.kp_nm_per_rad
        self._reach = spec.torque_limit_nm * self._inverse_kp
        self._step = spec.target_speed_limit_rad_per_s * CONTROL_DT_S
        self.reset()

    def reset(self) -> None:
        """Start anew: no fault, no reading, no command sent."""
        self._joints.reset()
        self._unreadable = 0  # readings in a row, of a robot that lies
        self.rise()

    def rise(self) -> None:
        """Start anew from where the joints are: no fault, no command sent."""
        self.fault: str | None = None
        self.bridged = self._bad_imu = 0
        self._imu.reset()
        self._obedience.reset()
        self._sent: Array | None = None

    def fail(self, reason: str) -> None:
        """Damp for good, for a reason that others have found; the first one is kept."""
        self.fault = self.fault or reason

    def filtered(self, joint_angles: Array) -> Array:
        """Joint angles (12,) [rad] that a policy may see, before they are judged."""
        return self._joints.filtered(joint_angles)

    def watch(self, reading: Reading, rises: bool = False) -> bool:
        """Of a robot that lies limp: whether its joint angles can be believed.

        Whoever lets it stand up from there must not begin with one reading in which all is wrong.
        What is wrong for good is a fault if it `rises`, that is, would if it could be believed.
        """
        joints, q = self._joints, reading.joint_angles
        finite = _finite(q, reading.joint_velocities)
        self._unreadable = 0 if finite else self._unreadable + 1
        wrong = joints.judge(reading, q) if finite else NOT_FINITE
        if wrong is not None:
            joints.reset()
            if rises and (finite or self._unreadable > MOST_BRIDGED):
                self.fault = wrong
        elif rises and (up := up_z(reading.orientation.tolist())) < LEAST_UP_Z_TO_RISE:
            self.fault = f"{_tilted(up)}: it cannot stand up from there"
            return False
        return joints.trusted and not joints.suspect

    def sensor_health(self, ages: Mapping[str, float]) -> SensorHealth:
        """The worst of sensors with these ages [s]."""
        sensor_timeouts = self.sensor_timeouts
        return max(
            (sensor_timeouts[n].sensor_health(age) for n, age in ages.items()),
            default=SensorHealth.FRESH,
        )

    def silent(self, ages: Mapping[str, float]) -> list[str]:
        """Of sensors with these ages [s], those that have been silent for too long."""
        return [name for name, age in ages.items() if not age <= self.sensor_timeouts[name].dead_s]

    def review(
        self, reading: Reading, targets: Array, ages: Mapping[str, float] = NO_AGES
    ) -> JointCommand:
        """The command to send for the low level's joint targets (12,) [rad].

        `ages` are those of the sensors behind the reading [s]; see `Body.ages`. Until joints were
        read that can be believed, it damps without a fault.
        """
        if self.fault is None:
            with np.errstate(over="ignore"):  # of values as large as a float can be
                self.fault = self._find_silence(ages) or self._find_fault(reading, targets)
        if self.fault is not None or not self._joints.trusted:
            return self.damp(reading.time_s)
        self.bridged += self._joints.suspect or self._bad_imu > 0
        # Targets for a body that stands as no body can: the last ones are better.
        held = self._sent if self._bad_imu else None
        self._sent = self._limit(targets if held is None else held)
        spec = self.spec
        return JointCommand(
            reading.time_s, self._sent, spec.kp_nm_per_rad, spec.kd_nms_per_rad, self._zeros
        )

    def damp(self, time_s: float) -> JointCommand:
        """No stiffness, only damping: the robot sinks to the ground. Needs no reading."""
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
            if up < LEAST_UP_Z:
                return _tilted(up)
            if warning := self._imu.judge(reading):
                return warning
        else:
            self._bad_imu += 1
            if self._bad_imu > MOST_BRIDGED or self._sent is None:
                return "the IMU's orientation is no unit quaternion"
        sent = q if self._sent is None or not self.motors_enabled else self._sent
        return self._joints.judge(reading, sent) or self._obedience.judge(reading, sent)

    def _limit(self, targets: Array) -> Array:
        """Targets so near that the PD torque keeps its limits, within the joint limits, and near
        the last ones: those were within the joint limits, so this keeps them.
        """
        spec, q = self.spec, self._joints.angles
        hold = q + spec.kd_nms_per_rad * self._joints.velocities * self._inverse_kp  # no torque
        targets = np.minimum(np.maximum(targets, hold - self._reach), hold + self._reach)
        lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
        np.minimum(np.maximum(targets, lower, out=targets), upper, out=targets)
        sent = np.minimum(np.maximum(q, lower), upper) if self._sent is None else self._sent
        return np.minimum(np.maximum(targets, sent - self._step), sent + self._step)


def _tilted(up: float) -> str:
    return f"tilted by {math.acos(max(-1.0, up)):.2f} rad"


def _finite(*vectors: Array) -> bool:
    """Whether all values are: huge ones may have no square."""
    return all(np.isfinite(vector).all() for vector in vectors)


def sensor_timeouts_contract() -> dict[str, dict[str, float]]:
    """What a contract says of ages."""
    return {name: sensor_timeouts._asdict() for name, sensor_timeouts in SENSOR_TIMEOUTS.items()}


def sensor_timeouts_of(contract: Mapping[str, Any]) -> Mapping[str, SensorTimeouts]:
    """What a contract says of ages.

    Raises:
        UserError: it says something else than seconds above 0, in that order.
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


def _ages(said: Any) -> SensorTimeouts:
    """Of one sensor, as floats: JSON of other programs may say 2 for 2.0, and a parameter of ROS is
    of the type that it begins with, which could then not be set to 1.5.

    Raises:
        TypeError, OverflowError: these are not its ages, or no numbers that a float can be.
    """
    ages = SensorTimeouts(**said)
    if not all(type(age) in (int, float) for age in ages):  # a bool is an int too
        raise TypeError
    return SensorTimeouts(*map(float, ages))
