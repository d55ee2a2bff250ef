"""Consistency of joints and IMU: what moves must agree. Names swapped, signs, axes, dead values.

Each value alone is possible; together they contradict what legs and body do:

    joints     m, t, v: changes of a joint's angle, of its target 50 ms ago, and its integrated
               velocity, each forgotten with 0.1 s. A joint's sign is wrong if t fits -m better than
               m, two names are swapped if each joint's t fits the other's m better, velocities are
               wrong if m - v is nearly as large as m.
    IMU axes   two diagonal feet, d apart, that stand do not rise over each other:

                   (w x d)_z + (J1 dq1 - J2 dq2)_z = 0

               with the body's rate w by the IMU, about the base's axes, and the velocities J dq of
               the feet relative to the base. What is left of it, r, is compared with what another
               mount would leave: S = max(0, S + (r^2 - r_mount^2) / 2 sigma^2 - drift), a
               cumulative sum of log-likelihood ratios, for eight turns about z and two mirrors.
    rates      exactly the same while the orientation turns; or the orientation, while rates turn.
    tilt       of a robot that stands, see `StandingTilt`.

Feet that skid do not matter: they do so along the ground. The pair that stands is the lower one, of
legs whose knees push the body up. Only walking shows the axes: standing up turns the body by
nothing.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.rotation import Vector, inverse, is_unit, product, to_base_frame, up_z
from pixelgait.robot.spec import LEGS, Array, RobotSpec

# Comments of limits have the largest value of 716 walks of all shipped policies (two engines,
# randomised, lying at first, rough ground, steps, pushes), then that under the fault.
FORGET_S = 0.1  # time constant of a joint's motion
TARGET_AGE_STEPS = 5  # from a target to its effect: delay of motors in training 0 to 4, lag of legs
WINDOW_S = 1.0  # time constant of comparisons
LEAST_RAD = 0.05  # root mean square of motions that can be compared; encoder noise is a fifth
# Between readings whose motion can be compared: a knee in swing turns back within 0.05 s.
MOST_GAP_S = 0.025
LEAST = LEAST_RAD**2 * WINDOW_S / CONTROL_DT_S  # sum of squares
TINY = 1e-9
CHECK_STEPS = 10  # comparisons are drawn so rarely
BETTER = 2.0  # times better fits of targets under another sign or name: 1.32, 3
# In a step, between a joint's change and its integrated velocity: more is an impact that a reading
# caught, and does not count, unless there are as many within the window. Laikago, randomised,
# MuJoCo: 15 rad/s in one reading.
SPIKE_RAD, MOST_SPIKES = 0.07, 8.0
UNEXPLAINED = 0.6  # share of the motion that the velocity leaves: 0.18, 1
# Diagonal pairs of legs: FR and RL, FL and RR.
PAIRS = ((0, 3, 1, 2), (1, 2, 0, 3))  # legs of the pair, legs of the other
LOWER_M = 0.005  # mean height below the other pair's feet
STANDS_STEPS = 3  # for so long
LEVEL_UP_Z = 0.96  # beyond 0.28 rad a robot falls, or stands on two feet of one side
SIGMA_M_PER_S = 0.1  # of r: 0.13 m/s randomised, 0.01 to 0.07 m/s ideal
MOST_R_M_PER_S = 0.2  # a foot that does not stand says no more than that
DRIFTS = np.array([0.1] * 9 + [0.3])  # of all mounts but the right one; the last fits by chance
CONTRADICTION = 45.0  # 21; it grows by 20 to 60 in a second
TURNS_RAD = [k * math.pi / 4.0 for k in range(8)]
# Rows (4,) of each mount: the base's rates x, y from the IMU's.
MOUNTS = np.array(
    [(math.cos(a), -math.sin(a), math.sin(a), math.cos(a)) for a in TURNS_RAD]
    + [(1.0, 0.0, 0.0, -1.0), (-1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)]
)
CAUSES = [
    *(f"they agree if it is turned by {math.degrees(a):.0f} deg to the left" for a in TURNS_RAD),
    "they agree if its pitch has the other sign",
    "they agree if its roll has the other sign",
    "has a joint the name or sign of another?",  # the body turns otherwise than the legs say
]
# Tilt of a robot that stands: 0.08, 0.21; with two feet on a kerb of 10 cm up to 0.29.
TILTED_RAD, MOST_TILTED_RAD = 0.2, 0.35
# Load of the leg at the lower corner, as a share of the others' mean. On a kerb 0.75, since a lower
# leg bears more; a leg that stands otherwise than its encoders say 0.41.
BEARS = 0.6
# An IMU's rate that stays exactly the same for so long, while the orientation turns by more; or an
# orientation that stays exactly the same, while the integrated rate turns by more.
SAME_S, TURNED_RAD = 0.25, 0.05
# And by more than this in the same time: gyroscopes that give 0 for slow turns, or coarse steps,
# say the same for minutes while the heading drifts. Assumption.
LEAST_RAD_PER_S = 0.02
# Time constant of a rate's integral: a gyroscope's offset of that size never reaches the limit.
OFFSET_S = TURNED_RAD / LEAST_RAD_PER_S


class Motion(NamedTuple):
    """Joint angles and velocities (12,) [rad, rad/s] of a reading, without impossible ones."""

    time_s: float
    angles: Array
    velocities: Array


class JointConsistency:
    """Compares the motions of joint angles with those of their targets and with velocities."""

    def __init__(self, spec: RobotSpec) -> None:
        self._names, self._count = spec.joint_names, len(spec.joint_names)
        self._keep, self._keep_window = 1.0 - CONTROL_DT_S / FORGET_S, 1.0 - CONTROL_DT_S / WINDOW_S
        self.reset()

    def reset(self) -> None:
        """Forget all motions."""
        self._motions = np.zeros((3, self._count))  # m, t, v
        self._change = np.zeros((3, self._count))  # of each, in this step
        self._sums = np.zeros((4, self._count))  # of m m, t t, v v, m v
        self._crosses = np.zeros((self._count, self._count))  # sums of m of one and t of another
        self._spikes = np.zeros(self._count)  # of each velocity, within the window
        self._targets: deque[Array] = deque(maxlen=TARGET_AGE_STEPS + 1)
        self._last: Motion | None = None
        self._steps = 0

    def judge(self, now: Motion, sent: Array, powered: bool) -> str | None:
        """Check a reading, given the joints' last targets (12,) [rad]; without `powered` motors,
        only the velocities. Returns a contradiction, or None.
        """
        last, self._last = self._last, now
        self._targets.append(sent)
        if last is None:
            return None
        step_s, motions, change = now.time_s - last.time_s, self._motions, self._change
        if not 0.0 <= step_s <= MOST_GAP_S:
            motions.fill(0.0)
            return None
        np.subtract(now.angles, last.angles, out=change[0])
        if len(self._targets) > TARGET_AGE_STEPS:
            np.subtract(self._targets[1], self._targets[0], out=change[1])
        np.add(now.velocities, last.velocities, out=change[2])
        change[2] *= 0.5 * step_s
        spikes = np.abs(change[2] - change[0]) > SPIKE_RAD
        self._spikes = self._keep_window * self._spikes + spikes
        np.copyto(change[2], change[0], where=spikes & (self._spikes < MOST_SPIKES))
        motions *= self._keep
        motions += change
        moved, wanted, integrated = motions
        self._sums *= self._keep_window
        self._sums[:3] += motions * motions
        self._sums[3] += moved * integrated
        self._crosses *= self._keep_window
        self._crosses += moved[:, None] * wanted
        self._steps += 1
        if self._steps % CHECK_STEPS:
            return None
        return self._compare(powered)

    def _compare(self, powered: bool) -> str | None:
        """A contradiction of the motions so far."""
        moved, wanted, integrated, common = self._sums
        moves = moved > LEAST
        left = moved + integrated - 2.0 * common
        wrong = moves & (left > UNEXPLAINED * moved)
        if np.count_nonzero(wrong):
            worst = int(np.argmax(np.where(wrong, moved, 0.0)))
            return f"{self._names[worst]} moves otherwise than its velocity says"
        compared = np.flatnonzero(moves & (wanted > LEAST))
        if not powered or not compared.size:
            return None
        cross = self._crosses[compared][:, compared]
        return self._find_names(compared, (moved + wanted)[compared], cross)

    def _find_names(self, compared: NDArray[np.intp], total: Array, cross: Array) -> str | None:
        """A joint of another sign, or two whose names are swapped.

        Args:
            compared: the numbers of n joints that move, and whose targets do.
            total: sums of their squared motions (n,), of angle and target.
            cross: products (n, n) of the motions of one's angle and another's target.
        """
        own = cross.diagonal()
        left, flipped = total - 2.0 * own, total + 2.0 * own
        both, swapped = left[:, None] + left, total[:, None] + total - 2.0 * (cross + cross.T)
        better = both / np.maximum(swapped, TINY)  # under each other's name; 1 under its own
        if better.max() > BETTER:
            pair = np.unravel_index(np.argmax(better), better.shape)
            one, two = (self._names[compared[each]] for each in sorted(pair))
            return f"{one} and {two} move as each other's target: are their names swapped?"
        better = left / np.maximum(flipped, TINY)
        if better.max() <= BETTER:
            return None
        name = self._names[compared[np.argmax(better)]]
        return f"{name} moves against its target: is its sign, or its name, wrong?"


class ImuAxes:
    """Compares the IMU's axes with the body's rates by legs that stand."""

    def __init__(self, spec: RobotSpec, kinematics: LegKinematics | None = None) -> None:
        self._kinematics = kinematics or LegKinematics(spec)
        self._longer = spec.extension_signs
        self.reset()

    def reset(self) -> None:
        """Forget all steps."""
        self.sums = np.zeros(len(MOUNTS) - 1)  # S of all mounts but the right one
        self._stands = [0, 0]  # steps for which each pair has been the lower one

    def judge(self, reading: Reading, joints: Motion, sent: Array) -> str | None:
        """Check a reading, given the joints' targets (12,) [rad]; a contradiction, or None."""
        if up_z(reading.orientation.tolist()) < LEVEL_UP_Z:
            self._stands = [0, 0]
            return None
        angles = joints.angles.tolist()
        feet = self._kinematics.feet(angles)
        heights = [foot.position[2] for foot in feet]
        for pair, (one, two, three, four) in enumerate(PAIRS):
            below = heights[three] + heights[four] - heights[one] - heights[two]
            self._stands[pair] = self._stands[pair] + 1 if below > 2.0 * LOWER_M else 0
            if self._stands[pair] < STANDS_STEPS or not self._push(one, two, angles, sent):
                continue
            rates = joints.velocities.tolist()
            rise = [feet[leg].velocity(*rates[3 * leg : 3 * leg + 3])[2] for leg in (one, two)]
            apart = [a - b for a, b in zip(feet[one].position, feet[two].position, strict=True)]
            self._add(reading.angular_velocity.tolist(), apart, rise[1] - rise[0])
        if not np.count_nonzero(self.sums > CONTRADICTION):
            return None
        cause = CAUSES[1 + int(self.sums.argmax())]
        return f"the IMU contradicts the legs that stand: {cause}"

    def _push(self, one: int, two: int, angles: list[float], sent: Array) -> bool:
        """Whether both knees push their legs longer."""
        return all(
            self._longer[leg] * (float(sent[3 * leg + 2]) - angles[3 * leg + 2]) > 0.0
            for leg in (one, two)
        )

    def _add(self, rate: list[float], apart: list[float], rise: float) -> None:
        """Add a step in which feet, `apart` (3) [m], stand; one rises so much over the other by the
        body's turn, as joints say [m/s].
        """
        (wx, wy, _), (x, y, _) = rate, apart
        left = MOUNTS @ np.array((wx * y, wy * y, -wx * x, -wy * x)) - rise
        left *= left
        np.minimum(left, MOST_R_M_PER_S**2, out=left)
        left *= 0.5 / SIGMA_M_PER_S**2
        self.sums += left[0] - left[1:] - DRIFTS
        np.maximum(self.sums, 0.0, out=self.sums)


