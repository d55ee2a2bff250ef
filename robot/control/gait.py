"""Gait generator: PMTG trajectory generator (Iscen et al. 2018) as a pure function of the phase.

Per leg, with leg phase phi in [0, 2 pi), stance for phi < pi, swing (foot in the air) after:

    swing      S = A_s cos(phi)
    extension  E = h + A_stance sin(phi)    in stance
               E = h - A_lift sin(phi)^2    in swing
    abduction  B = A_b cos(phi)

The paper lifts by sin(phi): feet leave and meet the ground at their highest speed, and came down at
1.3 m/s. With the square they leave and meet it at rest.

A_s and A_b of each leg follow from two numbers: half the distance the body shall travel and half
the angle it shall turn while a foot is on the ground. A linear low level cannot multiply its latent
command with the phase; with these two it still modulates stride and turn. In open loop the A1
reaches 1.5 m/s and, at 2.5 Hz, turns on the spot at 3.5 rad/s (0.8 rad/s by a difference in stride
between left and right alone, 1.5 rad/s by the abduction alone; `make gait-study`).

A leg pose (B, S, E), all [rad], is added to the robot's default pose (convention of Google's PMTG
code):

    abduction joint = q0 + k_a B
    hip joint       = q0 + k_s S - r k_e E
    knee joint      = q0 + k_e E

The signs k make positive abduction move the foot to the left, positive swing move it forward and
positive extension lengthen the leg, whatever a URDF's axes are. The share r = 1/2, for links of
equal length, keeps the hip-to-foot line at angle S from its default, so swing turns the leg and
extension only changes its length; for unequal links r makes that true near the default pose.

**Every direction.** An omnidirectional generator has a sideways stride as well, and knows its
velocity command: strides and turn are those of the command, v duty / (2 f), to which a policy adds.
`climb` adds lift, and so does speed. The foot would swing on a circle about the abduction's axis,
which lies beside it: one side rises, the other sinks, and the robot hardly moves. An extension of
`level_map` times the abduction keeps the foot at its height; with it the A1 walks sideways at up to
0.9 m/s.

**Load compensation.** Legs of low joint stiffness give way under their load, a Go2's by 6 cm in a
trot, and the feet no longer follow the generator. If `RobotSpec.carried_kg` is set, the targets of
a leg in stance are offset by the torque that bears its share of the weight (J^T F, F vertical at
the foot in the default pose) over the joint's stiffness. An offset needs no feed-forward torque.

**Lag.** The softest legs also lag behind the generator, by damping over stiffness and by their
inertia. An offset in time with the generator would press a leg down that is still in the air, and
release one that still stands. So it comes `RobotSpec.load_lag_s` later.

**Load estimate.** The position error of all knees together measures the robot's weight relative to
the strength of its motors, whatever the offsets are; other causes cancel out over a gait cycle. If
`RobotSpec.load_felt_s` is set, the surplus over the expected weight, low-pass filtered with that
time constant, is carried from step to step besides the phase.

All that depends on the phase is written once for numpy and torch (`xp` is the module to use), so
the exported graph is the code that was trained. Arrays may have leading axes (...).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pixelgait.robot.estimation.kinematics import LegKinematics
from pixelgait.robot.interface import GRAVITY_M_PER_S2
from pixelgait.robot.spec import LEGS, Array, RobotSpec

TWO_PI = 2.0 * np.pi
TROT = np.array([0.0, 0.5, 0.5, 0.0])  # offsets of FR, FL, RR, RL as fractions of the period
LEG_BY_LEG = np.arange(12).reshape(3, 4).T.ravel()  # from all abductions, swings, extensions
A_STANCE_RAD = -0.02  # Google tg_simple.py: the stance leg gives way a little
FOLDED_RAD = -0.8  # assumption: extension of the legs of a robot that lies
LOADING = 4.0  # assumption: a leg takes its load within asin(1 / 4), a twelfth of its stance
MIN_SURPLUS, MAX_SURPLUS = -0.5, 1.0  # assumption: of the weight, when lifted or overloaded

# Gait parameters of a policy: (name, value at action -1, value at action +1).
PARAMETERS = (
    ("frequency_hz", 1.0, 3.0),
    ("stride_m", -0.12, 0.12),
    ("turn_rad", -0.4, 0.4),
    ("lift_rad", 0.0, 0.9),
    ("height_rad", -0.3, 0.3),
    ("bank_rad", -0.2, 0.2),
    ("duty", 0.35, 0.65),
)
FREQUENCY, STRIDE, TURN, LIFT, HEIGHT, DUTY, SIDE = 0, 1, 2, 3, 4, 6, 7
PARAMETER_LOW = np.array([low for _, low, _ in PARAMETERS])
PARAMETER_HIGH = np.array([high for _, _, high in PARAMETERS])

# An omnidirectional generator's: what a policy adds; then limits of the sum with the command's.
OMNI_PARAMETERS = (*PARAMETERS, ("side_m", -0.12, 0.12))
OMNI_LOW = np.array([low for _, low, _ in OMNI_PARAMETERS])
OMNI_HIGH = np.array([high for _, _, high in OMNI_PARAMETERS])
LEAST = np.array([1.0, -0.16, -0.4, 0.0, -0.3, -0.2, 0.35, -0.12])
MOST = np.array([3.0, 0.16, 0.4, 1.5, 0.3, 0.2, 0.65, 0.12])
# More lift, the faster it goes: feet that clear 5 cm trip at 1.0 m/s on ground that grips.
LIFT_PER_SPEED = 0.25  # [rad s/m]
CLIMB_LIFT_RAD = 1.0  # more lift at a climb of 1: feet clear 12 cm (A1, in simulation)


@cache
def amplitude_map(spec: RobotSpec, count: int = len(PARAMETERS)) -> Array:
    """(12, count): maps the first 7 or all 8 parameters to (A_b, A_s, h) of every leg [rad].

    While a foot stands, the body moves by its stride and turns about its centre. So the foot at
    (x, y) moves back by stride - turn y and sideways by turn x; divided by the leg's length these
    are angles.
    """
    names = [name for name, _, _ in OMNI_PARAMETERS[:count]]
    amplitudes = np.zeros((len(spec.feet_m), 3, len(names)))
    x, y = spec.feet_m.T
    amplitudes[:, 0, names.index("turn_rad")] = x / spec.leg_length_m
    amplitudes[:, 1, names.index("turn_rad")] = -y / spec.leg_length_m
    amplitudes[:, 1, names.index("stride_m")] = 1.0 / spec.leg_length_m
    amplitudes[:, 2, names.index("height_rad")] = 1.0
    amplitudes[:, 2, names.index("bank_rad")] = np.sign(y)
    amplitudes[:, 0, SIDE:] = 1.0 / spec.leg_length_m
    return amplitudes.reshape(-1, len(names))


def mapped(matrix: Any, vectors: Any) -> Any:
    """Multiply a matrix (m, n) with vectors (..., n); each result is rounded as for one vector."""
    return matrix @ vectors if vectors.ndim == 1 else (matrix @ vectors[..., None])[..., 0]


def column(parameters: Any, which: int) -> Any:
    """A column (..., 1) of the parameters (..., n)."""
    return parameters[..., which : which + 1]


def leg_phases(phase: Any, duty: Any, xp: Any = np) -> Any:
    """Phase of each leg (..., 4) [rad], from the master phase (..., 1) [rad] and the duty (..., 1).

    The master phase runs uniformly; each leg spends the fraction `duty` of its period in
    [0, pi) (stance) and the rest in [pi, 2 pi) (swing), as t' in the PMTG paper's appendix.
    """
    t = phase / TWO_PI + xp.asarray(TROT)
    t = t - xp.floor(t)
    return np.pi * xp.where(t < duty, t / duty, (t + 1.0 - 2.0 * duty) / (1.0 - duty))


def leg_poses(spec: RobotSpec, phase: Any, parameters: Any, xp: Any = np) -> Any:
    """Leg poses (..., 12) [rad]: (abduction, swing, extension) per leg.

    From the phase (..., 1) [rad] and the parameters (..., 7), or (..., 8) of `OMNI_PARAMETERS`.
    """
    phi = leg_phases(phase, column(parameters, DUTY), xp)
    cos, sin = xp.cos(phi), xp.sin(phi)
    count = parameters.shape[-1]
    amplitudes = mapped(xp.asarray(amplitude_map(spec, count)), parameters)
    abduction, swing, height = (amplitudes[..., first::3] for first in range(3))
    step = xp.where(sin > 0.0, A_STANCE_RAD, -column(parameters, LIFT) * sin) * sin
    poses = [abduction * cos, swing * cos, height + step]
    if count > SIDE:
        poses[2] = poses[2] + xp.asarray(level_map(spec)) * poses[0]
    return xp.concatenate(poses, -1)[..., LEG_BY_LEG]  # a stack takes numpy three times as long


@cache
def level_map(spec: RobotSpec) -> Array:
    """(4,): extension per abduction that keeps a leg's foot at its height near the default pose."""
    down = LegKinematics(spec).jacobians(spec.default_pose_rad.tolist())[:, 2]  # (4, 3) [m/rad]
    poses = joint_map(spec).reshape(len(LEGS), 3, len(LEGS), 3)
    by_pose = np.array([down[leg] @ poses[leg, :, leg] for leg in range(len(LEGS))])
    return np.asarray(-by_pose[:, 0] / by_pose[:, 2])


