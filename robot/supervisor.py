"""The safety supervisor: the last word on every command, and the only one on what damps a robot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.rotation import up_z
from pixelgait.robot.spec import Array, RobotSpec

# A sensor falls silent: how long until the robot is damped [s]. It falls within tenths of a second
# without its joints, but not without its eyes: the camera may miss a few dozen frames.
SILENCE_S = MappingProxyType({"joints": 0.1, "imu": 0.1, "camera": 2.0})
# Before that, while a camera shows nothing new, the last decision holds for so long, then the robot
# slows to a stand. At full speed it walks 0.3 m unseeing.
STALE_IMAGE_S = 0.5
NO_AGES: Mapping[str, float] = MappingProxyType({})
LEAST_UP_Z = math.cos(1.2)  # tilt that ends an episode in Google's Laikago v2 environment
UNIT_TOLERANCE = 0.02  # of the squared norm of a quaternion, float32 rounding and more

# What is believed of a joint. All numbers are ours; behind each, what was measured at most: with
# shipped policies (both simulators, randomised, courses, rough ground, pushes, falls), then of an
# A1 that random weights make flail.
LIMIT_TOLERANCE_RAD = 0.3  # beyond a limit: none, 0.01
SPEED_TOLERANCE = 1.5  # times the highest speed, which blows can exceed: 0.55, 0.96
JUMP_TOLERANCE_RAD = 0.25  # beyond what the highest speed allows: none, none
DRIFT_TOLERANCE_RAD = 0.4  # of the position from its own velocity: 0.14, 0.17
DRIFT_S = 0.1  # over about so long
DRIFT_RAD_PER_S = 10.0  # more while bridged: a velocity says less of a longer way
MOST_GAP_S = 0.025  # between readings whose velocities still add up to the way in between
LONGEST_GAP_S = 1.0  # a clock that leaps further has been set
STUCK_S, STUCK_RAD = 0.25, 0.2  # exactly the same value, while the target moved so far
MOST_BRIDGED = 4  # bad readings of a joint, 40 ms, before they are a fault


class JointWatch:
    """Judges joint readings before a command relies on them, and keeps the last that can be.

    `angles` and `velocities` (12,) are the newest reading's, but of a joint in doubt the last
    trusted angle, at rest. A joint is in doubt for one reading if that cannot be true; for good,
    which is a fault, if most of them cannot. `trusted` says whether there has been a good one.
    """

    def __init__(self, spec: RobotSpec) -> None:
        self.spec = spec
        joints = len(spec.joint_names)
        lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
        self._middle = (lower + upper) / 2.0
        # Rows of both: position, velocity, way since the joint was trusted, drift from velocity.
        self._found, self._bounds = np.zeros((4, joints)), np.zeros((4, joints))
        self._bounds[0] = (upper - lower) / 2.0 + LIMIT_TOLERANCE_RAD
        self._bounds[1] = SPEED_TOLERANCE * spec.velocity_limit_rad_per_s
        self._bounds[2] = self._reachable(CONTROL_DT_S)
        self._bounds[3] = DRIFT_TOLERANCE_RAD
        self._last, self._seen = np.zeros(joints), np.zeros(joints)
        self._drift, self._new_drift, self._trusted_s = (np.zeros(joints) for _ in range(3))
        self._still_since_s, self._low, self._high = (np.zeros(joints) for _ in range(3))
        self._bad = np.zeros(joints, dtype=np.int64)
        self._reasons = [""] * joints
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self.trusted = self.in_doubt = self._recovering = self._still = False
        self.angles = self.velocities = np.zeros_like(self._last)
        self._stamp_s = math.nan
        self._clock_s = self._last_s = 0.0  # by the readings' stamps, but never backwards
        self._bad.fill(0)
        self._drift.fill(0.0)
        self._new_drift.fill(0.0)
        self._found.fill(0.0)

    def judge(self, reading: Reading, sent: Array) -> str | None:
        """What is wrong with a joint for good; `sent` are the targets (12,) it has [rad]."""
        angles, velocities = reading.joint_angles, reading.joint_velocities
        step_s = self._advance(reading.time_s)
        found = self._found
        np.subtract(angles, self._middle, out=found[0])
        found[1] = velocities
        if self.trusted:
            self._compare(angles, velocities, step_s)
            if stuck := self._find_stuck(angles, sent):
                return stuck
        self._seen[:] = angles
        np.abs(found, out=found)
        if np.count_nonzero(found > self._bounds):
            return self._doubt(reading, step_s)
        if self._recovering:
            self._count(0)
            self._trusted_s.fill(self._clock_s)
        self.trusted, self.in_doubt = True, False
        self.angles, self.velocities = angles, velocities
        self._last[:] = angles
        if step_s > 0.0:  # stamps that stand still say nothing of the drift
            self._drift[:] = self._new_drift
        return None

    def _advance(self, stamp_s: float) -> float:
        """Time since the last reading [s]: 0 for the same once more, or an older one."""
        step_s = max(0.0, stamp_s - self._stamp_s)  # this order takes NaN for 0
        self._stamp_s, self._last_s = stamp_s, self._clock_s
        self._clock_s += min(step_s, LONGEST_GAP_S)
        return step_s

    def _reachable(self, elapsed_s: Array | float) -> Array:
        """How far every joint (12,) can get in that time [rad]."""
        return JUMP_TOLERANCE_RAD + self.spec.velocity_limit_rad_per_s * elapsed_s

    def _compare(self, angles: Array, velocities: Array, step_s: float) -> None:
        """With the last trusted reading: the way there, and what velocities say of it."""
        way, drift = self._found[2], self._new_drift
        np.subtract(angles, self._last, out=way)
        if step_s > MOST_GAP_S:
            drift.fill(0.0)
        else:
            elapsed_s = self._clock_s - (self._trusted_s if self._recovering else self._last_s)
            np.multiply(self._drift, 1.0 - step_s / DRIFT_S, out=drift)
            drift += way
            drift -= velocities * elapsed_s
        self._found[3] = drift

    def _find_stuck(self, angles: Array, sent: Array) -> str | None:
        """A joint that reads exactly the same, though it was told to move."""
        changed = angles != self._seen
        if np.count_nonzero(changed) == changed.size:
            self._still = False
            return None
        if not self._still:
            self._still = True
            self._still_since_s.fill(self._last_s)
            self._low[:] = self._high[:] = sent
        self._still_since_s[changed] = self._clock_s
        self._low[changed] = self._high[changed] = sent[changed]
        np.minimum(self._low, sent, out=self._low)
        np.maximum(self._high, sent, out=self._high)
        long_still = self._clock_s - self._still_since_s >= STUCK_S
        stuck = long_still & (self._high - self._low > STUCK_RAD)
        if not np.count_nonzero(stuck):
            return None
        name, angle = self.spec.joint_names[np.argmax(stuck)], angles[np.argmax(stuck)]
        return f"{name} stuck at {angle:.2f} rad while its target moves"

    def _doubt(self, reading: Reading, step_s: float) -> str | None:
        """Judge joint by joint: bridge those in doubt, or say what is wrong with one."""
        if not self._recovering:
            self._trusted_s.fill(self._last_s)
        elapsed_s = np.maximum(self._clock_s - self._trusted_s, CONTROL_DT_S)
        bounds = self._bounds.copy()
        bounds[2] = self._reachable(elapsed_s)
        bounds[3] += DRIFT_RAD_PER_S * (elapsed_s - CONTROL_DT_S)
        bad = np.logical_or.reduce(self._found > bounds, axis=0)
        good = np.logical_not(bad)
        for joint in (bad > self._bad).nonzero()[0].tolist():
            self._reasons[joint] = self._reason(joint, reading, elapsed_s, bounds)
        self._count(bad)
        if self._bad.max() > MOST_BRIDGED:
            excess = (self._found / bounds).max(axis=0)
            worst = int(np.argmax(np.where(self._bad > MOST_BRIDGED, excess, 0.0)))
            return f"{self.spec.joint_names[worst]} {self._reasons[worst]}"
        self.in_doubt = bool(np.count_nonzero(bad))
        self.trusted = self.trusted or not self.in_doubt
        np.copyto(self._last, reading.joint_angles, where=good)
        np.copyto(self._trusted_s, self._clock_s, where=good)
        if step_s > 0.0:
            np.copyto(self._drift, self._new_drift, where=good)
        self.angles = self._last.copy()
        self.velocities = np.where(good, reading.joint_velocities, 0.0)
        return None

    def _count(self, bad: NDArray[np.bool_] | int) -> None:
        """One more for every joint that is bad (12,), one less for every other."""
        self._bad += 2 * bad - 1
        np.maximum(self._bad, 0, out=self._bad)
        self._recovering = bool(np.count_nonzero(self._bad))

    def _reason(self, joint: int, reading: Reading, elapsed_s: Array, bounds: Array) -> str:
        spec, angle = self.spec, float(reading.joint_angles[joint])
        lower, upper = float(spec.joint_lower_rad[joint]), float(spec.joint_upper_rad[joint])
        position, velocity, way, _ = (self._found > bounds)[:, joint]
        if position:
            in_degrees = abs(angle) > math.tau and lower <= math.radians(angle) <= upper
            hint = ": degrees instead of radians?" if in_degrees else ""
            return f"reads {_number(angle)} rad, limits are {lower:.2f} to {upper:.2f}{hint}"
        if velocity:
            speed = _number(abs(float(reading.joint_velocities[joint])), 1)
            most = spec.velocity_limit_rad_per_s[joint]
            return f"turns at {speed} rad/s, at most {most:.1f} is possible"
        if way:
            return f"jumps by {self._found[2, joint]:.2f} rad in {1e3 * elapsed_s[joint]:.0f} ms"
        moved = angle - self._last[joint]
        said = moved - self._new_drift[joint]
        return f"moves by {moved:.2f} rad where its velocity says {said:.2f}"


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.1e}"


class Supervisor:
    """Keeps targets to torque, joint and speed limits; damps, for good, when something is wrong.

    No command of stiff joints is outside the joint limits, and none moves a target faster than
    `target_speed_limit_rad_per_s`, whatever is read. `fault` names why the robot is damped, or is
    None. Only `reset` clears it. `bridged` counts readings with joints that were not believed.
    `timeout_s` says of every sensor by name how long it may be silent [s].
    """

    def __init__(self, spec: RobotSpec, timeout_s: Mapping[str, float] = SILENCE_S) -> None:
        self.spec = spec
        self.timeout_s = timeout_s
        self._joints = JointWatch(spec)
        self._zeros = np.zeros(len(spec.joint_names))
        self._damping = np.full(len(spec.joint_names), spec.damping_nms_per_rad)
        self._inverse_kp = 1.0 / spec.kp_nm_per_rad
        self._reach = spec.torque_limit_nm * self._inverse_kp
        self._step = spec.target_speed_limit_rad_per_s * CONTROL_DT_S
        self.reset()

    def reset(self) -> None:
        """Start anew: no fault, no reading, no command sent."""
        self.fault: str | None = None
        self.bridged = 0
        self._joints.reset()
        self._sent: Array | None = None

    def silent(self, ages: Mapping[str, float]) -> list[str]:
        """Of sensors with these ages [s], those that have been silent for too long."""
        return [name for name, age in ages.items() if not age <= self.timeout_s[name]]

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
        self.bridged += self._joints.in_doubt
        self._sent = self._limit(targets)
        spec = self.spec
        return JointCommand(
            reading.time_s, self._sent, spec.kp_nm_per_rad, spec.kd_nms_per_rad, self._zeros
        )

    def damp(self, time_s: float) -> JointCommand:
        """No stiffness, only damping: the robot sinks to the ground. Needs no reading."""
        return JointCommand(time_s, self._zeros, self._zeros, self._damping, self._zeros)

    def _find_silence(self, ages: Mapping[str, float]) -> str | None:
        for name in self.silent(ages):
            allowed = self.timeout_s[name]
            return f"{name} is silent for {ages[name]:.2f} s, at most {allowed} s is allowed"
        return None

    def _find_fault(self, reading: Reading, targets: Array) -> str | None:
        q, dq, w = reading.joint_angles, reading.joint_velocities, reading.angular_velocity
        orientation = reading.orientation
        # A squared length is finite only if all terms are; far cheaper than isfinite().all().
        squares = q.dot(q) + dq.dot(dq) + w.dot(w) + orientation.dot(orientation)
        if not (math.isfinite(squares) or _finite(q, dq, w, orientation)):
            return "a sensor value is not finite"
        if not (math.isfinite(targets.dot(targets)) or _finite(targets)):
            return "a joint target is not finite"
        x, y, z, w = quaternion = orientation.tolist()
        if not abs(x * x + y * y + z * z + w * w - 1.0) <= UNIT_TOLERANCE:
            return "the IMU's orientation is no unit quaternion"
        up = up_z(quaternion)
        if up < LEAST_UP_Z:
            return f"tilted by {math.acos(max(-1.0, up)):.2f} rad"
        return self._joints.judge(reading, q if self._sent is None else self._sent)

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


def _finite(*vectors: Array) -> bool:
    """Whether all values are: huge ones may have no square."""
    return all(np.isfinite(vector).all() for vector in vectors)
