"""Left-right symmetry: in a mirrored world the mirrored robot acts as the mirror image.

A forward camera has this one symmetry. The high level gets it by averaging over the group of two
(`HighLevelNetwork`), the linear low level by tying its weights. Mirroring swaps the legs of each
pair, turns abduction, roll and yaw around, and shifts a trot by half a period.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from pixelgait.robot.control.gait import joint_map
from pixelgait.robot.control.low_level import PLANAR, LinearLowLevel, LinearShape
from pixelgait.robot.spec import LEGS, Array, RobotSpec

OPPOSITE = {"L": "R", "R": "L"}
# A command's entries, by their number: speed, yaw rate; or forward, left, yaw rate, climb.
MIRRORED_COMMAND = {2: np.diag((1.0, -1.0)), 4: np.diag((1.0, -1.0, -1.0, 1.0))}
MIRRORED_IMU = np.diag((-1.0, 1.0, -1.0, 1.0))  # roll, pitch and their rates
MIRRORED_CYCLE = -np.eye(2)  # (cos + 1) / 2 and (sin + 1) / 2 become 1 minus themselves
SIDEWAYS = ("turn_rad", "bank_rad", "side_m")  # gait parameters that change sign


def tie(low_level: LinearLowLevel) -> LinearLowLevel:
    """The nearest low level that commutes with mirroring: f(M x + m) = N f(x).

    With involutions M, N and M m = -m: W' = (W + N W M) / 2, b' = (b + N (b + W m)) / 2.
    """
    inputs, shift = mirrored_inputs(low_level.spec, low_level.shape)
    outputs = mirrored_outputs(low_level.shape)
    matrix, bias = low_level.matrix, low_level.bias
    return replace(
        low_level,
        matrix=(matrix + outputs @ matrix @ inputs) / 2.0,
        bias=(bias + outputs @ (bias + matrix @ shift)) / 2.0,
    )


@cache
def mirrored_poses() -> Array:
    """(12, 12): leg poses of the mirrored robot; legs swapped, abduction negated."""
    swap = np.zeros((len(LEGS), len(LEGS)))
    for i, leg in enumerate(LEGS):
        swap[i, LEGS.index(leg[0] + OPPOSITE[leg[1]])] = 1.0
    return np.asarray(np.kron(swap, np.diag((-1.0, 1.0, 1.0))), dtype=np.float64)


@cache
def mirrored_inputs(spec: RobotSpec, shape: LinearShape = PLANAR) -> tuple[Array, Array]:
    """M (20, 20) and m (20,), or of 22: the inputs of the mirrored robot are M x + m."""
    poses = joint_map(spec) @ mirrored_poses() @ np.linalg.inv(joint_map(spec))
    pose = spec.default_pose_rad
    shift = np.zeros(shape.inputs)
    shift[shape.joints] = pose - poses @ pose
    shift[shape.joints.stop :] = 1.0  # gait cycle
    command = MIRRORED_COMMAND[shape.command]
    return _block_diagonal(command, MIRRORED_IMU, poses, MIRRORED_CYCLE), shift


@cache
def mirrored_outputs(shape: LinearShape = PLANAR) -> Array:
    """N (19, 19), or (20, 20): the action of the mirrored robot is N y."""
    signs = [-1.0 if name in SIDEWAYS else 1.0 for name, _, _ in shape.parameters]
    return _block_diagonal(mirrored_poses(), np.diag(signs))


def _block_diagonal(*blocks: Array) -> Array:
    size = sum(len(block) for block in blocks)
    matrix, at = np.zeros((size, size)), 0
    for block in blocks:
        matrix[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return matrix
