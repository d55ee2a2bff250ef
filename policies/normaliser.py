"""Running observation normaliser of the low level, folded into its weights after training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pixelgait.robot.control.low_level import PLANAR, LinearLowLevel, LinearShape, shape_with
from pixelgait.robot.spec import Array

# Least standard deviation to divide by. Early in training most inputs hardly vary; dividing by
# their true deviation would turn exploration noise into feedback gains that make the robot fall.
LEAST_DEVIATION = 0.3


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Running mean and spread of the low level's inputs; commands pass unchanged."""

    count: float
    mean: Array  # (20,), or (22,) of an omnidirectional low level
    squares: Array  # as many: summed squared deviations from the mean

    @classmethod
    def empty(cls, shape: LinearShape = PLANAR) -> Normaliser:
        return cls(0.0, np.zeros(shape.inputs), np.zeros(shape.inputs))

    def including(self, samples: Array) -> Normaliser:
        """A normaliser with further samples (n, inputs) (parallel update, Chan et al. 1979)."""
        if len(samples) == 0:
            return self
        count = self.count + len(samples)
        delta = samples.mean(0) - self.mean
        squares = self.squares + samples.var(0) * len(samples)
        squares += delta**2 * self.count * len(samples) / count
        return Normaliser(count, self.mean + delta * len(samples) / count, squares)

    @property
    def deviation(self) -> Array:
        """(20,) or (22,): divisors of the inputs."""
        deviation = np.maximum(np.sqrt(self.squares / max(1.0, self.count)), LEAST_DEVIATION)
        deviation[: shape_with(deviation.size).command] = 1.0
        return np.asarray(deviation)

    def fold_into(self, low_level: LinearLowLevel) -> LinearLowLevel:
        """The map of raw inputs: W (x - mean) / deviation + b."""
        mean = self.mean.copy()
        mean[: low_level.shape.command] = 0.0
        matrix = low_level.matrix / self.deviation
        return replace(low_level, matrix=matrix, bias=low_level.bias - matrix @ mean)
