"""Sensor checks: which joint and IMU readings a command may rely on; unpowered motors.

A reading in doubt is bridged for a few control steps; what stays wrong is a fault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.rotation import Vector
from pixelgait.robot.spec import Array, RobotSpec

# Limits of joint readings are assumptions. Each comment has the largest value measured with shipped
# policies (both simulators, randomised, courses, rough ground, pushes, falls), then that of an A1
# that random weights make flail.
LIMIT_TOLERANCE_RAD = 0.3  # beyond a joint limit: none, 0.01
SPEED_TOLERANCE = 1.5  # times the highest speed, which impacts can exceed: 0.55, 0.96
JUMP_TOLERANCE_RAD = 0.25  # beyond what the highest speed allows: none, none
DRIFT_TOLERANCE_RAD = 0.4  # of the angle from its integrated velocity: 0.14, 0.17
DRIFT_S = 0.1  # time constant of that drift
DRIFT_RAD_PER_S = 10.0  # added while bridged: the integral gets worse with time
MAX_GAP_S = 0.025  # between readings whose velocities can be integrated
LONGEST_GAP_S = 1.0  # a clock that leaps further was set
STUCK_S, STUCK_RAD = 0.25, 0.2  # exactly the same value, while the target moved so far
# A joint at rest has so long to move: the largest motor delay in training, 40 ms
# (`motors.trained_delay_s` in the contract), and two readings.
ANSWER_S = 0.06
# Drift of the orientation from the integrated rate, and its time constant: 0.01 rad, or 0.08 with
# the noise and bias of randomised robots.
IMU_DRIFT_RAD, IMU_DRIFT_S = 0.35, 0.5
MAX_IMU_GAP_S = 0.05  # an IMU of 20 Hz and more; over longer gaps its rate cannot be integrated
MAX_BRIDGED = 4  # bad readings of a joint, 40 ms, before they are a fault
# Motion check, assumptions. When standing up, walking and lying down, shipped low levels (four
# robots, both simulators, randomised, rough ground, pushes) kept all joints at rest for at most
# 0.01 s after a target moved.
REST_RAD = 0.02  # motion below this is rest; encoder noise is a tenth of it
TARGET_MOVED_RAD = 0.2  # how far a target has moved since
REST_S = 0.25  # longest rest then, by the readings' stamps: silence is no rest
MAX_REST_STEP_S = 0.025  # longest rest that two successive readings prove


class JointMonitor:
    """Checks joint readings before a command relies on them, and keeps the last trusted ones.

    `angles` and `velocities` (12,) are those of the newest reading; a joint in doubt keeps its last
    trusted angle, at rest. A reading is `suspect` if any joint's value is impossible; a joint with
    mostly impossible readings is a fault. `trusted` says whether there was a good reading.
    """

    def __init__(self, spec: RobotSpec) -> None:
        self.spec = spec
        joints = len(spec.joint_names)
        lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
        self._middle = (lower + upper) / 2.0
        # Rows of both: angle, velocity, motion since the joint was trusted, drift from velocity.
        self._found, self._bounds = np.zeros((4, joints)), np.zeros((4, joints))
        self._bounds[0] = (upper - lower) / 2.0 + LIMIT_TOLERANCE_RAD
        self._bounds[1] = SPEED_TOLERANCE * spec.velocity_limit_rad_per_s
        self._bounds[2] = self._reachable(CONTROL_DT_S)
        self._bounds[3] = DRIFT_TOLERANCE_RAD
        self._last, self._seen = np.zeros(joints), np.zeros(joints)
        self._drift, self._new_drift, self._trusted_s = (np.zeros(joints) for _ in range(3))
        self._still_since_s, self._low, self._high = (np.zeros(joints) for _ in range(3))
        self._target_rest_s = np.zeros(joints)  # last time the target was near where it began
        self._bad = np.zeros(joints, dtype=np.int64)
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self.trusted = self.suspect = self._recovering = self._still = False
        self.angles = self.velocities = np.zeros_like(self._last)
        self._stamp_s = math.nan
        self._clock_s = self._last_s = 0.0  # by the readings' stamps, but never backwards
        self._bad.fill(0)
        self._drift.fill(0.0)
        self._new_drift.fill(0.0)
        self._found.fill(0.0)

    def filtered(self, reading: Reading) -> tuple[Array, Array]:
        """Joint angles and velocities (12,) [rad, rad/s]: where impossible, the last trusted angle,
        at rest."""
        angles, velocities = reading.joint_angles, reading.joint_velocities
        if not self.trusted:
            return angles, velocities
        found = self._found[:3]
        np.subtract(angles, self._middle, out=found[0])
        found[1] = velocities
        np.subtract(angles, self._last, out=found[2])
        impossible = np.abs(found, out=found) > self._bounds[:3]
        if not np.count_nonzero(impossible):
            return angles, velocities
        far = impossible[0] | impossible[2]
        fast = far | impossible[1]
        return np.where(far, self._last, angles), np.where(fast, 0.0, velocities)

    def judge(self, reading: Reading, sent: Array) -> str | None:
        """Check a reading, given the joints' targets (12,) [rad]; returns a fault, or None."""
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
            return self._judge_joints(reading, step_s)
        if self._recovering:
            self._count(0)
            self._trusted_s.fill(self._clock_s)
        self._trust(reading, step_s)
        return None

    def _trust(self, reading: Reading, step_s: float) -> None:
        """Rely on all joints."""
        self.trusted, self.suspect = True, False
        self.angles, self.velocities = reading.joint_angles, reading.joint_velocities
        self._last[:] = self.angles
        if step_s > 0.0:  # a repeated stamp leaves the drift as it is
            self._drift[:] = self._new_drift

    def _advance(self, stamp_s: float) -> float:
        """Time since the last reading [s]: 0 for a repeated or an older one."""
        step_s = max(0.0, stamp_s - self._stamp_s)  # this order takes NaN for 0
        self._stamp_s, self._last_s = stamp_s, self._clock_s
        self._clock_s += min(step_s, LONGEST_GAP_S)
        return step_s

    def _reachable(self, elapsed_s: Array | float) -> Array:
        """How far every joint (12,) can move in that time [rad]."""
        return JUMP_TOLERANCE_RAD + self.spec.velocity_limit_rad_per_s * elapsed_s

    def _compare(self, angles: Array, velocities: Array, step_s: float) -> None:
        """Motion since the last trusted reading, and its drift from the integrated velocities."""
        moved, drift = self._found[2], self._new_drift
        np.subtract(angles, self._last, out=moved)
        if step_s > MAX_GAP_S:
            drift.fill(0.0)
        else:
            elapsed_s = self._clock_s - (self._trusted_s if self._recovering else self._last_s)
            np.multiply(self._drift, 1.0 - step_s / DRIFT_S, out=drift)
            drift += moved
            drift -= velocities * elapsed_s
        self._found[3] = drift

    def _find_stuck(self, angles: Array, sent: Array) -> str | None:
        """Fault of a joint that reads exactly the same although its target moves."""
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
        at_rest = self._high - self._low <= STUCK_RAD
        np.copyto(self._target_rest_s, self._clock_s, where=at_rest)
        stuck = self._clock_s - self._still_since_s >= STUCK_S
        stuck &= self._clock_s - self._target_rest_s >= ANSWER_S
        if not np.count_nonzero(stuck):
            return None
        name, angle = self.spec.joint_names[np.argmax(stuck)], angles[np.argmax(stuck)]
        return f"{name} stuck at {angle:.2f} rad while its target moves"

    def _judge_joints(self, reading: Reading, step_s: float) -> str | None:
        """Check joint by joint: bridge those in doubt, or return the fault of one."""
        if not self._recovering:
            self._trusted_s.fill(self._last_s)
        elapsed_s = np.maximum(self._clock_s - self._trusted_s, CONTROL_DT_S)
        bounds = self._bounds.copy()
        bounds[2] = self._reachable(elapsed_s)
        bounds[3] += DRIFT_RAD_PER_S * (elapsed_s - CONTROL_DT_S)
        bad = np.logical_or.reduce(self._found > bounds, axis=0)
        good = np.logical_not(bad)
        self._count(bad)
        if self._bad.max() > MAX_BRIDGED:
            excess = (self._found / bounds).max(axis=0)
            worst = int(np.argmax(np.where(self._bad > MAX_BRIDGED, excess, 0.0)))
            reason = self._reason(worst, reading, elapsed_s, bounds)
            return f"{self.spec.joint_names[worst]} {reason}"
        self.suspect = bool(np.count_nonzero(bad))
        self.trusted = self.trusted or not self.suspect
        np.copyto(self._last, reading.joint_angles, where=good)
        np.copyto(self._trusted_s, self._clock_s, where=good)
        if step_s > 0.0:
            np.copyto(self._drift, self._new_drift, where=good)
        self.angles = self._last.copy()
        self.velocities = np.where(good, reading.joint_velocities, 0.0)
        return None

    def _count(self, bad: NDArray[np.bool_] | int) -> None:
        """Add one to the counter of every bad joint (12,), subtract one from all others."""
        self._bad += 2 * bad - 1
        np.maximum(self._bad, 0, out=self._bad)
        self._recovering = bool(np.count_nonzero(self._bad))

    def _reason(self, joint: int, reading: Reading, elapsed_s: Array, bounds: Array) -> str:
        spec, angle = self.spec, float(reading.joint_angles[joint])
        lower, upper = float(spec.joint_lower_rad[joint]), float(spec.joint_upper_rad[joint])
        beyond_limit, too_fast, jumps, _ = (self._found > bounds)[:, joint]
        if beyond_limit:
            in_degrees = abs(angle) > math.tau and lower <= math.radians(angle) <= upper
            hint = ": degrees instead of radians?" if in_degrees else ""
            return f"reads {_number(angle)} rad, limits are {lower:.2f} to {upper:.2f}{hint}"
        if too_fast:
            speed = _number(abs(float(reading.joint_velocities[joint])), 1)
            most = spec.velocity_limit_rad_per_s[joint]
            return f"turns at {speed} rad/s, at most {most:.1f} is possible"
        if jumps:
            return f"jumps by {self._found[2, joint]:.2f} rad in {1e3 * elapsed_s[joint]:.0f} ms"
        moved = angle - self._last[joint]
        integrated = moved - self._new_drift[joint]
        return f"moves by {moved:.2f} rad where its velocity says {integrated:.2f}"


