"""Blocked robot: it should walk and does not move. It steps back, turns away, at last gives up.

A policy walks into what its camera does not show: a pane of glass, a thin bar. Two signs:

* **Odometry**, where there is some: the robot covers far less than the commanded path.
* **Pushing.** Torques of the legs are, by their Jacobians, forces of the feet on the ground. A
  robot that walks steadily needs none ahead, one that is blocked pushes with up to its friction.
  Errors of encoders and IMU shift the measured force: what counts is its rise within the walk.

Pictures do not tell: a blocked robot sways more than a walking one, and open ground looks the same
from everywhere.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    commanded,
)
from pixelgait.robot.estimation.kinematics import Foot, LegKinematics
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.rotation import roll_pitch
from pixelgait.robot.safety.supervisor import Gains
from pixelgait.robot.spec import LEGS, Array, RobotSpec

WALKS_M_PER_S = 0.15  # slower commands are not judged; assumption
# Rise of the force ahead, as a share of the weight, and for how long: docs/robot/safety.md has what
# was measured.
MOST_RISE, PUSHED_S = 0.1, 0.4
# A turn moves the loads to other legs, whose encoders have other errors: in a randomised walk the
# measured force rose by 0.12 for two seconds of turning by 0.8 of the most.
TURN_RISE = 0.05  # more at the fastest turn; assumption
# Legs of a fast walk bear otherwise than those of a slow one: after 0.54 m/s, the force at 0.33 m/s
# rose by 0.12 in a randomised walk of `navigator-sit`.
SPEED_RISE = 0.15  # more from one end of the range of speeds to the other; assumption
SMOOTHING_S, USUAL_S = 0.5, 8.0  # time constants: a gait cycle; what is usual in this walk
EVERY = 4  # control steps: 25 Hz are enough for a gait of 2 Hz
SLOPE_SHARE = 0.5  # measured rise on a slope, as a share of it: a robot's legs are heavy
LEAST_PROGRESS = 0.25  # of the commanded path; assumption
PATH_M, PATH_S = 0.3, 1.5  # commanded at least, within this time; assumption
SEEN_S, NOISY = 0.1, 3  # between poses; so many are averaged

BACK_M_PER_S, BACK_S = -0.25, 1.2  # as a latent below -1, see `Blocked`
AWAY_RAD_PER_S, AWAY_S = 0.8, 1.2
TRIES = 3
NOT_SINGULAR = 1e-6 * np.eye(3)  # [m^2/rad^2], added to J J^T of straight legs
FREE_S = 20.0  # of walking without being blocked, after which it has three tries again; assumption


class PushCheck:
    """Whether the legs of a walking robot push against something."""

    def __init__(
        self, spec: RobotSpec, gains: Gains, kinematics: LegKinematics | None = None
    ) -> None:
        self._spec, self._gains = spec, gains
        self._legs = kinematics or LegKinematics(spec)
        self.begin()

    def begin(self) -> None:
        """A walk begins: nothing is usual yet."""
        # (4,): force ahead as a share of the weight, pitches [rad], speed as a share of the most
        self._usual: Array | None = None
        self._usual_s = 0.0  # for how long it was averaged
        self.pause()

    def pause(self) -> None:
        """The robot stands or is manoeuvred; what is usual is kept."""
        self._mean, self._weight = np.zeros(4), 0.0
        self._steps, self._pushed_s = 0, 0.0

    def pushes(self, reading: Reading, targets: Array, latent: Array) -> bool:
        """Called in every step of walking, with the targets (12,) [rad] of the last one, and the
        latent command (2,).
        """
        self._steps += 1
        if self._steps % EVERY == 0:
            sample = self._sample(reading, targets)
            if np.isfinite(sample).all():  # the supervisor judges sensors
                self._judge(sample, latent, EVERY * CONTROL_DT_S)
        return self._pushed_s >= PUSHED_S

    def _judge(self, sample: Array, latent: Array, dt_s: float) -> None:
        share = dt_s / SMOOTHING_S
        self._mean += share * (sample - self._mean)
        self._weight += share * (1.0 - self._weight)
        if self._weight > 0.8:  # after 1.6 time constants
            ahead, up, slope, trunk = (self._mean / self._weight).tolist()
            speed, turn = 0.5 * (float(latent[0]) + 1.0), float(latent[1])
            risen = self._risen(np.array((ahead / max(up, 1.0), slope, trunk, speed)), turn, dt_s)
            self._pushed_s = max(0.0, self._pushed_s + (dt_s if risen else -dt_s))

    def _risen(self, now: Array, turn: float, dt_s: float) -> bool:
        """Whether the force ahead is above what is usual, which follows slowly; pitches are
        negative with the nose up.
        """
        usual = now if self._usual is None else self._usual
        push, slope, trunk, faster = (now - usual).tolist()
        rise = push - SLOPE_SHARE * max(0.0, -slope) + max(0.0, -trunk)
        if rise <= MOST_RISE:
            self._usual_s = min(USUAL_S, self._usual_s + dt_s)
            self._usual = usual + dt_s / self._usual_s * (now - usual)
        return bool(rise > MOST_RISE + TURN_RISE * abs(turn) + SPEED_RISE * abs(faster))

    def _sample(self, reading: Reading, targets: Array) -> Array:
        """(4,): force of the ground ahead and up [N], pitch of the ground, of the trunk to it."""
        spec, velocities = self._spec, reading.joint_velocities
        torques = self._gains.kp * (targets - reading.joint_angles)
        torques -= self._gains.kd * velocities
        most = spec.torque_limit_nm
        torques = np.minimum(np.maximum(torques, -most), most)
        feet = self._legs.feet(reading.joint_angles.tolist())
        by_joint = np.array([foot[1:] for foot in feet])  # (4, 3, 3): transposed Jacobians
        across = by_joint.transpose(0, 2, 1)
        square = across @ by_joint + NOT_SINGULAR
        x, _, z = -np.linalg.solve(square, across @ torques.reshape(len(LEGS), 3, 1)).sum(0)[:, 0]
        (_, pitch), trunk = roll_pitch(reading.orientation.tolist()), _pitch(feet)
        cos, sin = math.cos(pitch), math.sin(pitch)
        return np.array((x * cos + z * sin, z * cos - x * sin, pitch - trunk, trunk))


def _pitch(feet: Sequence[Foot]) -> float:
    """Pitch [rad] of the trunk to the plane through the feet: front legs come first."""
    (fx, fz), (rx, rz) = _below(feet[:2]), _below(feet[2:])
    return math.atan2(fz - rz, fx - rx)


def _below(pair: Sequence[Foot]) -> tuple[float, float]:
    """Sum of x, and of z, of two feet [m]."""
    return sum(foot.position[0] for foot in pair), sum(foot.position[2] for foot in pair)


class ProgressCheck:
    """Whether odometry shows far less than the commanded path."""

    def __init__(self) -> None:
        self.pause()

    def pause(self) -> None:
        """Judge anew: the robot stands or is manoeuvred, or there is no odometry."""
        self._seen: deque[tuple[float, Array]] = deque(maxlen=round(PATH_S / SEEN_S))
        self._path_m, self._steps = 0.0, 0

    def stuck(self, odometry: Array | None, speed: float) -> bool:
        """Called in every step of walking, with the commanded speed [m/s]."""
        if odometry is None or not np.isfinite(odometry).all():
            self.pause()
            return False
        self._path_m += speed * CONTROL_DT_S
        self._steps += 1
        if self._steps % round(SEEN_S / CONTROL_DT_S):
            return False
        self._seen.append((self._path_m, odometry[:2]))
        path_m = self._path_m - self._seen[0][0]
        if len(self._seen) < PATH_S / SEEN_S or path_m < PATH_M:
            return False
        places = np.array([place for _, place in self._seen])  # noisy
        moved_m = np.linalg.norm(places[-NOISY:].mean(0) - places[:NOISY].mean(0))
        return bool(moved_m < LEAST_PROGRESS * path_m)


class Blocked:
    """Notices that a walking robot is blocked, and takes over for a while.

    A manoeuvre steps back and turns away, to the left and to the right by turns; then the policy
    walks on. Blocked once more after `TRIES`, the robot stands until `begin`.

    The low level was not trained to step back. But it is linear, and follows commands below its
    range: a latent speed of -1.8 gives an A1 or a Go2 -0.25 m/s, and in 80 randomised robots of
    both none fell (0.15 to 0.42 m back in 1.5 s, both simulators). A Mini Cheetah steps in place.

    Without a `spec`, for a robot whose joints are unknown, odometry alone tells. One that takes up
    to `answers_s` to begin to walk is not judged for so long.
    """

    def __init__(
        self,
        spec: RobotSpec | None,
        gains: Gains,
        answers_s: float = 0.0,
        kinematics: LegKinematics | None = None,
    ) -> None:
        self._push = PushCheck(spec, gains, kinematics) if spec else None
        self._progress = ProgressCheck()
        self._answers_steps = round(answers_s / CONTROL_DT_S)
        self.begin()

    def begin(self) -> None:
        """An order to walk, or a new goal: all tries are left."""
        self.tries, self.given_up = 0, False
        self._unjudged = self._answers_steps  # steps with a speed that are left
        self._steps = 0  # of the manoeuvre that are left
        self._free_steps = 0  # walked since the last one
        if self._push is not None:
            self._push.begin()
        self._progress.pause()

    @property
    def manoeuvres(self) -> bool:
        """Whether `latent` replaces the policy's command in this step."""
        return self.given_up or self._steps > 0

    def latent(self) -> Array:
        """The latent command (2,) of a step of the manoeuvre; below the range: backwards."""
        if self.given_up:
            return STAND
        self._steps -= 1
        if self._steps >= AWAY_S / CONTROL_DT_S:
            return np.array((2.0 * BACK_M_PER_S / MAX_SPEED_M_PER_S - 1.0, 0.0))
        side = 1.0 if self.tries % 2 else -1.0
        return np.array((-1.0, side * AWAY_RAD_PER_S / MAX_YAW_RATE_RAD_PER_S))

    def noticed(self, reading: Reading, latent: Array, targets: Array) -> bool:
        """Whether the robot was just found blocked; called in every step that a policy commands.

        With its latent command (2,), and the targets (12,) [rad] of the step before.
        """
        speed, _ = commanded(latent)
        self._free_steps += 1
        if self._free_steps * CONTROL_DT_S > FREE_S:
            self.tries = 0
        if speed < WALKS_M_PER_S or self._unjudged:
            self._unjudged -= speed >= WALKS_M_PER_S
            self._pause()
            return False
        pushes = self._push is not None and self._push.pushes(reading, targets, latent)
        if not (self._progress.stuck(reading.odometry, speed) or pushes):
            return False
        self._pause()
        self._free_steps = 0
        self.given_up = self.tries == TRIES
        if not self.given_up:
            self.tries += 1
            self._steps = round((BACK_S + AWAY_S) / CONTROL_DT_S)
        return True

    def _pause(self) -> None:
        if self._push is not None:
            self._push.pause()
        self._progress.pause()

    @property
    def cause(self) -> str:
        """The reaction of the robot, for the log and diagnostics."""
        if self.given_up:
            return f"blocked after {TRIES} tries: given up, it stands until the next order or goal"
        side = "left" if self.tries % 2 else "right"
        return f"blocked: it steps back and turns {side}, try {self.tries} of {TRIES}"
