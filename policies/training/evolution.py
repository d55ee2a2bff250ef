"""Evolution strategies: ARS, OpenAI-ES and separable CMA-ES, which learn from returns alone.

All three ask for candidates, evaluate them, and tell the strategy their returns. Settings, seed,
start and returns determine a search: telling the same returns again restores it exactly.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pixelgait.policies.runs.run import Checkpoint
from pixelgait.policies.training.plan import ESConfig, Plan
from pixelgait.policies.training.rollouts import (
    Figures,
    Job,
    Progress,
    Validation,
    evaluate,
    summary,
)
from pixelgait.robot.control.low_level import LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.workers.process_pool import Pool
from pixelgait.sim.world.seeds import TRAINING

# ARS explores all weights alike. The gait depends on the biases and on the latent's columns: they
# are explored this much further, which shortens learning to walk from minutes to seconds.
GAIT_SCALE = 4.0
# The column of climb is explored this much further again: it acts in every third episode, and what
# climbs a kerb is far from what walks.
CLIMB, CLIMB_SCALE = 3, 3.0
# Both levels at once (joint): the low level's weights act in every control step. They bear an
# eighth of the noise (0.02 against 0.15) that the high level's need to learn anything.
JOINT_SCALE = 0.13


class Evolution:
    """The trainer of walk, follow, course and joint; see `loop.Trainer`.

    A checkpoint holds the start and the returns of all candidates so far.
    """

    def __init__(
        self,
        pool: Pool,
        plan: Plan,
        config: ESConfig,
        seed: int,
        validation: Validation,
        checkpoint: Checkpoint,
    ) -> None:
        """Continues from a checkpoint; raises UserError if it is not that of such a search."""
        check_history(checkpoint, config)
        self.pool, self.plan, self.config, self.seed = pool, plan, config, seed
        self.validation = validation
        self.start = checkpoint.state["start"]
        self.history = [*checkpoint.state["history"]]
        self.normaliser = checkpoint.normaliser
        scale = exploration_scale(plan, self.start.size)
        self.strategy = make_strategy(config, self.start, scale, seed)
        for returns in self.history:
            self.strategy.ask()
            self.strategy.tell(returns)
        self._decisions: list[Array] = []

    @property
    def weights(self) -> Array:
        """(n,): the strategy's present estimate of the best."""
        return self.strategy.weights

    def state(self) -> dict[str, Array]:
        """`start` (n,) and `history` (iterations, candidates)."""
        return {"start": self.start, "history": np.array(self.history)}

    def iterate(self, iteration: int, progress: Progress) -> Figures:
        """One iteration: ask, evaluate, tell."""
        candidates = self.strategy.ask()
        returns, figures = self._evaluate(candidates, iteration, progress)
        self.strategy.tell(returns)
        self.history.append(returns)
        return {**figures, "train/best_return": float(returns.max())}

    def validate(self) -> Figures:
        """Figures of the present weights on the validation seeds."""
        return self.validation.figures(self.weights, self.normaliser)

    def histograms(self) -> dict[str, Array]:
        """Latents and durations of all decisions since the last call."""
        decisions, self._decisions = np.concatenate(self._decisions), []
        names = {"latent_speed": 0, "latent_turn": 1, "duration_steps": -1}
        return {f"decisions/{n}": decisions[:, i] for n, i in names.items() if len(decisions)}

    def _evaluate(
        self, candidates: Array, iteration: int, progress: Progress
    ) -> tuple[Array, Figures]:
        """Mean return (n,) of each candidate over the iteration's courses, the same for all."""
        seeds = training_seeds(self.config, self.seed, iteration)
        difficulty = self.plan.difficulty_in(iteration)
        jobs = [
            Job(each, self.normaliser, seeds, self.plan.steps, difficulty) for each in candidates
        ]
        episodes = evaluate(self.pool, self.plan, jobs, f"iteration {iteration}", progress)
        returns = np.array([np.mean([e.return_m for e in each]) for each in episodes])
        flat = [episode for each in episodes for episode in each]
        if self.plan.low_level_weights:
            for episode in flat:
                self.normaliser = self.normaliser.including(episode.observations)
        self._decisions += [episode.decisions for episode in flat]
        return returns, {**summary("train", flat), "train/difficulty": difficulty}


class Strategy(Protocol):
    """A search: `ask` for candidates, `tell` their returns."""

    weights: Array  # (n,) the present estimate of the best

    def ask(self) -> Array:
        """Candidates of the next iteration, (2 * directions, n)."""

    def tell(self, returns: Array) -> None:
        """Update the estimate from the candidates' returns (2 * directions,)."""


def make_strategy(config: ESConfig, start: Array, scale: Array, seed: int) -> Strategy:
    """The strategy that `config` names; `scale` (n,) is how far it explores each weight."""
    kinds: dict[str, type[ARS | OpenAIES | SeparableCMA]] = {
        "ars": ARS,
        "openai": OpenAIES,
        "cma": SeparableCMA,
    }
    return kinds[config.method](config, start, scale, seed)


class _Antithetic:
    """Asks for both ends of Gaussian directions: theta +- nu delta_k, delta_k ~ N(0, I).

    Noise nu and step alpha decay by the same factor per iteration; every weight has its own scale.
    """

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        self.config, self.weights, self.scale, self.seed = config, start.copy(), scale, seed
        self.iteration = 0
        self.directions = np.zeros((0, len(start)))  # delta, unscaled

    def ask(self) -> Array:
        self.iteration += 1
        rng = np.random.default_rng((self.seed, self.iteration))
        self.directions = rng.standard_normal((self.config.directions, len(self.weights)))
        offsets = self.config.noise * self.decay * self.directions * self.scale
        candidates = np.stack([self.weights + offsets, self.weights - offsets], 1)
        return np.asarray(candidates.reshape(-1, len(self.weights)))

    @property
    def decay(self) -> float:
        """Factor on noise and step in this iteration."""
        return float(self.config.decay ** (self.iteration - 1))


