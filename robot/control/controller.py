"""Hierarchical controller: a high level decides now and then, a low level moves the joints.

The same object runs in training, in evaluation, behind a simulator's topics and on a robot. Batches
of MuJoCo robots run its array form, `sim/batched/controller.py`, tested bit-equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.low_level import (
    COMMAND,
    LATENT_SIZE,
    LATENT_SPEED_M_PER_S,
    PLANAR,
)
from pixelgait.robot.control.observation import NO_GOAL, base_velocity, goal_vector, policy_image
from pixelgait.robot.control.policy_map import PolicyMap
from pixelgait.robot.estimation.leg_odometry import LegOdometry, Motion
from pixelgait.robot.interface import CONTROL_DT_S, Image, JointCommand, Reading
from pixelgait.robot.rotation import heading, is_unit, wrap_angle
from pixelgait.robot.safety.supervisor import (
    CAMERA,
    NO_AGES,
    SENSOR_TIMEOUTS,
    SensorHealth,
    SensorTimeouts,
    Supervisor,
)
from pixelgait.robot.spec import AXES, Array, Legs, Ranges, RobotSpec

# A latent command is a velocity command: (-1..1, -1..1) are speed 0..max and yaw rate -max..max. A
# third value, if any, is the speed to the left as a share of the highest speed, a fourth the climb.
# Values beyond -1..1 are for low levels whose contract has larger ranges.
MAX_SPEED_M_PER_S = LATENT_SPEED_M_PER_S
MAX_YAW_RATE_RAD_PER_S = 1.0
# Velocity commands that the gait follows, by `spec.AXES`.
GAIT_COMMAND: Ranges = (
    (0.0, MAX_SPEED_M_PER_S),
    (0.0, 0.0),
    (-MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S),
)
SLOW_S = 0.3  # assumption: from full speed to a stand, when a sensor is stale

SHORTEST_STEPS, LONGEST_STEPS = 10, 800  # of a decision (IAP paper, section 5.3)
# Distance to a goal by odometry: within the 0.36 m of Habitat's point goals in spite of its error.
# 0.3, 0.2, 0.15 m: 78, 90, 89 of 100 randomised houses (seeds 8000 to 8099, navigator).
ARRIVAL_M = 0.2
UNKNOWN_AHEAD = NO_GOAL.copy()  # in a step whose orientation cannot be trusted
# Without odometry for longer the position is unknown; assumption: 0.3 m at most.
ODOMETRY_TIMEOUT_S = 0.5

# As it stands in the contract.
HIGH_LEVEL_CONTRACT = {
    "latent": {
        "speed_m_per_s": [0.0, MAX_SPEED_M_PER_S],
        "yaw_rate_rad_per_s": [-MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S],
    },
    "duration_steps": [SHORTEST_STEPS, LONGEST_STEPS],
    "look_again": {"steps": SHORTEST_STEPS, "stand_after_s": SENSOR_TIMEOUTS[CAMERA].stale_s},
    "slow_s": SLOW_S,
    "goal": "distance m, bearing rad, left positive; inf and 0: none, straight ahead",
    "arrival_m": ARRIVAL_M,
    "odometry_timeout_s": ODOMETRY_TIMEOUT_S,
    "state": "start with 0, feed next_state back; anew when the goal changes",
}


def gait_legs(spec: RobotSpec, kind: str = PLANAR.kind) -> Legs:
    """The legs of a robot that walks by a gait generator: gains and pose are its own."""
    gains = spec.kp_nm_per_rad, spec.kd_nms_per_rad
    omni = tuple((low, high) for _, low, high in COMMAND[: len(AXES)])
    return Legs(*gains, spec.default_pose_rad, GAIT_COMMAND if kind == PLANAR.kind else omni)


def commanded(latent: Array) -> tuple[float, float]:
    """Speed [m/s] and yaw rate [rad/s] of a latent command (2,)."""
    speed = (float(latent[0]) + 1.0) / 2.0 * MAX_SPEED_M_PER_S
    return speed, float(latent[1]) * MAX_YAW_RATE_RAD_PER_S


def velocity(latent: Array) -> Array:
    """Velocity (3,) of a latent command, by `spec.AXES`: ahead, left [m/s], yaw rate [rad/s]."""
    speed, yaw_rate = commanded(latent)
    left = float(latent[2]) * MAX_SPEED_M_PER_S if latent.size > LATENT_SIZE else 0.0
    return np.array((speed, left, yaw_rate))


def latent_of(command: Array) -> Array:
    """The latent command (3,) of a velocity (3,), whatever its range; (4,) with a climb."""
    speed, left, yaw_rate, *climb = command.tolist()
    ahead = 2.0 * speed / MAX_SPEED_M_PER_S - 1.0
    turn = yaw_rate / MAX_YAW_RATE_RAD_PER_S
    return np.array((ahead, turn, left / MAX_SPEED_M_PER_S, *climb))


def latent_within(ranges: Ranges, command: Array) -> Array:
    """The latent command of a velocity (3,) within these ranges; (2,) if none is to the side."""
    latent = latent_of(np.clip(command, *np.array(ranges).T))
    return latent if any(ranges[1]) else latent[:LATENT_SIZE]


def latent_for(speed: float, yaw_rate: float) -> Array:
    """The latent command (2,) for a speed [m/s] and a yaw rate [rad/s], within its range."""
    latent = (2.0 * speed / MAX_SPEED_M_PER_S - 1.0, yaw_rate / MAX_YAW_RATE_RAD_PER_S)
    return np.clip(latent, -1.0, 1.0)


STAND = latent_for(speed=0.0, yaw_rate=0.0)


def slower(latent: Array) -> Array:
    """The next latent command when slowing to a stand, from full speed within `SLOW_S`."""
    (speed, yaw_rate), share = commanded(latent), CONTROL_DT_S / SLOW_S
    turn = max(0.0, abs(yaw_rate) - share * MAX_YAW_RATE_RAD_PER_S)
    ahead = math.copysign(max(0.0, abs(speed) - share * MAX_SPEED_M_PER_S), speed)
    turn = math.copysign(turn, yaw_rate)
    slowed = 2.0 * ahead / MAX_SPEED_M_PER_S - 1.0, turn / MAX_YAW_RATE_RAD_PER_S
    aside = latent[LATENT_SIZE:]
    return np.concatenate((slowed, np.sign(aside) * np.maximum(0.0, np.abs(aside) - share)))


def without_speed(latent: Array, last: Array) -> Array:
    """A latent command whose speed ends within `SLOW_S`, after the last one: it may turn."""
    wanted, before = (float(np.hypot(*velocity(each)[:2])) for each in (latent, last))
    slow = max(0.0, before - CONTROL_DT_S / SLOW_S * MAX_SPEED_M_PER_S)
    share = min(1.0, slow / wanted) if wanted > 0.0 else 1.0
    return np.array((share * (latent[0] + 1.0) - 1.0, latent[1], *(share * latent[LATENT_SIZE:])))


class HeadingHold:
    """Heading controller: corrects the yaw rate of latent commands by the heading error.

    No gait turns by exactly the commanded yaw rate on every robot and ground, and without feedback
    a robot drifts aside when it walks straight ahead. The reference heading is the integral of the
    commanded yaw rate, low-pass filtered with `LAG_S`. A proportional term corrects the error.
    """

    GAIN_PER_S = 2.0
    MOST_RAD = 0.25  # limits the correction to 0.5 rad/s, as for a robot held by a wall
    LAG_S = 0.2
    FASTEST_RAD_PER_S = 5.0  # a faster change is the IMU's, not the robot's

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Hold the present heading."""
        self.error_rad = 0.0
        self._yaw_rate = 0.0  # of the reference heading
        self._heading: float | None = None

    def corrected(self, latent: Array, orientation: Array) -> Array:
        """The corrected latent command; its yaw rate may exceed the range by half."""
        before, self._heading = self._heading, heading(orientation.tolist())
        speed, yaw_rate = commanded(latent)
        ahead, turn, *aside = latent.tolist()
        stands = speed == 0.0 and yaw_rate == 0.0 and not any(aside[:1])
        if before is None or stands:  # a standing robot does not turn
            self.error_rad = self._yaw_rate = 0.0
            return latent
        self._yaw_rate += (yaw_rate - self._yaw_rate) * CONTROL_DT_S / self.LAG_S
        turned, fastest = wrap_angle(self._heading - before), self.FASTEST_RAD_PER_S * CONTROL_DT_S
        if abs(turned) <= fastest:  # false for a nan as well
            error = self.error_rad + self._yaw_rate * CONTROL_DT_S - turned
            self.error_rad = min(max(error, -self.MOST_RAD), self.MOST_RAD)
        more = self.GAIN_PER_S * self.error_rad / MAX_YAW_RATE_RAD_PER_S
        return np.array((ahead, turn + more, *aside))