class StandingTilt:
    """Compares the tilt of a robot that stands with that of its feet, and with that before.

    The base's tilt is that of the plane through its feet, by joints, plus that of the ground: it
    lay on the same ground. On a kerb both are off. But where the ground is lower, a leg bears more;
    one that stands otherwise than its encoders say lets its corner sink, and bears little.
    """

    def __init__(self, spec: RobotSpec) -> None:
        self._kinematics = LegKinematics(spec)
        self._longer = np.array(spec.extension_signs)
        self._lay = np.array((0.0, 0.0, 1.0))  # up (3,) in the base's frame
        self._loads = np.zeros(len(LEGS))  # of the knees, summed since it stands

    def begin(self, reading: Reading) -> None:
        """The robot begins to stand up."""
        self._lay = _up(reading)
        self._loads = np.zeros(len(LEGS))

    def judge(self, reading: Reading, sent: Array) -> str | None:
        """Check a reading of a robot that has stood up, given the joints' targets (12,) [rad];
        a contradiction, or None. Called in every step until there is none.
        """
        self._loads += self._longer * (sent - reading.joint_angles)[2::3]
        up, legs = _up(reading), self._kinematics.feet(reading.joint_angles.tolist())
        feet = np.array([leg.position for leg in legs])
        right, left, rear_right, rear_left = feet
        normal = np.cross(right - rear_left, left - rear_right)
        tilt_rad = min(_between(up, normal), _between(up, self._lay))
        if not tilt_rad > TILTED_RAD:  # also for a nan
            return None
        lowest = int(np.argmin(feet @ up))
        bears = self._loads[lowest] > BEARS * np.delete(self._loads, lowest).mean()
        if bears and tilt_rad <= MOST_TILTED_RAD:
            return None
        return (
            f"stands tilted by {tilt_rad:.2f} rad, which its legs do not explain: "
            "has a joint the name or sign of another?"
        )


