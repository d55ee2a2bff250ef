"""The low level: one linear layer that modulates and corrects the gait generator, every step; and
the latent commands that it follows: what they mean, how a robot keeps to them.

Inputs (20): latent (2), IMU (4), joint angles (12), phase as ((cos + 1)/2, (sin + 1)/2).
Outputs (19), clipped to [-1, 1]: leg-pose residuals (12), gait parameters (7).
With biases that is 20 * 19 + 19 = 399 weights, which together with the high levels gives the totals
of the IAP paper (arXiv 2102.04353), section 5.3 (1786 and 14954).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pixelgait.robot.control import gait
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.rotation import heading, wrap_angle
from pixelgait.robot.spec import Array, RobotSpec

LATENT_SIZE = 2
# What goes in, by name and size; latent in [-1, 1], imu [rad, rad/s], angles and phase [rad].
SIGNATURE = {"latent": LATENT_SIZE, "imu": 4, "joint_angles": 12, "phase": 1}
RESULTS = {"joint_targets": 12, "next_phase": 1}  # what comes out, likewise [rad]
INPUT_SIZE = sum(SIGNATURE.values()) + 1  # the phase as cosine and sine
_FIRST_JOINT = SIGNATURE["latent"] + SIGNATURE["imu"]
JOINTS = slice(_FIRST_JOINT, _FIRST_JOINT + SIGNATURE["joint_angles"])  # of the inputs
RESIDUAL_SIZE = 12
OUTPUT_SIZE = RESIDUAL_SIZE + len(gait.PARAMETERS)
LOW_LEVEL_WEIGHTS = OUTPUT_SIZE * INPUT_SIZE + OUTPUT_SIZE
RESIDUAL_RANGE_RAD = 0.2  # pmtg_wrapper_simplified_env.gin; Jain 2019's re-implementation as well
# Of the full speed, and of the full turn: who is told to do less takes but a share of a step; ours.
LEAST_COMMAND = 0.1

# What a latent command stands for, a velocity command: (-1..1, -1..1) is speed and yaw rate.
MAX_SPEED_M_PER_S = 0.6
MAX_YAW_RATE_RAD_PER_S = 1.0
SLOW_S = 0.3  # from full speed to a stand, when a sensor is stale; ours

# As it stands in the contract.
LOW_LEVEL_CONTRACT = {
    "joint_targets": "rad, absolute, in the order of joint_names",
    "phase": "rad in [0, 2 pi); start with 0, feed next_phase back",
    "residual_range_rad": RESIDUAL_RANGE_RAD,
    "gait_parameters": [list(row) for row in gait.PARAMETERS],
    "leg_phase_offsets": gait.TROT.tolist(),
    "stance_amplitude_rad": gait.A_STANCE_RAD,
    "least_command": LEAST_COMMAND,
}


def features(latent: Any, imu: Any, joint_angles: Any, phase: Any, xp: Any = np) -> Any:
    """The inputs of the linear layer (..., 20); phase (..., 1) [rad]."""
    cycle = (xp.concatenate([xp.cos(phase), xp.sin(phase)], -1) + 1.0) / 2.0
    return xp.concatenate([latent, imu, joint_angles, cycle], -1)


def share_of_step(latent: Any, xp: Any = np) -> Any:
    """The share of a step (..., 1) that a latent command (..., 2) asks for, 0 to 1: 0 is a stand.

    A linear low level that is the same to the left and to the right cannot tell a stand from a turn
    on the spot, nor keep out of a stand what depends on the phase.
    """
    speed, turn = (latent[..., :1] + 1.0) / 2.0 / LEAST_COMMAND, latent[..., 1:] / LEAST_COMMAND
    return xp.minimum(speed * speed + turn * turn, xp.asarray(1.0))


def carried_size(spec: RobotSpec) -> int:
    """How many numbers are carried from step to step: the phase, and a surplus that is felt."""
    return 2 if spec.load_felt_s else 1


def act(
    spec: RobotSpec, latent: Any, action: Any, carried: Any, joint_angles: Any, xp: Any = np
) -> tuple[Any, Any]:
    """Joint targets (..., 12) [rad], and what is carried to the next step.

    For a latent command (..., 2), an action (..., 19) in [-1, 1], joint angles (..., 12) [rad] and
    what was carried here: phase (..., 1) [rad], or (..., 2) with the `gait.surplus` of soft legs,
    too. Leg poses count as far as a step is taken: a robot that is told to stand does so in its
    default pose.
    """
    phase = carried[..., :1]
    low, high = xp.asarray(gait.PARAMETER_LOW), xp.asarray(gait.PARAMETER_HIGH)
    parameters = low + (action[..., RESIDUAL_SIZE:] + 1.0) / 2.0 * (high - low)
    poses = gait.leg_poses(spec, phase, parameters, xp)
    poses = poses + RESIDUAL_RANGE_RAD * action[..., :RESIDUAL_SIZE]
    step = share_of_step(latent, xp)
    offsets = gait.mapped(xp.asarray(joint_map(spec)), step * poses)
    targets = xp.asarray(spec.default_pose_rad) + offsets
    frequency = gait.column(parameters, gait.FREQUENCY)
    following = gait.next_phase(phase, frequency, CONTROL_DT_S, xp)
    if not spec.carried_kg:
        return targets, following
    stance = phase - gait.TWO_PI * spec.load_lag_s * frequency
    loads = gait.loads(stance, gait.column(parameters, gait.DUTY), step, xp)
    if not spec.load_felt_s:
        return targets + gait.mapped(xp.asarray(gait.load_map(spec)), loads), following
    surplus = carried[..., 1:]
    targets = targets + gait.mapped(xp.asarray(gait.load_map(spec)), (1.0 + surplus) * loads)
    surplus = gait.surplus(spec, surplus, targets - joint_angles, CONTROL_DT_S, xp)
    return targets, xp.concatenate([following, surplus], -1)


def with_surplus(spec: RobotSpec, carried: Array) -> Array:
    """A phase (..., 1), or what `act` carries (..., n), with a surplus of 0 if that is missing."""
    missing = carried_size(spec) - carried.shape[-1]
    if not missing:  # as in every step but the first
        return carried
    return np.concatenate([carried, np.zeros((*carried.shape[:-1], missing))], -1)


@dataclass(frozen=True, slots=True)
class LinearLowLevel:
    """The low level in numpy, as training runs it; `weights` is the flat vector, (399,)."""

    spec: RobotSpec
    matrix: Array  # (19, 20)
    bias: Array  # (19,)

    @classmethod
    def from_weights(cls, spec: RobotSpec, weights: Array) -> LinearLowLevel:
        matrix, bias = np.split(weights, [OUTPUT_SIZE * INPUT_SIZE])
        return cls(spec, matrix.reshape(OUTPUT_SIZE, INPUT_SIZE), bias)

    def __call__(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        action = self.action(features(latent, imu, joint_angles, carried[:1]))
        return act(self.spec, latent, action, with_surplus(self.spec, carried), joint_angles)

    def action(self, x: Array) -> Array:
        """The action (19,) in [-1, 1] for the inputs (20,) of `features`."""
        action: Array = self.matrix @ x + self.bias
        return np.minimum(np.maximum(action, -1.0), 1.0)


def commanded(latent: Array) -> tuple[float, float]:
    """Speed [m/s] and yaw rate [rad/s] that a latent command (2,) asks for."""
    speed = (float(latent[0]) + 1.0) / 2.0 * MAX_SPEED_M_PER_S
    return speed, float(latent[1]) * MAX_YAW_RATE_RAD_PER_S


def latent_for(speed: float, yaw_rate: float) -> Array:
    """The latent command (2,) for a speed [m/s] and a yaw rate [rad/s], within its range."""
    latent = (2.0 * speed / MAX_SPEED_M_PER_S - 1.0, yaw_rate / MAX_YAW_RATE_RAD_PER_S)
    return np.clip(latent, -1.0, 1.0)


STAND = latent_for(speed=0.0, yaw_rate=0.0)


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
