"""The low level for training and export: observation normalisation, and the graph to export."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from pixelgait.policies.mirror import tie
from pixelgait.policies.normaliser import Normaliser
from pixelgait.robot.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel, act, features
from pixelgait.robot.spec import Array, RobotSpec

# The gait generator is written for numpy and torch; these are the functions it uses, in float32.
_TORCH = SimpleNamespace(
    asarray=lambda value: torch.as_tensor(value, dtype=torch.float32),
    concatenate=torch.cat,
    cos=torch.cos,
    floor=torch.floor,
    maximum=torch.maximum,
    minimum=torch.minimum,
    sin=torch.sin,
    where=torch.where,
)


def searched_low_level(
    spec: RobotSpec, weights: Array, normaliser: Normaliser, mirror: bool
) -> LinearLowLevel:
    """The low level that a search's weights end with: normalisation folded in, sides tied."""
    searched = LinearLowLevel.from_weights(spec, weights[-LOW_LEVEL_WEIGHTS:])
    low_level = normaliser.fold_into(searched)
    return tie(low_level) if mirror else low_level


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
