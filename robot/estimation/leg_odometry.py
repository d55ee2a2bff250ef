"""Leg odometry: pose and velocity of the base by its legs and its IMU, and how far they may be off.

A foot that stands says how the base moves over it. With its centre p, the base's rate w, the
velocity J dq relative to the base, its own rate W and radius r, and up u, all in the base's frame:

    v = r W x u - J dq - w x p            it rolls about its point of contact

Feet that bear count, by the upward force u . f of their motors, f = -J^-T tau, and if they are low.
Motors answer late: of the last targets those count under which no foot pulls at the ground.

Feet skid ahead for an eighth of a gait cycle after touch-down, and others are dragged back. Then
legs disagree. So the velocity is a Kalman filter's: a foot counts less if it moves otherwise than
the base did so far, and the mean of all is as uncertain as they disagree. It coasts through skids.
The position is its sum. The velocity that is told goes by an accelerometer as well, if there is
one: see `VelocityFilter`. The position does not: a tilt of 0.01 rad looks like 0.1 m/s^2.

At rest, on four feet, the velocity is 0 and the heading holds; what the gyroscope measures then is
its bias, and how the IMU's heading turns is its drift.

The heading is the IMU's, less that drift. The IMU's up direction is filtered with the gyroscope,
which gives the bias of its other two axes.

How far the position may be off:

    random     errors of the velocity, each for a moment; much while no foot bears
    of a leg   constant errors of joint angles and radius: a share of the displacement
    heading    its drift turns the way
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pixelgait.robot.estimation.kinematics import Foot, LegKinematics
from pixelgait.robot.estimation.velocity_filter import VelocityFilter
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand, Reading
from pixelgait.robot.rotation import Vector, heading, is_unit, wrap_angle
from pixelgait.robot.spec import LEGS, RobotSpec

LONGEST_S = 0.5  # between two readings; more is a clock that was set: assumption
# Gains are per step of 10 ms. Found on walks of validation seeds: docs/robot/odometry.md.
TILT_GAIN = 0.1  # of the up direction
BIAS_GAIN, TURN_BIAS_GAIN = 0.01, 1e-3  # of the gyroscope's bias by up direction, by heading
FASTEST_RAD_PER_S = 5.0  # a faster turn is the IMU's, not the robot's; as of `HeadingHold`
DELAYS, DELAY_GAIN = 6, 6e-3  # ages of targets that are compared, in steps
WEIGHT_STEPS = 300  # over which the robot's weight is averaged
BORNE_SHARE = 0.3  # of the weight; a robot whose feet bear less is in the air
BORNE_GAIN = 0.1  # of that share, filtered
LEAST_SHARE, FULL_SHARE = 0.1, 0.6  # of the weight, from which a foot counts: a little, in full
LOW_M, LEAST_LOW = 0.02, 0.02  # above the lowest foot, where one counts little, and how much
LEAST_TRUST = 1e-6
LEAST_DET = 1e-4  # of a leg's Jacobian; less is a straight leg [m^3/rad^3]
FEW = 0.5  # sum of the feet's trust, below which they say little
CHANGE_M_PER_S = 0.04  # of the velocity in a step, standard deviation
SKID_AWAY_M_PER_S = 0.2  # from the velocity so far, at which a foot counts by half: it skids
FOOT_M_PER_S = 0.02  # error of legs that agree
SLOWS_S = 1.0  # to which the velocity falls in the air: the robot is lifted
REST_STEPS, REST_M_PER_S, REST_RAD_PER_S = 50, 0.03, 0.06
REST_GAIN, RATE_GAIN = 0.01, 0.03  # of the gyroscope's bias at rest; of its mean
DRIFT_REST_S = 2.0  # shorter rests say nothing about the heading's drift
# How far it may be off, standard deviations.
IN_THE_AIR_M_PER_S = 0.5  # at most; assumption
OPTIMISM = 2.0  # of the filter's variance: errors of legs last
MEMORY_S = 0.075  # for which an error of the velocity lasts
LEG_SHARE = 0.01  # of the displacement
HEADING_RAD, HEADING_NOISE_RAD = 0.01, 0.003  # of the IMU, against ours; of a reading
DRIFT_RAD_PER_S = 0.0012  # of `Randomisation.heading_drift_rad_per_s`
# Problems that are named.
IN_THE_AIR_S, IN_THE_AIR = 0.5, "no foot bears"
LOST_M, LOST = 0.25, "it was lifted, its position is not known any more"  # standard deviation
# Walks in simulation: up to 0.4 with a friction of 0.5, 0.45 to 0.6 with one of 0.15.
SKID_M_PER_S, SKID_GAIN, SKIDS = 0.5, 0.01, "the feet skid"
BIASED_RAD_PER_S, BIASED = 0.1, "the gyroscope is off"  # five times a usual offset
IMPOSSIBLE = "a sensor's value is impossible"
UNKNOWN = (IN_THE_AIR, LOST, IMPOSSIBLE)  # with which the position is not to be used


class Motion(NamedTuple):
    """The base's motion in REP 105's frame odom; velocities are ahead and to the left of it."""

    x: float  # [m]
    y: float
    heading: float  # [rad]
    height: float  # of the base above the ground under its feet [m]
    ahead: float  # [m/s]
    left: float
    turn: float  # [rad/s]
    position_variance: tuple[float, float, float]  # xx, xy, yy [m^2]
    heading_variance: float  # [rad^2]
    velocity_variance: float  # of ahead, and of left [m^2/s^2]
    problem: str | None  # why the legs say little at present
    up: Vector  # in the base's frame, filtered


class LegOdometry:
    """Integrates the motion of a robot's base; call `update` for every reading."""

    def __init__(self, spec: RobotSpec, kinematics: LegKinematics | None = None) -> None:
        self._kinematics, self._radius = kinematics or LegKinematics(spec), spec.foot_radius_m
        self._signs = [(a, -s) for a, s in zip(spec.abduction_signs, spec.swing_signs, strict=True)]
        self._stand_m = spec.stand_height_m
        self.reset()

    def reset(self, x: float = 0.0, y: float = 0.0, heading_rad: float = 0.0) -> None:
        """Begin anew with the next reading, at a place x, y [m] with a heading."""
        self._x, self._y, self._heading = x, y, heading_rad
        self._seen_rad: float | None = None  # heading by the IMU
        self._time_s = 0.0
        self._height = self._stand_m
        self._up: Vector = (0.0, 0.0, 1.0)  # in the base's frame
        self._bias: Vector = (0.0, 0.0, 0.0)  # of the gyroscope [rad/s]
        self._turn = 0.0  # [rad/s]
        self._targets: list[list[float]] = []  # that were sent, newest first
        self._pulls = [0.0] * DELAYS  # mean square force [N] of feet that would pull, by age
        self._age, self._checked = 0, 0  # of the targets that count; the one checked next
        self._weight, self._weighed = 0.0, 0  # [N], in so many steps
        self._ahead = self._left = 0.0
        self._variance = 0.0  # of either
        self._told = VelocityFilter()
        self._skid = 0.0  # mean square velocity of feet that bear, over the ground [m^2/s^2]
        self._borne, self._air_s = 1.0, 0.0  # share of the weight, filtered; time below the least
        self._still, self._stands = 0, False  # steps at rest; on all feet, or limp
        self._mean_rate: Vector = (0.0, 0.0, 0.0)
        self._rest_rad = 0.0  # the IMU has turned at rest
        self._drift, self._drift_variance = 0.0, DRIFT_RAD_PER_S**2
        self._moving_s = 0.0
        self._random = self._lifted = 0.0  # variance of either coordinate [m^2]; while in the air
        self._turned_variance = HEADING_RAD**2  # [rad^2], without the present drift
        self._way_x = self._way_y = 0.0  # displacement [m]
        self._bent_x = self._bent_y = 0.0  # displacement by a drift of 1 rad/s [m s]

    def update(self, reading: Reading, command: JointCommand | None) -> Motion:
        """The motion at a reading, with the newest command that was sent before it, if any."""
        q, dq = reading.joint_angles.tolist(), reading.joint_velocities.tolist()
        rate, quaternion = reading.angular_velocity.tolist(), reading.orientation.tolist()
        if not (math.isfinite(sum(q) + sum(dq) + sum(rate)) and is_unit(quaternion)):
            return self._motion(IMPOSSIBLE)
        step_s = reading.time_s - self._time_s
        if self._seen_rad is None:
            step_s, self._seen_rad, self._up = 0.0, heading(quaternion), up_in_base(quaternion)
        elif not 0.0 < step_s < LONGEST_S:
            self._time_s = reading.time_s
            return self._motion(self._problem())
        self._time_s = reading.time_s
        turned, rate = self._turn_by(rate, quaternion, step_s)
        feet = self._kinematics.feet(q)
        trusts = self._trusts(feet, q, dq, command)
        self._measure(feet, q, dq, rate, trusts, step_s, _force(reading))
        self._rest(rate, step_s)
        self._integrate(turned, step_s)
        return self._motion(self._problem())

    def _turn_by(
        self, rate: Sequence[float], quaternion: Sequence[float], step_s: float
    ) -> tuple[float, Vector]:
        """Turn the base; returns how its heading turned [rad], and the rate without its bias."""
        (bx, by, bz), (ux, uy, uz) = self._bias, self._up
        wx, wy, wz = rate[0] - bx, rate[1] - by, rate[2] - bz
        mx, my, mz = up_in_base(quaternion)
        ux, uy, uz = (  # du/dt = u x w
            ux + (uy * wz - uz * wy) * step_s,
            uy + (uz * wx - ux * wz) * step_s,
            uz + (ux * wy - uy * wx) * step_s,
        )
        vertical = wx * ux + wy * uy + wz * uz
        seen_rad = heading(quaternion)
        turned = wrap_angle(seen_rad - (self._seen_rad or 0.0))
        self._seen_rad = seen_rad
        if abs(turned) > FASTEST_RAD_PER_S * step_s:
            turned = vertical * step_s
        if step_s > 0.0:
            more = TURN_BIAS_GAIN * (vertical - turned / step_s)
            self._bias = (
                bx + BIAS_GAIN * (uy * mz - uz * my) + more * ux,
                by + BIAS_GAIN * (uz * mx - ux * mz) + more * uy,
                bz + BIAS_GAIN * (ux * my - uy * mx) + more * uz,
            )
        ux, uy, uz = (
            ux + TILT_GAIN * (mx - ux),
            uy + TILT_GAIN * (my - uy),
            uz + TILT_GAIN * (mz - uz),
        )
        scale = 1.0 / math.sqrt(ux * ux + uy * uy + uz * uz)
        self._up = (ux * scale, uy * scale, uz * scale)
        self._turn = vertical
        return turned, (wx, wy, wz)

    def _trusts(
        self, feet: Sequence[Foot], q: list[float], dq: list[float], command: JointCommand | None
    ) -> list[float]:
        """How much each foot's velocity says: it bears, and is low; and keep the base's height."""
        ux, uy, uz = self._up
        heights = [ux * x + uy * y + uz * z for (x, y, z), _, _, _ in feet]
        lowest, total, above = min(heights), 0.0, 0.0
        shares = self._shares(feet, q, dq, command)
        trusts = []
        for share, height in zip(shares, heights, strict=True):
            bears = (share - LEAST_SHARE) / (FULL_SHARE - LEAST_SHARE)
            low = (LOW_M - (height - lowest)) / (0.5 * LOW_M)
            bears = 0.0 if bears < 0.0 else 1.0 if bears > 1.0 else bears
            trust = LEAST_TRUST + bears * (
                LEAST_LOW if low < LEAST_LOW else 1.0 if low > 1.0 else low
            )
            trusts.append(trust)
            total += trust
            above -= trust * height
        self._height = above / total + self._radius
        return trusts

    def _shares(
        self, feet: Sequence[Foot], q: list[float], dq: list[float], command: JointCommand | None
    ) -> list[float]:
        """Shares of the weight (4) that the feet bear."""
        if command is None:
            return [1.0] * len(LEGS)
        sent = self._targets
        sent.insert(0, command.targets.tolist())
        del sent[DELAYS:]
        kp = command.kp.tolist()
        levers, forces = self._forces(feet, q, dq, kp, command)
        checked = self._checked = (self._checked + 1) % len(sent)
        pulls = self._pulls
        pull = sum(f * f for f in _under(sent[checked], levers, forces) if f < 0.0)
        pulls[checked] += DELAY_GAIN * (pull - pulls[checked])
        if checked == 0:
            self._age = min(range(len(sent)), key=pulls.__getitem__)
        loads = _under(sent[self._age], levers, forces)
        total = sum(load for load in loads if load > 0.0)
        stiff = kp[0] > 0.0
        if stiff and total > BORNE_SHARE * self._weight:
            self._weighed = min(self._weighed + 1, WEIGHT_STEPS)
            self._weight += (total - self._weight) / self._weighed
        shares = [load / (self._weight or 1.0) for load in loads]
        borne = sum(shares)  # with negative ones: those of legs that swing cancel
        borne = 0.0 if borne < 0.0 else 1.0 if borne > 1.0 else borne
        self._borne += BORNE_GAIN * (borne - self._borne)
        self._stands = not stiff or min(shares) > LEAST_SHARE
        return shares

    def _forces(
        self,
        feet: Sequence[Foot],
        q: list[float],
        dq: list[float],
        kp: list[float],
        command: JointCommand,
    ) -> tuple[list[float], list[float]]:
        """Upward forces of the feet as a function of the motors' targets t: f[leg] - levers . t.

        By -u . J^-T tau = -(J^-1 u) . tau. Returns levers (12) [N/rad] and f (4) [N].
        """
        (ux, uy, uz), kd, forward = self._up, command.kd.tolist(), command.feed_forward.tolist()
        levers: list[float] = []
        forces: list[float] = []
        i = 0
        for _, (_, ay, az), (hx, hy, hz), (kx, ky, kz) in feet:
            nx, ny, nz = hy * kz - hz * ky, hz * kx - hx * kz, hx * ky - hy * kx
            det = ay * ny + az * nz  # by abduction a foot does not move ahead
            scale = 1.0 / (det if abs(det) > LEAST_DET else math.copysign(LEAST_DET, det))
            a = (ux * nx + uy * ny + uz * nz) * scale
            h = (ux * (ky * az - kz * ay) - uy * kx * az + uz * kx * ay) * scale
            k = (ux * (ay * hz - az * hy) + uy * az * hx - uz * ay * hx) * scale
            pa, ph, pk = a * kp[i], h * kp[i + 1], k * kp[i + 2]
            levers += (pa, ph, pk)
            forces.append(
                pa * q[i]
                + ph * q[i + 1]
                + pk * q[i + 2]
                + a * (kd[i] * dq[i] - forward[i])
                + h * (kd[i + 1] * dq[i + 1] - forward[i + 1])
                + k * (kd[i + 2] * dq[i + 2] - forward[i + 2])
            )
            i += 3
        return levers, forces

    def _measure(
        self,
        feet: Sequence[Foot],
        q: list[float],
        dq: list[float],
        rate: Vector,
        trusts: list[float],
        step_s: float,
        force: Vector | None,
    ) -> None:
        """Correct the velocity by that over each foot, as much as legs agree."""
        (wx, wy, wz), (ux, uy, uz), radius = rate, self._up, self._radius
        level = math.sqrt(max(1e-9, 1.0 - ux * ux))
        fx, fy, fz = level, -ux * uy / level, -ux * uz / level  # ahead, level
        lx, ly, lz = uy * fz - uz * fy, uz * fx - ux * fz, ux * fy - uy * fx
        total = ahead = left = squares = bearing = skidding = 0.0
        i = 0
        for (
            ((px, py, pz), (_, ay, az), (hx, hy, hz), (kx, ky, kz)),
            (sign, way),
            trust,
        ) in zip(feet, self._signs, trusts, strict=True):
            da, dh, dk = dq[i], dq[i + 1], dq[i + 2]
            swing, tilt = way * (dh + dk), sign * q[i]
            ox, oy, oz = sign * da + wx, math.cos(tilt) * swing + wy, math.sin(tilt) * swing + wz
            vx = radius * (oy * uz - oz * uy) - hx * dh - kx * dk - wy * pz + wz * py
            vy = radius * (oz * ux - ox * uz) - ay * da - hy * dh - ky * dk - wz * px + wx * pz
            vz = radius * (ox * uy - oy * ux) - az * da - hz * dh - kz * dk - wx * py + wy * px
            a, b = vx * fx + vy * fy + vz * fz, vx * lx + vy * ly + vz * lz
            da, db = a - self._ahead, b - self._left
            away = da * da + db * db
            bearing += trust
            skidding += trust * away
            trust = trust / (1.0 + away / SKID_AWAY_M_PER_S**2)
            total += trust
            ahead += trust * a
            left += trust * b
            squares += trust * (a * a + b * b)
            i += 3
        ahead, left = ahead / total, left / total
        spread = max(0.0, squares / total - ahead * ahead - left * left)
        variance = FOOT_M_PER_S**2 + spread
        if total < FEW:
            variance += (FOOT_M_PER_S / max(total, 1e-3)) ** 2
        if bearing > FEW:
            self._skid += SKID_GAIN * (skidding / bearing - self._skid)
        bears = self._borne > BORNE_SHARE or self._still >= REST_STEPS
        self._air_s = 0.0 if bears else self._air_s + step_s
        if self._still >= REST_STEPS:
            ahead, left, variance = 0.0, 0.0, FOOT_M_PER_S**2
        self._correct(ahead, left, variance, step_s)
        told = self._told
        if force is None or not told.usable(force) or self._air_s > IN_THE_AIR_S:
            told.follow(self._ahead, self._left, self._variance)
            return
        px, py, pz = force
        ahead_of, left_of = fx * px + fy * py + fz * pz, lx * px + ly * py + lz * pz
        told.predict(ahead_of, left_of, self._turn, step_s)
        told.correct(ahead, left, variance)

    def _correct(self, ahead: float, left: float, variance: float, step_s: float) -> None:
        """Correct the velocity by a measured one [m/s] of this variance."""
        before = min(IN_THE_AIR_M_PER_S**2, self._variance + CHANGE_M_PER_S**2)
        gain = before / (before + variance)
        self._variance = before * (1.0 - gain)
        keep = 1.0 - step_s / SLOWS_S if self._air_s > IN_THE_AIR_S else 1.0
        self._ahead = keep * self._ahead + gain * (ahead - self._ahead)
        self._left = keep * self._left + gain * (left - self._left)

    def _rest(self, rate: Vector, step_s: float) -> None:
        """Count the steps at rest; what the gyroscope measures then is its bias."""
        (mx, my, mz), (wx, wy, wz), g = self._mean_rate, rate, RATE_GAIN
        mx, my, mz = mx + g * (wx - mx), my + g * (wy - my), mz + g * (wz - mz)
        self._mean_rate = mx, my, mz
        slow = self._ahead * self._ahead + self._left * self._left < REST_M_PER_S**2
        still = slow and mx * mx + my * my + mz * mz < REST_RAD_PER_S**2
        if not (still and self._stands):
            self._end_rest()
            return
        self._still += 1
        if self._still > REST_STEPS:
            (bx, by, bz), g = self._bias, REST_GAIN
            self._bias = bx + g * wx, by + g * wy, bz + g * wz

    def _end_rest(self) -> None:
        """The robot moves; how far its heading turned at rest says how the IMU drifts."""
        rest_s = (self._still - REST_STEPS) * CONTROL_DT_S
        if rest_s > DRIFT_REST_S:
            known = (HEADING_NOISE_RAD / rest_s) ** 2
            gain = self._drift_variance / (self._drift_variance + known)
            self._drift += gain * (self._rest_rad / rest_s - self._drift)
            self._settle_drift()
            self._drift_variance *= 1.0 - gain
        self._still, self._rest_rad = 0, 0.0

    def _settle_drift(self) -> None:
        """Add the drift's effect so far to the variances: a later estimate does not reduce it."""
        bent2 = self._bent_x * self._bent_x + self._bent_y * self._bent_y
        self._random += 0.5 * self._drift_variance * bent2
        self._turned_variance += self._drift_variance * self._moving_s**2
        self._bent_x = self._bent_y = self._moving_s = 0.0

    def _integrate(self, turned: float, step_s: float) -> None:
        """Move by the velocity, and let the uncertainty grow."""
        if self._still >= REST_STEPS:
            self._rest_rad += turned
            return
        turned -= self._drift * step_s
        middle = self._heading + 0.5 * turned
        cos, sin = math.cos(middle), math.sin(middle)
        dx = (cos * self._ahead - sin * self._left) * step_s
        dy = (sin * self._ahead + cos * self._left) * step_s
        self._x, self._y = self._x + dx, self._y + dy
        self._heading = wrap_angle(self._heading + turned)
        self._way_x, self._way_y = self._way_x + dx, self._way_y + dy
        self._moving_s += step_s
        self._bent_x -= self._moving_s * dy
        self._bent_y += self._moving_s * dx
        more = 2.0 * OPTIMISM * self._variance * max(MEMORY_S, self._air_s) * step_s
        self._random += more
        if self._air_s > IN_THE_AIR_S:
            self._lifted += more

    @property
    def lost(self) -> bool:
        """Whether the robot was lifted, and `settle` was not called since."""
        return self._lifted > LOST_M**2

    def settle(self) -> None:
        """Where a robot that was lifted is now counts as known: it has a new goal from there."""
        self._lifted = 0.0

    def _problem(self) -> str | None:
        """Why the legs, or the gyroscope, say little."""
        if self._air_s > IN_THE_AIR_S:
            return IN_THE_AIR
        if self.lost:
            return LOST
        if self._skid > SKID_M_PER_S**2:
            return SKIDS
        bx, by, bz = self._bias
        return BIASED if bx * bx + by * by + bz * bz > BIASED_RAD_PER_S**2 else None

    def _motion(self, problem: str | None) -> Motion:
        bx, by, drift = self._bent_x, self._bent_y, self._drift_variance
        own = self._random + LEG_SHARE**2 * (self._way_x * self._way_x + self._way_y * self._way_y)
        return Motion(
            self._x,
            self._y,
            self._heading,
            self._height,
            self._told.ahead,
            self._told.left,
            self._turn,
            (own + drift * bx * bx, drift * bx * by, own + drift * by * by),
            self._turned_variance + drift * self._moving_s * self._moving_s,
            OPTIMISM * self._told.variance,
            problem,
            self._up,
        )


def up_in_base(quaternion: Sequence[float]) -> Vector:
    """The world's up axis in the frame of a base with this orientation."""
    x, y, z, w = quaternion
    return 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


def _force(reading: Reading) -> Vector | None:
    """Specific force (3,) [m/s^2] in the base's frame; None without an accelerometer."""
    if reading.specific_force is None:
        return None
    x, y, z = reading.specific_force.tolist()
    return x, y, z


def _under(targets: list[float], levers: list[float], forces: list[float]) -> list[float]:
    """Upward forces of the feet [N] under targets (12) [rad]; see `LegOdometry._forces`."""
    return [
        forces[leg]
        - levers[3 * leg] * targets[3 * leg]
        - levers[3 * leg + 1] * targets[3 * leg + 1]
        - levers[3 * leg + 2] * targets[3 * leg + 2]
        for leg in range(len(forces))
    ]
