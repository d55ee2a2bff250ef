"""Evolution: a trainer that asks a strategy for candidates, evaluates them, and tells it."""

from __future__ import annotations

import numpy as np

from pixelgait.policies.runs.run import Checkpoint
from pixelgait.policies.training.evolution.strategies import ESConfig, make_strategy, training_seeds
from pixelgait.policies.training.rollouts.plan import Plan
from pixelgait.policies.training.rollouts.validation import Figures, Validation, summary
from pixelgait.policies.training.rollouts.worker import Job, evaluate
from pixelgait.robot.control.low_level import LATENT_SIZE, LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.workers.process_pool import Pool

# ARS explores all weights alike. The gait lives in the biases and in the latent's columns: they
# explore this much further, which shortens learning to walk from minutes to seconds.
GAIT_SCALE = 4.0
# Where both levels are trained at once: the low level's weights act in every control step, and
# bear an eighth of the noise (0.02 against 0.15) that the high level's need to learn anything.
JOINT_SCALE = 0.13


class Evolution:
    """The trainer of walk, follow, course and joint; see `loop.Trainer`.

    A checkpoint keeps the start and the returns of all candidates so far: a strategy that is told
    them again is where it was.
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
        """Raises UserError if the checkpoint is none of such a search."""
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

    def iterate(self, iteration: int) -> Figures:
        """Evaluate the candidates of an iteration, and move on from their returns."""
        returns, figures = self._evaluate(self.strategy.ask(), iteration)
        self.strategy.tell(returns)
        self.history.append(returns)
        return {**figures, "train/best_return": float(returns.max())}

    def validate(self) -> Figures:
        """Figures of the present weights on the validation seeds."""
        return self.validation.figures(self.weights, self.normaliser)

    def histograms(self) -> dict[str, Array]:
        """Latents and durations of all decisions since the last call."""
        decisions, self._decisions = np.concatenate(self._decisions), []
        names = ("latent_speed", "latent_turn", "duration_steps") if len(decisions) else ()
        return {f"decisions/{name}": decisions[:, i] for i, name in enumerate(names)}

    def _evaluate(self, trials: Array, iteration: int) -> tuple[Array, Figures]:
        """Mean return (n,) of each candidate over the iteration's courses, the same for all."""
        seeds = training_seeds(self.config, self.seed, iteration)
        difficulty = self.plan.difficulty_in(iteration)
        jobs = [Job(trial, self.normaliser, seeds, self.plan.steps, difficulty) for trial in trials]
        episodes = evaluate(self.pool, self.plan, jobs, f"iteration {iteration}")
        returns = np.array([np.mean([e.return_m for e in each]) for each in episodes])
        flat = [episode for each in episodes for episode in each]
        if self.plan.low_level_weights:
            for episode in flat:
                self.normaliser = self.normaliser.including(episode.observations)
        self._decisions += [episode.decisions for episode in flat]
        return returns, {
            **summary("train", flat),
            "train/difficulty": difficulty,
        }


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


def exploration_scale(plan: Plan, size: int) -> Array:
    """How far each of so many weights is explored, relative to the others, (size,)."""
    scale = np.ones(size)
    if plan.low_level_weights:
        part = scale[-LOW_LEVEL_WEIGHTS:]
        low_level = LinearLowLevel.from_weights(plan.spec, part)  # views of scale
        low_level.matrix[:, :LATENT_SIZE] = GAIT_SCALE
        low_level.bias[:] = GAIT_SCALE
        part *= JOINT_SCALE if plan.sees else 1.0
    return scale
