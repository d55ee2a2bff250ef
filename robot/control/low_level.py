"""Low level: one linear layer that modulates and corrects the gait generator in every step.

Inputs (20): latent (2), IMU (4), joint angles (12), phase as ((cos + 1)/2, (sin + 1)/2).
Outputs (19), clipped to [-1, 1]: leg-pose residuals (12), gait parameters (7).
With biases that is 20 * 19 + 19 = 399 weights, which together with the high levels gives the totals
of the IAP paper (arXiv 2102.04353), section 5.3 (1786 and 14954).

An omnidirectional one takes a velocity command (4) in place of the latent, and has one gait
parameter more: 22 * 20 + 20 = 460 weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pixelgait.robot.control import gait
from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.observation import imu_vector
from pixelgait.robot.interface import CONTROL_DT_S, Reading
from pixelgait.robot.spec import Array, RobotSpec

LATENT_SIZE = 2
# Inputs by name and size: latent in [-1, 1], imu [rad, rad/s], joint angles and phase [rad].
SIGNATURE = {"latent": LATENT_SIZE, "imu": 4, "joint_angles": 12, "phase": 1}
OMNI_SIGNATURE = {"command": 3, "climb": 1, "imu": 4, "joint_angles": 12, "phase": 1}
RESULTS = {"joint_targets": 12, "next_phase": 1}  # outputs [rad]
INPUT_SIZE = sum(SIGNATURE.values()) + 1  # the phase as cosine and sine
RESIDUAL_RANGE_RAD = 0.2  # pmtg_wrapper_simplified_env.gin; Jain 2019's re-implementation as well
# Assumption: below this share of the full speed, and of the full yaw rate, steps are scaled down.
LEAST_COMMAND = 0.1
RESIDUAL_SIZE = 12
OUTPUT_SIZE = RESIDUAL_SIZE + len(gait.PARAMETERS)
LOW_LEVEL_WEIGHTS = OUTPUT_SIZE * INPUT_SIZE + OUTPUT_SIZE


@dataclass(frozen=True, slots=True)
class LinearShape:
    """Sizes of a linear low level: what commands it, and what it modulates."""

    kind: str  # as the contract calls it
    command: int  # entries of the latent or velocity command
    parameters: tuple[tuple[str, float, float], ...]  # of the gait

    @property
    def inputs(self) -> int:
        return INPUT_SIZE - LATENT_SIZE + self.command

    @property
    def outputs(self) -> int:
        return RESIDUAL_SIZE + len(self.parameters)

    @property
    def weights(self) -> int:
        return self.outputs * (self.inputs + 1)

    @property
    def joints(self) -> slice:
        """The joint angles among the inputs."""
        return slice(self.command + SIGNATURE["imu"], self.inputs - 2)


PLANAR = LinearShape("gait", LATENT_SIZE, gait.PARAMETERS)  # speed and turn, as in the IAP paper
LATENT_SPEED_M_PER_S = 0.6  # of a latent command's speed of 1
# Velocity command of an omnidirectional low level, by name, with its range.
COMMAND = (
    ("forward_m_per_s", -0.6, 1.0),
    ("left_m_per_s", -0.4, 0.4),
    ("yaw_rate_rad_per_s", -1.0, 1.0),
    ("climb", 0.0, 1.0),
)
OMNI = LinearShape("omni", len(COMMAND), gait.OMNI_PARAMETERS)
# Below this velocity [m/s], [rad/s], steps of an omnidirectional low level are scaled down.
LEAST_VELOCITY = 0.02  # assumption: slower than the residual motion of any stand
# How fast its velocity command may change [m/s^2], [m/s^2], [rad/s^2]; assumption. Randomised
# robots that braked at once from 1.0 m/s, or stopped in mid-stride, fell.
MOST_CHANGE = np.array((3.0, 3.0, 8.0))


# As it stands in the contract.
LOW_LEVEL_CONTRACT = {
    "kind": PLANAR.kind,
    "rate_hz": 1.0 / CONTROL_DT_S,
    "joint_targets": "rad, absolute, in the order of joint_names",
    "phase": "rad in [0, 2 pi); start with 0, feed next_phase back",
    "residual_range_rad": RESIDUAL_RANGE_RAD,
    "gait_parameters": [list(row) for row in gait.PARAMETERS],
    "leg_phase_offsets": gait.TROT.tolist(),
    "stance_amplitude_rad": gait.A_STANCE_RAD,
    "least_command": LEAST_COMMAND,
}
OMNI_CONTRACT = {
    **{key: value for key, value in LOW_LEVEL_CONTRACT.items() if key != "least_command"},
    "kind": OMNI.kind,
    "gait_parameters": [list(row) for row in gait.OMNI_PARAMETERS],
    "gait_limits": [list(row) for row in zip(gait.LEAST, gait.MOST, strict=True)],
    "climb": list(COMMAND[3][1:]),
    "climb_lift_rad": gait.CLIMB_LIFT_RAD,
    "lift_per_speed_rad_s_per_m": gait.LIFT_PER_SPEED,
    "least_velocity": LEAST_VELOCITY,
    "most_change": MOST_CHANGE.tolist(),
}
CONTRACTS = {PLANAR.kind: LOW_LEVEL_CONTRACT, OMNI.kind: OMNI_CONTRACT}


def velocity_command(latent: Array) -> Array:
    """The velocity command (..., 4) of a latent (..., 2 to 4).

    Speed and turn, as a high level decides them, left over `LATENT_SPEED_M_PER_S`, and climb; those
    missing are 0, and the first three may exceed [-1, 1].
    """
    if missing := len(COMMAND) - latent.shape[-1]:
        latent = np.concatenate([latent, np.zeros((*latent.shape[:-1], missing))], -1)
    speed, turn, left, climb = (gait.column(latent, i) for i in range(len(COMMAND)))
    speed = (speed + 1.0) / 2.0 * LATENT_SPEED_M_PER_S
    return np.concatenate([speed, left * LATENT_SPEED_M_PER_S, turn, climb], -1)


def shape_with(inputs: int) -> LinearShape:
    """The shape of a linear low level with so many inputs."""
    return PLANAR if inputs == PLANAR.inputs else OMNI


def features(latent: Any, imu: Any, joint_angles: Any, phase: Any, xp: Any = np) -> Any:
    """Inputs of the linear layer (..., 20), or 22 by a velocity command; phase (..., 1) [rad]."""
    cycle = (xp.concatenate([xp.cos(phase), xp.sin(phase)], -1) + 1.0) / 2.0
    return xp.concatenate([latent, imu, joint_angles, cycle], -1)


def felt(latent: Array, reading: Reading, phase: Array) -> Array:
    """Inputs of the linear layer (20,) under a latent command (2,); phase (1,) [rad]."""
    return np.asarray(features(latent, imu_vector(reading), reading.joint_angles, phase))


def step_scale(latent: Any, xp: Any = np) -> Any:
    """Step scale (..., 1), 0 to 1, of a latent (..., 2) or velocity command (..., 4); 0: a stand.

    A linear low level that is left-right symmetric cannot tell a stand from a turn on the spot, nor
    keep the phase out of a stand.
    """
    if latent.shape[-1] > LATENT_SIZE:
        ahead, left, turn = (gait.column(latent, i) / LEAST_VELOCITY for i in range(3))
        return xp.minimum(ahead * ahead + left * left + turn * turn, xp.asarray(1.0))
    speed, turn = (latent[..., :1] + 1.0) / 2.0 / LEAST_COMMAND, latent[..., 1:] / LEAST_COMMAND
    return xp.minimum(speed * speed + turn * turn, xp.asarray(1.0))


def carried_size(spec: RobotSpec, shape: LinearShape = PLANAR) -> int:
    """Size of the carried state: phase (1), load surplus (1) of legs that estimate it, followed
    velocity (3) of an omnidirectional low level.
    """
    return 1 + bool(spec.load_felt_s) + len(MOST_CHANGE) * (shape is OMNI)


def ramped(command: Any, carried: Any, xp: Any = np) -> Any:
    """The command (..., 4) to follow: the wanted one, whose velocity is at most `MOST_CHANGE` times
    a control step from the last one followed, with which the carried state (..., n) ends.
    """
    most, before = xp.asarray(CONTROL_DT_S * MOST_CHANGE), carried[..., -len(MOST_CHANGE) :]
    change = command[..., : len(MOST_CHANGE)] - before
    change = xp.minimum(xp.maximum(change, -most), most)
    return xp.concatenate([before + change, command[..., len(MOST_CHANGE) :]], -1)


def act(
    spec: RobotSpec, latent: Any, action: Any, carried: Any, joint_angles: Any, xp: Any = np
) -> tuple[Any, Any]:
    """Joint targets (..., 12) [rad], and the next carried state.

    Leg poses are multiplied by the step scale: commanded to stand, the robot takes its default
    pose.

    Args:
        spec: the robot.
        latent: latent command (..., 2) in [-1, 1], or velocity command (..., 4), `ramped`.
        action: outputs of the linear layer (..., 19), or (..., 20), in [-1, 1].
        carried: phase (..., 1) [rad], `gait.surplus` (..., 1) of soft legs, and the velocity
            (..., 3) of the last step where there is a velocity command.
        joint_angles: (..., 12) [rad].
        xp: numpy, or torch's functions by numpy's names.
    """
    phase = carried[..., :1]
    parameters = _parameters(latent, action[..., RESIDUAL_SIZE:], xp)
    poses = gait.leg_poses(spec, phase, parameters, xp)
    poses = poses + RESIDUAL_RANGE_RAD * action[..., :RESIDUAL_SIZE]
    step = step_scale(latent, xp)
    offsets = gait.mapped(xp.asarray(joint_map(spec)), step * poses)
    targets = xp.asarray(spec.default_pose_rad) + offsets
    frequency = gait.column(parameters, gait.FREQUENCY)
    following = gait.next_phase(phase, frequency, CONTROL_DT_S, xp)
    carried_on = [following]
    if spec.carried_kg:
        stance = phase - gait.TWO_PI * spec.load_lag_s * frequency
        loads = gait.loads(stance, gait.column(parameters, gait.DUTY), step, xp)
        if spec.load_felt_s:
            surplus = carried[..., 1:2]
            loads = (1.0 + surplus) * loads
        targets = targets + gait.mapped(xp.asarray(gait.load_map(spec)), loads)
        if spec.load_felt_s:
            errors = targets - joint_angles
            carried_on.append(gait.surplus(spec, surplus, errors, CONTROL_DT_S, xp))
    if latent.shape[-1] > LATENT_SIZE:
        carried_on.append(latent[..., : len(MOST_CHANGE)])
    return targets, carried_on[0] if len(carried_on) == 1 else xp.concatenate(carried_on, -1)


def _parameters(latent: Any, action: Any, xp: Any) -> Any:
    """Gait parameters (..., 7) of actions in [-1, 1]; (..., 8) with a velocity command."""
    omni = latent.shape[-1] > LATENT_SIZE
    low = xp.asarray(gait.OMNI_LOW if omni else gait.PARAMETER_LOW)
    high = xp.asarray(gait.OMNI_HIGH if omni else gait.PARAMETER_HIGH)
    parameters = low + (action + 1.0) / 2.0 * (high - low)
    return gait.commanded(parameters, latent, xp) if omni else parameters


def followed(shape: LinearShape, latent: Array, carried: Array) -> Array:
    """The command that a low level of this shape follows for a latent command (..., 2 to 4).

    From the carried state (..., n), `completed`.
    """
    return ramped(velocity_command(latent), carried) if shape is OMNI else latent


def completed(spec: RobotSpec, carried: Array, shape: LinearShape = PLANAR) -> Array:
    """A carried state (..., n); that of the first step, a phase (..., 1), is extended by zeros."""
    missing = carried_size(spec, shape) - carried.shape[-1]
    if not missing:  # as in every step but the first
        return carried
    return np.concatenate([carried, np.zeros((*carried.shape[:-1], missing))], -1)


@dataclass(frozen=True, slots=True)
class LinearLowLevel:
    """The low level in numpy, for training; `weights` is the flat vector (399,) or (460,)."""

    spec: RobotSpec
    matrix: Array  # (19, 20), or (20, 22): omnidirectional
    bias: Array  # (19,) or (20,)

    @classmethod
    def from_weights(cls, spec: RobotSpec, weights: Array) -> LinearLowLevel:
        shape = OMNI if weights.size == OMNI.weights else PLANAR
        matrix, bias = np.split(weights, [shape.outputs * shape.inputs])
        return cls(spec, matrix.reshape(shape.outputs, shape.inputs), bias)

    @property
    def shape(self) -> LinearShape:
        return shape_with(self.matrix.shape[1])

    def __call__(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        carried = completed(self.spec, carried, self.shape)
        command = followed(self.shape, latent, carried)
        action = self.action(felt(command, reading, carried[:1]))
        return act(self.spec, command, action, carried, reading.joint_angles)

    def followed(self, latent: Array, carried: Array) -> Array:
        """The command that it follows for a latent command, from the carried state."""
        return followed(self.shape, latent, completed(self.spec, carried, self.shape))

    def action(self, x: Array) -> Array:
        """The action (19,) or (20,) in [-1, 1] for the inputs of `features`."""
        action: Array = self.matrix @ x + self.bias
        return np.minimum(np.maximum(action, -1.0), 1.0)
