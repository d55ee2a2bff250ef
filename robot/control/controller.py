"""The hierarchical controller: one object for training, evaluation, simulators and the robot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.low_level import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    SLOW_S,
    STAND,
    HeadingHold,
    slower,
)
from pixelgait.robot.control.observation import NO_GOAL, goal_vector, imu_vector, policy_image
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
from pixelgait.robot.spec import Array

SHORTEST_STEPS, LONGEST_STEPS = 10, 800  # of a decision (IAP paper, section 5.3)
# From a destination, by odometry: within the 0.36 m of Habitat's point goals even where it errs.
# 0.3, 0.2, 0.15 m: 78, 90, 89 of 100 randomised houses (seeds 8000 to 8099, navigator).
ARRIVAL_M = 0.2
UNKNOWN_AHEAD = NO_GOAL.copy()  # of a step whose orientation is not to be believed
ODOMETRY_TIMEOUT_S = 0.5  # silent for longer: nobody knows where the robot is; ours, 0.3 m at most

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


MemoryState = Array | None  # (n,) memory of a high level; None: it starts anew


@dataclass(frozen=True, slots=True)
class Decision:
    """What the high level decided: a latent command and for how long it holds."""

    latent: Array  # (2,) in [-1, 1]
    duration_steps: int  # SHORTEST_STEPS to LONGEST_STEPS
    attention: NDArray[np.float32] | None = None  # (H', W')
    state: MemoryState = None  # what the high level remembers, for its next decision


# From image (H, W, C), goal (2,) and what the last decision left to remember.
HighLevel = Callable[[NDArray[np.uint8], Array, MemoryState], Decision]
# From latent (2,), imu (4,), joint angles (12,) and what it carries from step to step to targets
# (12,) and that again: the phase (1,) [rad], then what it remembers, which at first is left out.
LowLevel = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class Stopwatch:
    """Does nothing: what the controller uses where nobody measures."""

    def start(self) -> None: ...

    def lap(self, sensor_health: str) -> None: ...


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
        self.sensor_timeouts: Mapping[str, SensorTimeouts] = SENSOR_TIMEOUTS
        self.decision: Decision | None = None
        self.image: Image | None = None  # of the last decision, as the high level saw it
        self.images = 0
        self.goal_position: Array | None = None  # (2,) x, y [m] in the odometry's frame
        self.arrived = False
        self._began: float | None = None  # heading [rad] of ahead, by the IMU
        self._steps_left = 0
        self._image_since_s = 0.0  # when the frame was first there, on the readings' clock

    def reset(self) -> None:
        """Start a new episode: a decision is due at the next step, nowhere to go but ahead."""
        self.images = 0
        self.image = None
        self.go_to(None)

    def go_to(self, goal_position: Array | None) -> None:
        """Walk to a place (2,) x, y [m] in the odometry's frame, or on as it looks now.

        Nothing that was remembered on the way elsewhere counts.
        """
        self.goal_position, self.arrived, self._began = goal_position, False, None
        self.decision = None

    def goal(self, reading: Reading) -> Array | None:
        """Distance [m] and bearing [rad] of the destination (2,); None: nobody knows.

        Of none the distance is inf, and the bearing that of ahead.
        """
        if self.goal_position is None:
            return self._ahead(reading.orientation)
        if reading.odometry is None or not np.isfinite(reading.odometry).all():
            return None
        return goal_vector(self.goal_position, reading.odometry)

    def _ahead(self, orientation: Array) -> Array:
        """The goal (2,) of a robot without a goal position: straight ahead."""
        if not is_unit(quaternion := orientation.tolist()):
            return UNKNOWN_AHEAD
        heading_rad = heading(quaternion)
        self._began = heading_rad if self._began is None else self._began
        return np.array((math.inf, wrap_angle(self._began - heading_rad)))

    def latent(self, reading: Reading, hold: bool = False) -> Array:
        """The latent command (2,) of this control step.

        Told to `hold`, or where nobody knows where ahead is, it decides nothing.
        """
        goal = self.goal(reading)
        self.arrived = self.arrived or (goal is not None and goal[0] < ARRIVAL_M)
        if goal is None or self.arrived:
            self._steps_left = 0  # once it goes on, it looks first
            return STAND
        if self.decision is None or self._steps_left <= 0:
            if hold or goal is UNKNOWN_AHEAD:  # what it decides now, it does for up to 8 s
                self._steps_left -= 1  # overdue
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
        sensor_timeouts = self.sensor_timeouts.get(CAMERA, SENSOR_TIMEOUTS[CAMERA])
        latent = last.latent if age_s <= sensor_timeouts.stale_s else STAND
        return replace(last, latent=latent, duration_steps=SHORTEST_STEPS)


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
        self.sensor_timeouts = supervisor.sensor_timeouts
        self.heading_hold = HeadingHold()
        self.carried = np.zeros(1)  # by the low level
        self.followed = STAND  # latent command (2,) of the last step

    @property
    def phase(self) -> Array:
        """Phase of the gait generator (1,) [rad]."""
        return self.carried[:1]

    def reset(self) -> None:
        """Start anew with a robot of which nothing is known: no fault, reading, or command sent."""
        self.supervisor.reset()
        self.begin()

    def begin(self) -> None:
        """Start an episode: phase 0, a decision is due at the next step.

        The supervisor goes on: a robot that begins to walk stands already, on its last targets.
        """
        super().reset()
        self.carried = np.zeros(1)
        self.followed = STAND
        self.heading_hold.reset()

    def step(self, reading: Reading, ages: Mapping[str, float] = NO_AGES) -> JointCommand:
        """The command that answers this reading, from sensors of these ages [s].

        The worst stage of them decides: what is ageing holds, what is stale slows to a stand, as
        what ages on and on does: a decision whose time is over holds until an image would be stale.
        """
        imu = imu_vector(reading)
        self.stopwatch.lap("observe")
        sensor_health = self.supervisor.sensor_health(ages)
        overdue = (
            sensor_health is SensorHealth.AGEING and self._steps_left <= -self._longest_overdue()
        )
        if sensor_health < SensorHealth.STALE and not overdue:
            latent = self.latent(reading, sensor_health is SensorHealth.AGEING)
        else:
            self._steps_left = -self._longest_overdue()  # it goes on when it has looked anew
            latent = slower(self.followed)
        return self._move(self._held(latent, reading), imu, reading, ages)

    def _longest_overdue(self) -> int:
        """For so many control steps a decision may hold after its own."""
        sensor_timeouts = self.sensor_timeouts.get(CAMERA, SENSOR_TIMEOUTS[CAMERA])
        return round((sensor_timeouts.stale_s - sensor_timeouts.ageing_s) / CONTROL_DT_S)

    def follow(
        self, latent: Array, reading: Reading, ages: Mapping[str, float] = NO_AGES
    ) -> JointCommand:
        """The same under a latent command (2,) of somebody else's; nothing is looked at."""
        imu = imu_vector(reading)
        self.stopwatch.lap("observe")
        return self._move(self.corrected_command(latent, reading, ages), imu, reading, ages)

    def corrected_command(
        self, latent: Array, reading: Reading, ages: Mapping[str, float]
    ) -> Array:
        """The first half of `follow`, up to the latent command (2,) that the low level gets."""
        if self.supervisor.sensor_health(ages) >= SensorHealth.STALE:
            latent = slower(self.followed)
        return self._held(latent, reading)

    def supervise(
        self, low_level_output: tuple[Array, Array], reading: Reading, ages: Mapping[str, float]
    ) -> JointCommand:
        """The other half, from what the low level has put out."""
        targets, self.carried = low_level_output
        return self.supervisor.review(reading, targets, ages)

    def _held(self, latent: Array, reading: Reading) -> Array:
        self.followed = latent
        return self.heading_hold.corrected(latent, reading.orientation)

    def _move(
        self, latent: Array, imu: Array, reading: Reading, ages: Mapping[str, float]
    ) -> JointCommand:
        angles = self.supervisor.filtered(reading.joint_angles)
        low_level_output = self.low_level(latent, imu, angles, self.carried)
        self.stopwatch.lap("low_level")
        command = self.supervise(low_level_output, reading, ages)
        self.stopwatch.lap("supervise")
        return command
