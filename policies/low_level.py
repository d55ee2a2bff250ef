"""The low level for training and export: observation normalisation, and the graph to export."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from pixelgait.policies.mirror import tie
from pixelgait.policies.normaliser import Normaliser
from pixelgait.robot import gait
from pixelgait.robot.low_level import (
    LOW_LEVEL_WEIGHTS,
    RESIDUAL_SIZE,
    LinearLowLevel,
    act,
    features,
)
from pixelgait.robot.spec import A1, Array

# The gait generator is written for numpy and torch; these are the functions it uses, in float32.
_TORCH = SimpleNamespace(
    asarray=lambda value: torch.as_tensor(value, dtype=torch.float32),
    concatenate=torch.cat,
    cos=torch.cos,
    floor=torch.floor,
    minimum=torch.minimum,
    sin=torch.sin,
    where=torch.where,
)


def searched_low_level(weights: Array, normaliser: Normaliser, mirror: bool) -> LinearLowLevel:
    """The low level that a search's weights end with: normalisation folded in, sides tied."""
    low_level = normaliser.fold_into(LinearLowLevel.from_weights(A1, weights[-LOW_LEVEL_WEIGHTS:]))
    return tie(low_level) if mirror else low_level


# Open loop on the A1, at 2 Hz and a duty factor of 0.5: what walks at full speed, and turns on the
# spot at the full yaw rate (`make gait-study`).
OPEN_LOOP_STRIDE_M, OPEN_LOOP_TURN_RAD, OPEN_LOOP_LIFT_RAD = 0.073, 0.125, 0.3


def open_loop_weights() -> Array:
    """Weights (399,) that drive the gait generator open loop, in proportion to the command.

    All else is zero: nothing is fed back.
    """
    weights = np.zeros(LOW_LEVEL_WEIGHTS)
    low_level = LinearLowLevel.from_weights(A1, weights)  # views: writing here writes to weights
    matrix, bias = low_level.matrix[RESIDUAL_SIZE:], low_level.bias[RESIDUAL_SIZE:]
    per_unit = 2.0 / (gait.PARAMETER_HIGH - gait.PARAMETER_LOW)
    # Half of it at speed 0 of -1 to 1, which is half the speed.
    matrix[gait.STRIDE, 0] = bias[gait.STRIDE] = OPEN_LOOP_STRIDE_M / 2.0 * per_unit[gait.STRIDE]
    matrix[gait.TURN, 1] = OPEN_LOOP_TURN_RAD * per_unit[gait.TURN]
    bias[gait.LIFT] = OPEN_LOOP_LIFT_RAD * per_unit[gait.LIFT] - 1.0
    return weights


class LowLevelGraph(nn.Module):
    """The low level with its gait generator as one torch graph: what the bundle carries."""

    matrix: Tensor
    bias: Tensor

    def __init__(self, low_level: LinearLowLevel) -> None:
        super().__init__()
        self.spec = low_level.spec
        self.register_buffer("matrix", torch.tensor(low_level.matrix, dtype=torch.float32))
        self.register_buffer("bias", torch.tensor(low_level.bias, dtype=torch.float32))

    def forward(
        self, latent: Tensor, imu: Tensor, joint_angles: Tensor, phase: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Joint targets (12,) [rad] and next phase (1,) [rad]; see `LinearLowLevel`."""
        x = features(latent, imu, joint_angles, phase, _TORCH)
        action = (self.matrix @ x + self.bias).clamp(-1.0, 1.0)
        targets, phase = act(self.spec, latent, action, phase, _TORCH)
        return targets, phase