def _up(reading: Reading) -> Array:
    """The world's up axis (3,) in the base's frame."""
    return np.array(to_base_frame((0.0, 0.0, 1.0), reading.orientation.tolist()))


def _between(one: Array, two: Array) -> float:
    """The angle between two directions (3,) [rad]."""
    return math.atan2(float(np.linalg.norm(np.cross(one, two))), float(one @ two))


class RateConsistency:
    """Detects an IMU whose rate stays exactly the same although its orientation turns."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._rate: tuple[float, ...] | None = None
        self._since: tuple[float, ...] = ()  # orientation xyzw, time [s]

    def judge(self, reading: Reading) -> str | None:
        """Check a reading whose orientation is a unit quaternion; a contradiction, or None."""
        rate = tuple(reading.angular_velocity.tolist())
        if rate != self._rate:
            self._rate, self._since = rate, (*reading.orientation.tolist(), reading.time_s)
            return None
        x, y, z, w, time_s = self._since
        if not (same_s := reading.time_s - time_s) >= SAME_S:
            return None
        qx, qy, qz, qw = reading.orientation.tolist()
        ax, ay, az, aw = product(inverse((x, y, z, w)), (qx, qy, qz, qw))
        sign = 2.0 if aw >= 0.0 else -2.0
        turned = math.dist((sign * ax, sign * ay, sign * az), [each * same_s for each in rate])
        if turned <= max(TURNED_RAD, LEAST_RAD_PER_S * same_s):
            return None
        return f"the IMU's rate is the same for {same_s:.2f} s while it turns by {turned:.2f} rad"


class OrientationConsistency:
    """Detects an IMU whose orientation stays exactly the same although its rate turns.

    Only rates that differ from the one before count: an IMU that says the same of everything is
    frozen, which `ImuMonitor` finds, and a reading may be read twice.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._orientation: tuple[float, ...] | None = None
        self._rate: Vector = (0.0, 0.0, 0.0)
        self._since_s = self._changed_s = 0.0  # of the orientation and of the rate
        self._turned: Vector = (0.0, 0.0, 0.0)  # the rate's integral since then [rad]

    def judge(self, reading: Reading) -> str | None:
        """Check a reading; returns a contradiction, or None."""
        now_s, orientation = reading.time_s, tuple(reading.orientation.tolist())
        x, y, z = reading.angular_velocity.tolist()
        rate = (x, y, z)
        step_s = now_s - self._changed_s
        if orientation != self._orientation or not 0.0 <= step_s <= SAME_S:
            self._orientation, self._turned, self._since_s = orientation, (0.0, 0.0, 0.0), now_s
            self._rate, self._changed_s = rate, now_s
            return None
        if rate == self._rate:
            return None
        self._rate, self._changed_s = rate, now_s
        keep, (before_x, before_y, before_z) = 1.0 - step_s / OFFSET_S, self._turned
        self._turned = (
            keep * before_x + x * step_s,
            keep * before_y + y * step_s,
            keep * before_z + z * step_s,
        )
        same_s, turned = now_s - self._since_s, math.hypot(*self._turned)
        if same_s < SAME_S or turned <= TURNED_RAD:
            return None
        return (
            f"the IMU's orientation is the same for {same_s:.2f} s "
            f"while its rate turns by {turned:.2f} rad"
        )