# As it stands in the contract.
HEADING_HOLD = {
    "gain_per_s": HeadingHold.GAIN_PER_S,
    "most_rad": HeadingHold.MOST_RAD,
    "lag_s": HeadingHold.LAG_S,
    "fastest_rad_per_s": HeadingHold.FASTEST_RAD_PER_S,
}


MemoryState = Array | None  # (n,) recurrent state of a high level; None: initial


@dataclass(frozen=True, slots=True)
class Decision:
    """Output of the high level: a latent command and for how long it holds."""

    latent: Array  # (2,) in [-1, 1]
    duration_steps: int  # SHORTEST_STEPS to LONGEST_STEPS
    attention: NDArray[np.float32] | None = None  # (H', W')
    state: MemoryState = None  # recurrent state for the next decision


# From image (H, W, C), goal (2,), the last decision's recurrent state and, if it takes one, the map
# (32, W).
HighLevel = Callable[..., Decision]
# From a latent command, a reading and the carried state to joint targets (12,) [rad] and the next
# carried state. In the first step that is (1,), 0: a gait's phase [rad]; the rest is absent.
LowLevel = Callable[[Array, Reading, Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class ScheduledDecision:
    """Result of the high level in a control step."""

    latent: Array  # command to follow
    decision: Decision | None  # the newest; None before the first
    image: Image | None  # as the policy saw it, if it was asked in this step


@dataclass(frozen=True, slots=True)
class ControlResult:
    """Result of a control step: the command, and how it came about."""

    command: JointCommand
    latent: Array | None = None  # command followed; None: the low level did not run
    decision: Decision | None = None  # the newest of the high level
    image: Image | None = None  # as the policy saw it, if it was asked in this step


class Stopwatch:
    """Interface for timing the stages of a control step; this one measures nothing."""

    def start(self) -> None: ...

    def lap(self, stage: str) -> None: ...


NO_STOPWATCH = Stopwatch()


class DecisionScheduler:
    """Asks the high level whenever its last decision has run out, with the map if it takes one.

    Robots without legs, which follow latent commands by themselves, need no more than this.

    With a goal position it commands a stand once the robot has arrived, and while the position is
    unknown. Without one, "ahead" is the heading at the first step after `go_to` or `reset`.
    """

    def __init__(
        self,
        high_level: HighLevel,
        stopwatch: Stopwatch = NO_STOPWATCH,
        around: PolicyMap | None = None,
    ) -> None:
        self.high_level, self.around = high_level, around
        self.stopwatch = stopwatch
        self.decision: Decision | None = None  # the newest
        self.goal_position: Array | None = None  # (2,) x, y [m] in the odometry's frame
        self.arrived = False
        self._image: Image | None = None  # of the newest decision, as the high level saw it
        self._image_since_s = 0.0  # when that frame came first, on the readings' clock
        self._ahead_rad: float | None = None  # heading of "ahead", by the IMU
        self._steps_left = 0  # of the newest decision

    def reset(self) -> None:
        """Start an episode: a decision is due at the next step, straight ahead without a goal."""
        self._image = None
        if self.around is not None:
            self.around.forget()
        self.go_to(None)

    def look_again(self) -> None:
        """A decision is due at the next step, whatever the last one's duration."""
        self._steps_left = 0

    def go_to(self, goal_position: Array | None) -> None:
        """Walk to a position (2,) x, y [m] in the odometry's frame; None: straight ahead.

        The recurrent state starts anew.
        """
        self.goal_position, self.arrived, self._ahead_rad = goal_position, False, None
        self.decision = None

    def goal(self, reading: Reading) -> Array | None:
        """Distance [m] and bearing [rad] of the goal (2,); None: the position is unknown.

        Without a goal position the distance is inf, and the bearing that of "ahead".
        """
        if self.goal_position is None:
            return self._ahead(reading.orientation)
        if reading.odometry is None or not np.isfinite(reading.odometry).all():
            return None
        return goal_vector(self.goal_position, reading.odometry)

    def _ahead(self, orientation: Array) -> Array:
        if not is_unit(quaternion := orientation.tolist()):
            return UNKNOWN_AHEAD
        heading_rad = heading(quaternion)
        self._ahead_rad = heading_rad if self._ahead_rad is None else self._ahead_rad
        return np.array((math.inf, wrap_angle(self._ahead_rad - heading_rad)))

    def schedule(self, reading: Reading, hold: bool = False) -> ScheduledDecision:
        """The latent command of this control step; asks the high level if a decision is due.

        With `hold`, or while "ahead" is unknown, the last decision goes on instead.
        """
        if self.around is not None:
            self.around.step(reading)
        goal = self.goal(reading)
        self.arrived = self.arrived or (goal is not None and goal[0] < ARRIVAL_M)
        if goal is None or self.arrived:
            self._steps_left = 0  # a new decision is due as soon as it walks on
            return ScheduledDecision(STAND, self.decision, None)
        image = None
        if self.decision is None or self._steps_left <= 0:
            if hold or goal is UNKNOWN_AHEAD:  # a decision made now could hold for 8 s
                self._steps_left -= 1  # overdue
                latent = self.decision.latent if self.decision else STAND
                return ScheduledDecision(latent, self.decision, None)
            self.decision, image = self._decide(reading, goal)
            self._steps_left = self.decision.duration_steps
        self._steps_left -= 1
        return ScheduledDecision(self.decision.latent, self.decision, image)

    def _decide(self, reading: Reading, goal: Array) -> tuple[Decision, Image | None]:
        """A new decision and its image; without a new frame the last decision, prolonged."""
        frame = reading.image()
        image = replace(frame, pixels=policy_image(frame.pixels))
        self.stopwatch.lap("image_prepare")
        if self.decision and self._image and image.time_s == self._image.time_s:
            return self._prolonged(self.decision, reading.time_s - self._image_since_s), None
        self._image, self._image_since_s = image, reading.time_s
        state = self.decision.state if self.decision else None
        if self.around is not None:
            image = replace(image, around=self.around.seen(image, goal))
        around = () if image.around is None else (image.around,)
        decision = self.high_level(image.pixels, goal, state, *around)
        self.stopwatch.lap("high_level")
        return decision, image

    def _prolonged(self, last: Decision, image_age_s: float) -> Decision:
        """The last decision again, or a stand once its image is stale."""
        latent = last.latent if image_age_s <= self.camera_timeouts.stale_s else STAND
        return replace(last, latent=latent, duration_steps=SHORTEST_STEPS)

    @property
    def camera_timeouts(self) -> SensorTimeouts:
        return SENSOR_TIMEOUTS[CAMERA]


class Controller(DecisionScheduler):
    """Both levels and the supervisor, which has the last word on every command."""

    def __init__(
        self,
        high_level: HighLevel,
        low_level: LowLevel,
        supervisor: Supervisor,
        stopwatch: Stopwatch = NO_STOPWATCH,
        odometry: LegOdometry | None = None,
        around: PolicyMap | None = None,
    ) -> None:
        """With `odometry` readings of the low level have the base's velocity."""
        super().__init__(high_level, stopwatch, around)
        self.low_level = low_level
        self.supervisor = supervisor
        self._odometry = odometry
        self.motion: Motion | None = None  # by an operation's legs; None: by `odometry`
        self._sent: JointCommand | None = None  # the last command
        self.heading_hold = HeadingHold()
        self.carried = np.zeros(1)  # state of the low level
        self.wanted = self.followed = STAND  # latent commands of the last step
        self.free_m = math.inf  # of the wanted path, by a collision guard
        self.walked_steps = self.limited_steps = 0  # all; those whose targets were limited

    @property
    def phase(self) -> Array:
        """Phase of the gait generator (1,) [rad]."""
        return self.carried[:1]

    @property
    def limited_share(self) -> float:
        """Share of the steps of this walk whose targets the supervisor limited."""
        return self.limited_steps / max(1, self.walked_steps)

    @property
    def camera_timeouts(self) -> SensorTimeouts:
        """The supervisor's, which may be set while it walks."""
        return self.supervisor.sensor_timeouts.get(CAMERA, SENSOR_TIMEOUTS[CAMERA])

    def shadow(self) -> Controller:
        """A controller with the same graphs and a memory of its own."""
        supervisor = Supervisor(self.supervisor.spec, legs=self.supervisor.legs)
        odometry = None if self._odometry is None else LegOdometry(supervisor.spec)
        return Controller(self.high_level, self.low_level, supervisor, odometry=odometry)

    def reset(self) -> None:
        """Start anew with a robot in an unknown state: no fault, no reading, no command sent."""
        self.supervisor.reset()
        self._sent = None
        if self._odometry is not None:
            self._odometry.reset()
        self.begin()

    def begin(self) -> None:
        """Start an episode: phase 0, a decision is due at the next step.

        The supervisor is not reset: a robot that starts to walk stands on its last targets.
        """
        super().reset()
        self.carried = np.zeros(1)
        self.wanted = self.followed = STAND
        self.heading_hold.reset()
        self.walked_steps = self.limited_steps = 0

    def step(self, reading: Reading, ages: Mapping[str, float] = NO_AGES) -> ControlResult:
        """Answer a reading from sensors of these ages [s].

        The worst sensor health decides. AGEING: the last decision holds. STALE: the robot slows to
        a stand, as it does if a decision has been held for so long that an image would be stale.
        """
        felt = self.supervisor.filtered(reading)
        self.stopwatch.lap("observe")
        sensor_health = self.supervisor.sensor_health(ages)
        ageing = sensor_health is SensorHealth.AGEING
        if sensor_health < SensorHealth.STALE and not (ageing and self._held_too_long):
            scheduled = self.schedule(reading, hold=ageing)
        else:
            self._steps_left = -self._longest_overdue  # a new image comes first
            scheduled = ScheduledDecision(slower(self.followed), self.decision, None)
        command = self._move(scheduled.latent, reading, felt, ages)
        return ControlResult(command, self.followed, scheduled.decision, scheduled.image)

    @property
    def _held_too_long(self) -> bool:
        return self._steps_left <= -self._longest_overdue

    @property
    def _longest_overdue(self) -> int:
        """For how many control steps a decision may hold after its own."""
        timeouts = self.camera_timeouts
        return round((timeouts.stale_s - timeouts.ageing_s) / CONTROL_DT_S)

    def follow(
        self, latent: Array, reading: Reading, ages: Mapping[str, float] = NO_AGES
    ) -> ControlResult:
        """Answer a reading under a given latent command, without the high level."""
        felt = self.supervisor.filtered(reading)
        self.stopwatch.lap("observe")
        if self.supervisor.sensor_health(ages) >= SensorHealth.STALE:
            latent = slower(self.followed)
        return ControlResult(self._move(latent, reading, felt, ages), self.followed)

    def _move(
        self, latent: Array, reading: Reading, felt: Reading, ages: Mapping[str, float]
    ) -> JointCommand:
        self.wanted = latent
        if self.free_m < math.inf:
            latent = without_speed(latent, self.followed)
        self.followed = latent
        corrected = self.heading_hold.corrected(latent, reading.orientation)
        return self._command(corrected, reading, felt, ages)

    def _command(
        self, latent: Array, reading: Reading, felt: Reading, ages: Mapping[str, float]
    ) -> JointCommand:
        """The command to send for a latent command, by low level and supervisor."""
        if self._odometry is not None:
            motion = self.motion or self._odometry.update(reading, self._sent)
            felt = replace(felt, linear_velocity=base_velocity(motion))
        targets, self.carried = self.low_level(latent, felt, self.carried)
        self.stopwatch.lap("low_level")
        command = self.supervisor.review(reading, targets, ages, self.supervisor.walking)
        self.walked_steps += 1
        self.limited_steps += bool(np.count_nonzero(command.targets != targets))
        self._sent = command
        self.stopwatch.lap("safety")
        return command