def commanded(parameters: Any, command: Any, xp: Any = np) -> Any:
    """Parameters (..., 8) of a velocity command, corrected by those of a policy (..., 8).

    While a foot stands, for duty / frequency, the body moves and turns by twice stride and turn.

    Args:
        parameters: within `OMNI_PARAMETERS`.
        command: (..., 4): forward, left [m/s], yaw rate [rad/s], and climb from 0 to 1.
        xp: numpy, or torch's functions by numpy's names.
    """
    half_s = 0.5 * column(parameters, DUTY) / column(parameters, FREQUENCY)
    forward, left, turn, climb = (column(command, i) for i in range(4))
    none = 0.0 * climb
    lift = CLIMB_LIFT_RAD * climb + LIFT_PER_SPEED * (forward * forward + left * left) ** 0.5
    moves = [none, half_s * forward, half_s * turn, lift, none, none, none]
    parameters = parameters + xp.concatenate([*moves, half_s * left], -1)
    return xp.minimum(xp.maximum(parameters, xp.asarray(LEAST)), xp.asarray(MOST))


def loads(phase: Any, duty: Any, step: Any, xp: Any = np) -> Any:
    """Share of the weight that each leg bears (..., 4).

    From phase [rad], duty and step scale, (..., 1) each; at a step scale of 0 all legs stand.
    """
    stance = LOADING * xp.sin(leg_phases(phase, duty, xp))
    stance = xp.minimum(xp.maximum(stance, xp.asarray(0.0)), xp.asarray(1.0))
    stance = 1.0 + step * (stance - 1.0)
    return stance / xp.maximum(stance.sum(-1)[..., None], xp.asarray(1.0))


