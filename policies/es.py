"""ARS, an evolution strategy (Mania et al. 2018): antithetic directions, the best of them kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pixelgait.robot.spec import Array


@dataclass(frozen=True, slots=True)
class ESConfig:
    """Settings of the search."""

    directions: int = 16
    """Directions per iteration; each is tried forth and back."""
    top: int = 8
    """How many of the best directions make the step."""
    noise: float = 0.02
    """Length of a trial along a direction."""
    step: float = 0.02
    """Step size."""
    decay: float = 1.0
    """Noise and step shrink by this factor every iteration; below 1 the search settles."""
    courses: int = 1
    """Episodes per candidate; all candidates of an iteration see the same ones."""


def directions(config: ESConfig, scale: Array, seed: int, iteration: int) -> Array:
    """The iteration's search directions (directions, weights).

    They follow from seed and iteration alone, so a resumed run draws what it would have drawn.
    """
    rng = np.random.default_rng((seed, iteration))
    return rng.standard_normal((config.directions, len(scale))) * scale


def cooled(config: ESConfig, iteration: int) -> ESConfig:
    """The settings of an iteration, counted from 1."""
    factor = config.decay ** (iteration - 1)
    return replace(config, noise=config.noise * factor, step=config.step * factor)


def candidates(config: ESConfig, weights: Array, deltas: Array) -> Array:
    """Forth and back along each direction, (2 * directions, weights), alternating."""
    trials = np.stack([weights + config.noise * deltas, weights - config.noise * deltas], 1)
    return trials.reshape(-1, len(weights))


def update(config: ESConfig, weights: Array, deltas: Array, returns: Array) -> Array:
    """The next weights from the returns (2 * directions,) of the candidates.

    step / (b sigma_R) * sum over the b best directions of (R+ - R-) delta, where sigma_R is the
    deviation of the returns used (ARS paper, algorithm 2, version V1-t/V2-t).
    """
    pairs = returns.reshape(-1, 2)
    best = np.argsort(-pairs.max(1), kind="stable")[: config.top]
    used = pairs[best]
    deviation = used.std() + 1e-8
    gradient = (used[:, 0] - used[:, 1]) @ deltas[best]
    return np.asarray(weights + config.step / (len(best) * deviation) * gradient)


def training_seeds(config: ESConfig, seed: int, iteration: int) -> list[int]:
    """Episode seeds of an iteration; seeds from 10000 on are for evaluation only."""
    rng = np.random.default_rng((seed, iteration, 1))
    return [int(s) for s in rng.integers(0, 9000, config.courses)]