class ImuMonitor:
    """Detects an IMU that is frozen, or whose orientation contradicts its rate.

    Readings are stamped by the joints' clock. A reading that is read twice counts once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._last: tuple[float, ...] | None = None  # orientation (4), rate (3)
        self._stamp_s = self._changed_s = self._still_s = self._moving_s = 0.0
        self._drift = (0.0, 0.0, 0.0)  # of the orientation from the integrated rate [rad]
        self._bad = 0
        self._low = self._high = np.zeros(0)  # range of joint angles since the IMU is frozen

    def judge(self, reading: Reading) -> str | None:
        """Check a reading whose orientation is a unit quaternion; returns a fault, or None."""
        values = (*reading.orientation.tolist(), *reading.angular_velocity.tolist())
        last, step_s = self._last, reading.time_s - self._stamp_s
        if last is not None and step_s == 0.0:
            return None
        self._stamp_s, steady = reading.time_s, 0.0 < step_s <= MAX_GAP_S
        if steady and values == last:
            return self._find_frozen(reading.joint_angles, step_s)
        since_s, self._changed_s = reading.time_s - self._changed_s, reading.time_s
        self._last, self._still_s = values, 0.0
        if last is None or not steady or since_s > MAX_IMU_GAP_S:
            self._drift, self._bad = (0.0, 0.0, 0.0), 0
            return None
        self._drift = x, y, z = _imu_drift(self._drift, last, values, since_s)
        distance = math.sqrt(x * x + y * y + z * z)
        self._bad = self._bad + 1 if distance > IMU_DRIFT_RAD else 0
        if self._bad > MAX_BRIDGED:
            return f"the IMU turns by {distance:.2f} rad more, or less, than its rate says"
        return None

    def _find_frozen(self, angles: Array, step_s: float) -> str | None:
        """Fault of an IMU that reads exactly the same although the robot moves."""
        if not self._still_s:
            self._low, self._high = angles, angles
            self._moving_s = 0.0
        self._still_s += step_s
        self._low, self._high = np.minimum(self._low, angles), np.maximum(self._high, angles)
        self._moving_s += step_s * bool((self._high - self._low).max() > STUCK_RAD)
        if self._still_s < STUCK_S or self._moving_s < ANSWER_S:
            return None
        return f"the IMU shows the same for {self._still_s:.2f} s while joints move"


def _imu_drift(drift: Vector, last: Sequence[float], now: Sequence[float], dt_s: float) -> Vector:
    """Drift of the orientation from the integrated rate (3,) [rad], a step later.

    `last` and `now` (7,) are orientation (4) and rate (3) of two readings.
    """
    keep = 1.0 - dt_s / IMU_DRIFT_S
    x, y, z = (
        keep * drifted + angle - 0.5 * dt_s * (before + after)
        for drifted, angle, before, after in zip(
            drift, _turn(last, now), last[4:], now[4:], strict=True
        )
    )
    return x, y, z


def _turn(last: Sequence[float], now: Sequence[float]) -> Vector:
    """From one orientation (4) to the next, as small angles about the base's axes [rad]."""
    a, b, c, d = -last[0], -last[1], -last[2], last[3]
    x, y, z, w = now[:4]
    sign = 2.0 - 4.0 * (d * w - a * x - b * y - c * z < 0.0)  # -2 for the other of two quaternions
    return (
        sign * (d * x + a * w + b * z - c * y),
        sign * (d * y - a * z + b * w + c * x),
        sign * (d * z + a * y - b * x + c * w),
    )


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.1e}"


class MotionCheck:
    """Detects unpowered motors: no joint moves although its target does.

    One joint may be held by an obstacle, but a powered robot never keeps all of them still. The
    fault must come while nothing moves: when power returns, full torque would be applied at once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._at: Array | None = None  # where the joints (12,) came to rest [rad]
        self._rest_s = self._stamp_s = 0.0  # rest since the targets moved; the last stamp

    def judge(self, reading: Reading, sent: Array) -> str | None:
        """Check a reading, given the joints' targets (12,) [rad]; returns a fault, or None."""
        angles, step_s = reading.joint_angles, reading.time_s - self._stamp_s
        self._stamp_s = reading.time_s
        if self._at is None or np.count_nonzero(np.abs(angles - self._at) > REST_RAD):
            self._at, self._low, self._high, self._rest_s = angles, sent, sent, 0.0
            return None
        self._low, self._high = np.minimum(self._low, sent), np.maximum(self._high, sent)
        moved_rad = (self._high - self._low).max()
        if moved_rad > TARGET_MOVED_RAD:
            self._rest_s += min(max(step_s, 0.0), MAX_REST_STEP_S)
        if self._rest_s <= REST_S:
            return None
        return f"no joint turns, though targets move by {moved_rad:.2f} rad: have motors power?"