def surplus(spec: RobotSpec, before: Any, errors: Any, dt_s: float, xp: Any = np) -> Any:
    """Load in excess of the expected weight (..., 1), as a share of it.

    From that of the last control step, and the joints' position errors (..., 12) [rad], target
    minus angle.
    """
    knees = errors[..., 2] + errors[..., 5] + errors[..., 8] + errors[..., 11]
    felt = knees[..., None] / float(load_map(spec)[2, 0]) - 1.0
    after = before + (dt_s / spec.load_felt_s) * (felt - before)
    return xp.minimum(xp.maximum(after, xp.asarray(MIN_SURPLUS)), xp.asarray(MAX_SURPLUS))


@cache
def load_map(spec: RobotSpec) -> Array:
    """(12, 4): maps the legs' shares of the weight to offsets of the joint targets [rad]."""
    abduction_m, knee_m = spec.load_levers_m
    weight_n = spec.carried_kg * GRAVITY_M_PER_S2
    torques = np.zeros((len(LEGS), 3, len(LEGS)))  # [Nm]
    for leg, (_, y) in enumerate(spec.feet_m):
        # Pressing down moves the foot inward about the hip's axis, and lengthens the leg.
        torques[leg, 0, leg] = -np.sign(y) * spec.abduction_signs[leg] * abduction_m * weight_n
        torques[leg, 2, leg] = spec.extension_signs[leg] * knee_m * weight_n
    return torques.reshape(-1, len(LEGS)) / spec.kp_nm_per_rad[:, None]


def standing_targets(spec: RobotSpec) -> Array:
    """Joint targets (12,) [rad] of a robot that stands on all legs, in its default pose."""
    return np.asarray(spec.default_pose_rad + load_map(spec).sum(1) / len(LEGS))


def lying_pose(spec: RobotSpec) -> Array:
    """Joint angles (12,) [rad] of a robot that lies with its legs folded, within their limits."""
    legs = np.tile((0.0, 0.0, FOLDED_RAD), len(spec.feet_m))
    pose = spec.default_pose_rad + joint_map(spec) @ legs
    return np.asarray(np.clip(pose, spec.joint_lower_rad, spec.joint_upper_rad))


def next_phase(phase: Any, frequency_hz: Any, dt_s: float, xp: Any = np) -> Any:
    """Master phase (..., 1) one control step later, in [0, 2 pi); frequency (..., 1)."""
    t = phase / TWO_PI + frequency_hz * dt_s
    return TWO_PI * (t - xp.floor(t))


@cache
def joint_map(spec: RobotSpec) -> Array:
    """(12, 12): maps leg poses to joint offsets, see the module's docstring."""
    signs = zip(spec.abduction_signs, spec.swing_signs, spec.extension_signs, strict=True)
    legs = np.zeros((len(LEGS), 3, len(LEGS), 3))
    for leg, (abduction, swing, extension) in enumerate(signs):
        hip = (0.0, swing, -spec.hip_share * extension)
        legs[leg, :, leg] = (abduction, 0.0, 0.0), hip, (0.0, 0.0, extension)
    return legs.reshape(3 * len(LEGS), -1)
