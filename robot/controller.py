"""The hierarchical controller: one object for training, evaluation, simulators and the robot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.low_level import CONTROL_DT_S
from pixelgait.robot.observation import NO_GOAL, goal_vector, imu_vector, policy_image
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.spec import Array
from pixelgait.robot.supervisor import CAMERA, NO_AGES, PATIENCE, Patience, Stage, Supervisor

SHORTEST_STEPS, LONGEST_STEPS = 10, 800  # of a decision (IAP paper, section 5.3)
# From a destination, by odometry: within the 0.36 m of Habitat's point goals even where it errs.
# 0.3, 0.2, 0.15 m: 78, 90, 89 of 100 randomised houses (seeds 8000 to 8099, navigator).
ARRIVAL_M = 0.2
ODOMETRY_TIMEOUT_S = 0.5  # silent for longer: nobody knows where the robot is; ours, 0.3 m at most
SLOW_S = 0.3  # from full speed to a stand, when a sensor is stale; ours

# What a latent command stands for, a velocity command: (-1..1, -1..1) is speed and yaw rate.
MAX_SPEED_M_PER_S = 0.6
MAX_YAW_RATE_RAD_PER_S = 1.0

# As it stands in the contract.
HIGH_LEVEL_CONTRACT = {
    "latent": {
        "speed_m_per_s": [0.0, MAX_SPEED_M_PER_S],
        "yaw_rate_rad_per_s": [-MAX_YAW_RATE_RAD_PER_S, MAX_YAW_RATE_RAD_PER_S],
    },
    "duration_steps": [SHORTEST_STEPS, LONGEST_STEPS],
    "look_again": {"steps": SHORTEST_STEPS, "stand_after_s": PATIENCE[CAMERA].stale_s},
    "slow_s": SLOW_S,
    "goal": "distance m, bearing rad, left positive; inf and 0: none, straight ahead",
    "arrival_m": ARRIVAL_M,
    "odometry_timeout_s": ODOMETRY_TIMEOUT_S,
    "state": "start with 0, feed next_state back; anew when the goal changes",
}


def commanded(latent: Array) -> tuple[float, float]:
    """Speed [m/s] and yaw rate [rad/s] that a latent command (2,) asks for."""
    speed = (float(latent[0]) + 1.0) / 2.0 * MAX_SPEED_M_PER_S
    return speed, float(latent[1]) * MAX_YAW_RATE_RAD_PER_S


def latent_for(speed: float, yaw_rate: float) -> Array:
    """The latent command (2,) for a speed [m/s] and a yaw rate [rad/s], within its range."""
    latent = (2.0 * speed / MAX_SPEED_M_PER_S - 1.0, yaw_rate / MAX_YAW_RATE_RAD_PER_S)
    return np.clip(latent, -1.0, 1.0)


State = Array | None  # (n,) memory of a high level; None: it starts anew


@dataclass(frozen=True, slots=True)
class Decision:
    """What the high level decided: a latent command and for how long it holds."""

    latent: Array  # (2,) in [-1, 1]
    duration_steps: int  # SHORTEST_STEPS to LONGEST_STEPS
    attention: NDArray[np.float32] | None = None  # (H', W')
    state: State = None  # what the high level remembers, for its next decision


STAND = latent_for(speed=0.0, yaw_rate=0.0)

# From image (H, W, C), goal (2,) and what the last decision left to remember.
HighLevel = Callable[[NDArray[np.uint8], Array, State], Decision]
# From latent (2,), imu (4,), joint angles (12,) and what it carries from step to step to targets
# (12,) and that again: the phase (1,) [rad], then what it remembers, which at first is left out.
LowLevel = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class Stopwatch:
    """Does nothing: what the controller uses where nobody measures."""

    def start(self) -> None: ...

    def lap(self, stage: str) -> None: ...


NO_STOPWATCH = Stopwatch()


class DecisionScheduler:
    """Runs the high level when its own last decision has run out.

    All that is needed by robots which follow latent commands by themselves, as those without legs.

    With a destination it stands as soon as it has arrived there, and as long as nobody knows where
    it is. Without one ahead is where it looked when it began to walk: after it has stood up, anew.
    """

    def __init__(self, high_level: HighLevel, stopwatch: Stopwatch = NO_STOPWATCH) -> None:
        self.high_level = high_level
        self.stopwatch = stopwatch
        self.patience: Mapping[str, Patience] = PATIENCE
        self.decision: Decision | None = None
        self.image: Image | None = None  # of the last decision, as the high level saw it
        self.images = 0
        self.destination: Array | None = None  # (2,) x, y [m] in the odometry's frame
        self.arrived = False
        self._began: float | None = None  # heading [rad] of ahead, by the IMU
        self._steps_left = 0
        self._image_since_s = 0.0  # when the frame was first there, on the readings' clock

    def reset(self) -> None:
        """Start a new episode: a decision is due at the next step, nowhere to go but ahead."""
        self.images = 0
        self.image = None
        self.go_to(None)

    def go_to(self, destination: Array | None) -> None:
        """Walk to a place (2,) x, y [m] in the odometry's frame, or on as it looks now.

        Nothing that was remembered on the way elsewhere counts.
        """
        self.destination, self.arrived, self._began = destination, False, None
        self.decision = None

    def goal(self, reading: Reading) -> Array | None:
        """Distance [m] and bearing [rad] of the destination (2,); None: nobody knows.

        Of none the distance is inf, and the bearing that of ahead.
        """
        if self.destination is None:
            return self._ahead(reading.orientation)
        if reading.odometry is None or not np.isfinite(reading.odometry).all():
            return None
        return goal_vector(self.destination, reading.odometry)

    def _ahead(self, orientation: Array) -> Array:
        """The goal (2,) of a robot without a destination; of n robots, (n, 4), straight ahead."""
        heading_rad = heading(orientation.tolist()) if orientation.ndim == 1 else math.nan
        if not math.isfinite(heading_rad):
            return NO_GOAL
        self._began = heading_rad if self._began is None else self._began
        return np.array((math.inf, wrap_angle(self._began - heading_rad)))

    def latent(self, reading: Reading, hold: bool = False) -> Array:
        """The latent command (2,) of this control step; told to `hold`, it decides nothing."""
        goal = self.goal(reading)
        self.arrived = self.arrived or (goal is not None and goal[0] < ARRIVAL_M)
        if goal is None or self.arrived:
            self._steps_left = 0  # once it goes on, it looks first
            return STAND
        if self.decision is None or self._steps_left <= 0:
            if hold:
                return self.decision.latent if self.decision else STAND
            self.decision = self._decide(reading, goal)
            self._steps_left = self.decision.duration_steps
        self._steps_left -= 1
        return self.decision.latent

    def _decide(self, reading: Reading, goal: Array) -> Decision:
        frame = reading.image()
        image = replace(frame, pixels=policy_image(frame.pixels))
        self.stopwatch.lap("image_prepare")
        if self.decision and self.image and image.time_s == self.image.time_s:
            return self._without_news(reading.time_s - self._image_since_s, self.decision)
        self.image, self._image_since_s = image, reading.time_s
        self.images += 1
        remembered = self.decision.state if self.decision else None
        decision = self.high_level(image.pixels, goal, remembered)
        self.stopwatch.lap("high_level")
        return decision

    def _without_news(self, age_s: float, last: Decision) -> Decision:
        """What to do while the camera still shows the frame of the last decision."""
        patience = self.patience.get(CAMERA, PATIENCE[CAMERA])
        latent = last.latent if age_s <= patience.stale_s else STAND
        return replace(last, latent=latent, duration_steps=SHORTEST_STEPS)


def slower(latent: Array) -> Array:
    """A latent command (2,) a control step later, on the way to a stand within `SLOW_S`."""
    speed, yaw_rate = commanded(latent)
    share = CONTROL_DT_S / SLOW_S
    turn = max(0.0, abs(yaw_rate) - share * MAX_YAW_RATE_RAD_PER_S)
    return latent_for(max(0.0, speed - share * MAX_SPEED_M_PER_S), math.copysign(turn, yaw_rate))


class HeadingHold:
    """Turns the robot as far as it was told to: corrects the turn of latent commands.

    No gait turns by exactly what is asked for, on every robot and ground, and one that walks
    straight ahead drifts aside unless somebody looks where it is heading. The heading shall follow
    the integral of the commanded yaw rate, as a robot without inertia in legs and body could not
    do better: smoothed over `LAG_S`. What is missing is added to the yaw rate asked for.
    """

    GAIN_PER_S = 2.0
    MOST_RAD = 0.25  # held against a wall it asks for 0.5 rad/s more, and no more
    LAG_S = 0.2
    FASTEST_RAD_PER_S = 5.0  # no faster than that does the heading itself change: else the IMU's

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Hold whatever heading the robot has now."""
        self.missing_rad = 0.0
        self._yaw_rate = 0.0  # that the heading follows
        self._heading: float | None = None

    def corrected(self, latent: Array, orientation: Array) -> Array:
        """The latent command (2,) for the low level: turn within 1.5 times its range."""
        before, self._heading = self._heading, heading(orientation.tolist())
        speed, yaw_rate = commanded(latent)
        if before is None or (speed == 0.0 and yaw_rate == 0.0):  # a stand does not turn its feet
            self.missing_rad = self._yaw_rate = 0.0
            return latent
        self._yaw_rate += (yaw_rate - self._yaw_rate) * CONTROL_DT_S / self.LAG_S
        turned, fastest = wrap_angle(self._heading - before), self.FASTEST_RAD_PER_S * CONTROL_DT_S
        if abs(turned) <= fastest:  # neither a jump nor not a number
            missing = self.missing_rad + self._yaw_rate * CONTROL_DT_S - turned
            self.missing_rad = min(max(missing, -self.MOST_RAD), self.MOST_RAD)
        more = self.GAIN_PER_S * self.missing_rad / MAX_YAW_RATE_RAD_PER_S
        return np.array((latent[0], latent[1] + more))


