"""The low level for training and export: observation normalisation, and the graph to export."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from pixelgait.policies.mirror import tie
from pixelgait.robot.low_level import INPUTS, LATENT, WEIGHTS, LinearLowLevel, act, features
from pixelgait.robot.spec import A1, Array

# Least standard deviation to divide by. Early in training most inputs hardly move; dividing by
# their true deviation would turn exploration noise into feedback gains that make the robot fall.
LEAST_DEVIATION = 0.3

# The gait generator is written for numpy and torch; these are the functions it uses, in float32.
_TORCH = SimpleNamespace(
    asarray=lambda value: torch.as_tensor(value, dtype=torch.float32),
    concatenate=torch.cat,
    cos=torch.cos,
    floor=torch.floor,
    sin=torch.sin,
    stack=torch.stack,
    where=torch.where,
)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Running mean and spread of the low level's inputs; latent commands pass unchanged."""

    count: float
    mean: Array  # (20,)
    squares: Array  # (20,) summed squared deviations from the mean

    @classmethod
    def empty(cls) -> Statistics:
        return cls(0.0, np.zeros(INPUTS), np.zeros(INPUTS))

    def including(self, samples: Array) -> Statistics:
        """With further samples (n, 20) (parallel update of Chan et al. 1979)."""
        if len(samples) == 0:
            return self
        count = self.count + len(samples)
        delta = samples.mean(0) - self.mean
        squares = self.squares + samples.var(0) * len(samples)
        squares += delta**2 * self.count * len(samples) / count
        return Statistics(count, self.mean + delta * len(samples) / count, squares)

    def fold_into(self, low_level: LinearLowLevel) -> LinearLowLevel:
        """The same map with normalisation in its weights: W (x - mean) / deviation + b."""
        deviation = np.sqrt(self.squares / max(1.0, self.count))
        deviation = np.maximum(deviation, LEAST_DEVIATION)
        mean = self.mean.copy()
        deviation[:LATENT], mean[:LATENT] = 1.0, 0.0
        matrix = low_level.matrix / deviation
        return replace(low_level, matrix=matrix, bias=low_level.bias - matrix @ mean)


def searched_low_level(weights: Array, statistics: Statistics, mirror: bool) -> LinearLowLevel:
    """The low level that a search's weights end with: normalisation folded in, sides tied."""
    low_level = statistics.fold_into(LinearLowLevel.from_weights(A1, weights[-WEIGHTS:]))
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
        targets, phase = act(self.spec, action, phase, _TORCH)
        return targets, phase