class Consistency:
    """All checks of what moves; for a robot that is up."""

    def __init__(self, spec: RobotSpec, kinematics: LegKinematics | None = None) -> None:
        self.joints, self.axes = JointConsistency(spec), ImuAxes(spec, kinematics)
        self.rates, self.orientations = RateConsistency(), OrientationConsistency()
        self.standing = StandingTilt(spec)

    def begin(self, reading: Reading) -> None:
        """Forget everything: the robot begins to stand up."""
        for each in (self.joints, self.axes, self.rates, self.orientations):
            each.reset()
        self.standing.begin(reading)

    def judge(
        self,
        reading: Reading,
        angles: Array,
        velocities: Array,
        sent: Array,
        walking: bool,
        powered: bool,
    ) -> str | None:
        """Check a reading; returns a contradiction, or None.

        Args:
            reading: finite values.
            angles: joint angles (12,) [rad] without impossible ones.
            velocities: their velocities (12,) [rad/s].
            sent: the last targets (12,) [rad].
            walking: whether the policy walks; the IMU's axes are checked then alone.
            powered: whether the motors follow the targets, which they do not in a dry run.
        """
        joints = Motion(reading.time_s, angles, velocities)
        found = self.joints.judge(joints, sent, powered)
        if found is not None or not is_unit(reading.orientation.tolist()):
            return found
        if walking and powered and (found := self.axes.judge(reading, joints, sent)):
            return found
        return self.rates.judge(reading) or self.orientations.judge(reading)