# As it stands in the contract.
HEADING_HOLD = {
    "gain_per_s": HeadingHold.GAIN_PER_S,
    "most_rad": HeadingHold.MOST_RAD,
    "lag_s": HeadingHold.LAG_S,
    "fastest_rad_per_s": HeadingHold.FASTEST_RAD_PER_S,
}


class Controller(DecisionScheduler):
    """Both levels and the supervisor: the low level runs every step, the supervisor comes last."""

    def __init__(
        self,
        high_level: HighLevel,
        low_level: LowLevel,
        supervisor: Supervisor,
        stopwatch: Stopwatch = NO_STOPWATCH,
    ) -> None:
        super().__init__(high_level, stopwatch)
        self.low_level = low_level
        self.supervisor = supervisor
        self.patience = supervisor.patience
        self.heading_hold = HeadingHold()
        self.carried = np.zeros(1)  # by the low level
        self.followed = STAND  # latent command (2,) of the last step

    @property
    def phase(self) -> Array:
        """Of the gait generator (1,) [rad]."""
        return self.carried[:1]

    def reset(self) -> None:
        """Start a new episode: phase 0, a decision due at the next step, no fault."""
        super().reset()
        self.carried = np.zeros(1)
        self.followed = STAND
        self.heading_hold.reset()
        self.supervisor.reset()

    def step(self, reading: Reading, ages: Mapping[str, float] = NO_AGES) -> JointCommand:
        """The command that answers this reading, from sensors of these ages [s].

        The worst stage of them decides: what is ageing holds, what is stale slows to a stand.
        """
        imu = imu_vector(reading)
        self.stopwatch.lap("observe")
        stage = self.supervisor.stage(ages)
        if stage < Stage.STALE:
            return self._move(reading, imu, self.latent(reading, stage is Stage.AGEING), ages)
        self._steps_left = 0  # once it goes on, it looks first
        return self._move(reading, imu, slower(self.followed), ages)

    def follow(
        self, latent: Array, reading: Reading, ages: Mapping[str, float] = NO_AGES
    ) -> JointCommand:
        """The same under a latent command (2,) of somebody else's; nothing is looked at."""
        if self.supervisor.stage(ages) >= Stage.STALE:
            latent = slower(self.followed)
        imu = imu_vector(reading)
        self.stopwatch.lap("observe")
        return self._move(reading, imu, latent, ages)

    def _move(
        self, reading: Reading, imu: Array, latent: Array, ages: Mapping[str, float]
    ) -> JointCommand:
        self.followed = latent
        latent = self.heading_hold.corrected(latent, reading.orientation)
        targets, self.carried = self.low_level(latent, imu, reading.joint_angles, self.carried)
        self.stopwatch.lap("low_level")
        command = self.supervisor.review(reading, targets, ages)
        self.stopwatch.lap("supervise")
        return command
