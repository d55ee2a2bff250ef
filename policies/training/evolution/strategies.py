"""Evolution strategies: searches that know a policy by its returns alone.

A search is determined by its settings, seed, start and the returns it has been told: replaying
those restores it exactly, whatever its inner state is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import numpy as np

from pixelgait.robot.cli.options import Count, Range
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.world.seeds import TRAINING


@dataclass(frozen=True, slots=True)
class ESConfig:
    """Settings of the search."""

    method: Literal["ars", "openai", "cma"] = "ars"
    """ars: the best of antithetic directions (Mania et al. 2018); openai: all of them, ranked, with
    Adam (Salimans et al. 2017); cma: separable CMA-ES (Ros and Hansen 2008)."""
    directions: Annotated[int, Range(1, 10_000)] = 16
    """Half the candidates of an iteration: each direction is tried forth and back."""
    top: Count = 8
    """How many of the best directions make the step (ars)."""
    noise: Annotated[float, Range(1e-9, 1e3)] = 0.02
    """Length of a trial along a direction; first deviation of cma, which then adapts its own."""
    step: Annotated[float, Range(0.0, 1e3)] = 0.02
    """Step size (ars, openai)."""
    decay: Annotated[float, Range(1e-3, 1.0)] = 1.0
    """Noise and step shrink by this factor every iteration; below 1 the search settles."""
    courses: Count = 1
    """Episodes per candidate; all candidates of an iteration see the same ones."""

    def check(self) -> None:
        """Raises UserError if an option has no effect with the method, or does not fit another."""
        default = ESConfig()
        for name, methods in USED_BY.items():
            if self.method not in methods and getattr(self, name) != getattr(default, name):
                raise UserError(f"--es.{name} has no effect with --es.method {self.method}")
        if self.method == "ars" and self.top > self.directions:
            raise UserError(f"--es.top is {self.top}, expected 1 to {self.directions}")
        if self.method == "cma" and self.directions == 1:  # the library injects two candidates
            raise UserError("--es.directions is 1, --es.method cma needs 2 or more")


# What not every method has.
USED_BY = {"top": ("ars",), "step": ("ars", "openai"), "decay": ("ars", "openai")}


class Strategy(Protocol):
    """A search: `ask` for candidates, `tell` what they returned."""

    weights: Array  # (n,) the present estimate of the best

    def ask(self) -> Array:
        """Candidates of the next iteration, (2 * directions, n)."""

    def tell(self, returns: Array) -> None:
        """Move on, from the returns (2 * directions,) of those candidates."""


def make_strategy(config: ESConfig, start: Array, scale: Array, seed: int) -> Strategy:
    """The search that `config` names; `scale` (n,) is how far it explores each weight."""
    kinds: dict[str, type[ARS | OpenAIES | SeparableCMA]] = {
        "ars": ARS,
        "openai": OpenAIES,
        "cma": SeparableCMA,
    }
    return kinds[config.method](config, start, scale, seed)


class _Antithetic:
    """Tries Gaussian directions forth and back around the weights."""

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        self.config, self.weights, self.scale, self.seed = config, start.copy(), scale, seed
        self.iteration = 0
        self.directions = np.zeros((0, len(start)))  # unscaled

    def ask(self) -> Array:
        self.iteration += 1
        rng = np.random.default_rng((self.seed, self.iteration))
        self.directions = rng.standard_normal((self.config.directions, len(self.weights)))
        offsets = self.config.noise * self.cooling * self.directions * self.scale
        trials = np.stack([self.weights + offsets, self.weights - offsets], 1)
        return np.asarray(trials.reshape(-1, len(self.weights)))

    @property
    def cooling(self) -> float:
        """What is left of noise and step in this iteration."""
        return float(self.config.decay ** (self.iteration - 1))


class ARS(_Antithetic):
    """Augmented random search (arXiv 1803.07055, algorithm 2, V1-t and V2-t)."""

    def tell(self, returns: Array) -> None:
        """step / (b sigma_R) * sum over the b best directions of (R+ - R-) delta.

        sigma_R is the deviation of the returns used; a direction is as good as its better side.
        """
        pairs = returns.reshape(-1, 2)
        best = np.argsort(-pairs.max(1), kind="stable")[: self.config.top]
        used = pairs[best]
        gradient = (used[:, 0] - used[:, 1]) @ self.directions[best] * self.scale
        step = self.config.step * self.cooling
        self.weights = self.weights + step / (len(best) * (used.std() + 1e-8)) * gradient


class OpenAIES(_Antithetic):
    """Rank-shaped ES with Adam (arXiv 1703.03864); moments as in arXiv 1412.6980."""

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's own

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        super().__init__(config, start, scale, seed)
        self.first, self.second = np.zeros_like(start), np.zeros_like(start)

    def tell(self, returns: Array) -> None:
        """Adam on the gradient that centred ranks give, per weight in units of its scale."""
        ranks = centred_ranks(returns).reshape(-1, 2)
        # By the noise it began with: ranks do not shrink with it, so nor does Adam's gradient.
        noise = self.config.noise
        gradient = (ranks[:, 0] - ranks[:, 1]) @ self.directions / (len(returns) * noise)
        self.first = self.BETA_1 * self.first + (1 - self.BETA_1) * gradient
        self.second = self.BETA_2 * self.second + (1 - self.BETA_2) * gradient**2
        first = self.first / (1 - self.BETA_1**self.iteration)
        second = self.second / (1 - self.BETA_2**self.iteration)
        step = self.config.step * self.cooling * self.scale
        self.weights = self.weights + step * first / (np.sqrt(second) + self.EPSILON)


class SeparableCMA:
    """CMA-ES with a diagonal covariance, by the library `cma`: linear in the number of weights."""

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        import cma

        rng = np.random.default_rng(seed)
        options: dict[str, Any] = {
            "popsize": 2 * config.directions,
            "CMA_diagonal": True,
            "CMA_stds": scale,
            "randn": lambda *shape: rng.standard_normal(shape),  # not numpy's global generator
            "seed": np.nan,  # nor shall it be seeded
            "verbose": -9,
        }
        self._search = cma.CMAEvolutionStrategy(start, config.noise, options)
        self._asked: list[Array] = []
        self.weights = start.copy()

    def ask(self) -> Array:
        self._asked = self._search.ask()
        return np.array(self._asked)

    def tell(self, returns: Array) -> None:
        self._search.tell(self._asked, (-returns).tolist())
        self.weights = np.array(self._search.mean)


def centred_ranks(returns: Array) -> Array:
    """Ranks (n,) scaled to [-0.5, 0.5], the best return highest; equal returns rank equal."""
    values, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    if len(values) == 1:
        return np.zeros(len(returns))
    middle = np.cumsum(counts) - (counts + 1) / 2.0  # mean position of each value's run
    return np.asarray(middle[inverse] / (len(returns) - 1) - 0.5)


def training_seeds(config: ESConfig, seed: int, iteration: int) -> list[int]:
    """Episode seeds of an iteration, from the training range."""
    rng = np.random.default_rng((seed, iteration, 1))
    return [int(s) for s in rng.integers(0, len(TRAINING), config.courses)]