class ARS(_Antithetic):
    """Augmented random search (Mania et al. 2018, arXiv 1803.07055, algorithm 2, V1-t, V2-t)::

        for j = 1, 2, ..:
            ask:      theta +- nu delta_k for k = 1 .. N, delta_k ~ N(0, I)
            evaluate: R_k+, R_k-
            tell:     sort directions by max(R_k+, R_k-), keep the b best,
                      theta += alpha / (b sigma_R) sum_k (R_k+ - R_k-) delta_k

    sigma_R is the standard deviation of the 2 b returns used. V2-t's normalisation of the inputs
    is `Normaliser`.
    """

    def tell(self, returns: Array) -> None:
        pairs = returns.reshape(-1, 2)
        best = np.argsort(-pairs.max(1), kind="stable")[: self.config.top]
        used = pairs[best]
        gradient = (used[:, 0] - used[:, 1]) @ self.directions[best] * self.scale
        step = self.config.step * self.decay
        self.weights = self.weights + step / (len(best) * (used.std() + 1e-8)) * gradient


class OpenAIES(_Antithetic):
    """OpenAI-ES (Salimans et al. 2017, arXiv 1703.03864, algorithm 1) with ranks and Adam::

        for t = 1, 2, ..:
            ask:      theta +- sigma eps_k for k = 1 .. n, eps_k ~ N(0, I)
            evaluate: F_k+, F_k-
            tell:     g = 1 / (2 n sigma) sum_k (rank(F_k+) - rank(F_k-)) eps_k
                      theta += Adam(g)

    Ranks are centred, in [-0.5, 0.5]. Adam is that of arXiv 1412.6980, algorithm 1.
    """

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # defaults of Adam's paper

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        super().__init__(config, start, scale, seed)
        self.first, self.second = np.zeros_like(start), np.zeros_like(start)  # moments m, v

    def tell(self, returns: Array) -> None:
        ranks = centred_ranks(returns).reshape(-1, 2)
        # The first noise, not the decayed one: ranks do not shrink with it, nor must the gradient.
        noise = self.config.noise
        gradient = (ranks[:, 0] - ranks[:, 1]) @ self.directions / (len(returns) * noise)
        self.first = self.BETA_1 * self.first + (1 - self.BETA_1) * gradient
        self.second = self.BETA_2 * self.second + (1 - self.BETA_2) * gradient**2
        first = self.first / (1 - self.BETA_1**self.iteration)
        second = self.second / (1 - self.BETA_2**self.iteration)
        step = self.config.step * self.decay * self.scale
        self.weights = self.weights + step * first / (np.sqrt(second) + self.EPSILON)


class SeparableCMA:
    """CMA-ES with a diagonal covariance (Ros and Hansen 2008, sep-CMA-ES), by the library `cma`::

        for g = 1, 2, ..:
            ask:      x_k = m + sigma sqrt(c) z_k for k = 1 .. lambda, z_k ~ N(0, I)
            evaluate: f(x_k)
            tell:     m = sum of w_i x_i over the best lambda / 2, by rank i;
                      sigma by the length of its evolution path, c by rank-one and rank-mu updates

    The diagonal c makes an iteration linear in the number of weights.
    """

    def __init__(self, config: ESConfig, start: Array, scale: Array, seed: int) -> None:
        import cma

        rng = np.random.default_rng(seed)
        options: dict[str, Any] = {
            "popsize": 2 * config.directions,
            "CMA_diagonal": True,
            "CMA_stds": scale,
            "randn": lambda *shape: rng.standard_normal(shape),  # not numpy's global generator
            "seed": np.nan,  # leaves numpy's global generator alone
            "verbose": -9,
        }
        self._search = cma.CMAEvolutionStrategy(start, config.noise, options)
        self._candidates: list[Array] = []
        self.weights = start.copy()

    def ask(self) -> Array:
        self._candidates = self._search.ask()
        return np.array(self._candidates)

    def tell(self, returns: Array) -> None:
        self._search.tell(self._candidates, (-returns).tolist())
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


def exploration_scale(plan: Plan, size: int) -> Array:
    """How far each weight is explored, relative to the others, (size,)."""
    scale = np.ones(size)
    if plan.low_level_weights:
        part = scale[-plan.low_level_weights :]
        low_level = LinearLowLevel.from_weights(plan.spec, part)  # views of scale
        low_level.matrix[:, : plan.shape.command] = GAIT_SCALE
        if plan.omni:
            low_level.matrix[:, CLIMB] *= CLIMB_SCALE
        low_level.bias[:] = GAIT_SCALE
        part *= JOINT_SCALE if plan.sees else 1.0
    return scale


def check_history(checkpoint: Checkpoint, config: ESConfig) -> None:
    """Raises UserError unless a search of that many weights can be restored from it."""
    start, history = (checkpoint.state.get(name, np.zeros(0)) for name in ("start", "history"))
    fits = start.shape == checkpoint.weights.shape and len(history) == checkpoint.iteration
    if len(history):
        fits = fits and history.shape[1:] == (2 * config.directions,)
    if not fits:
        raise UserError(
            f"last.npz: iteration {checkpoint.iteration}, weights {checkpoint.weights.shape}, but "
            f"returns {history.shape} of a search that began with {start.shape}"
        )
