"""Any environment, many at once: processes that share them, and step their own side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pixelgait.robot.cli.processes import start_fork_server
from pixelgait.robot.errors import UserError
from pixelgait.sim.environments.argument_checks import (
    as_action,
    check_count,
    check_render_mode,
    check_reset,
    check_workers,
    each_seed,
)
from pixelgait.sim.environments.base_env import Infos, Observation
from pixelgait.sim.environments.env_process import EnvRequest, EnvWorker, Make, Share, SharedMemory
from pixelgait.sim.environments.gait_env import GaitEnv
from pixelgait.sim.environments.steer_env import SteerEnv


def gaits(num_envs: int = 1, workers: int | None = None, **options: Any) -> SharedVectorEnv:
    """n of `GaitEnv`."""
    return SharedVectorEnv(_making(GaitEnv, options), num_envs, workers)


def steers(num_envs: int = 1, workers: int | None = None, **options: Any) -> SharedVectorEnv:
    """n of `SteerEnv`."""
    return SharedVectorEnv(_making(SteerEnv, options), num_envs, workers)


def _making(entry: Any, options: dict[str, Any]) -> Make:
    """As `gymnasium.make` does it, with its own options, but for its checks of every step.

    Raises:
        UserError: a render mode is no text, on which that would trip.
    """
    if not isinstance(mode := options.get("render_mode"), str):
        check_render_mode(mode, entry.metadata["render_modes"])
    spec = EnvSpec(f"PixelGait/{entry.__name__}", entry_point=entry, disable_env_checker=True)
    return partial(gymnasium.make, spec, **options)


class SharedVectorEnv(VectorEnv[Observation, NDArray[np.floating[Any]], NDArray[Any]]):
    """n environments, shared among the calling process and workers, one for every other core.

    As Gymnasium's AsyncVectorEnv has them, bit for bit: an episode that is over begins anew in the
    next step. But with a message for each worker, not for each environment, and none for what the
    calling process does itself. What an environment raises ends all of them, and is raised here; so
    does Ctrl-C. `workers` counts the processes that simulate, the calling one too.

    Raises:
        UserError: an argument that a single one would not take, or no such number of workers.
    """

    def __init__(self, make: Make, num_envs: int = 1, workers: int | None = None) -> None:
        check_count(num_envs)
        check_workers(workers)
        self._shares = _shares(num_envs, workers or len(os.sched_getaffinity(0)))
        first, *others = self._shares
        self._own = own = Share(make, first.stop)  # whatever cannot be used shows here
        self.num_envs, self.metadata, self.render_mode = num_envs, own.metadata, own.render_mode
        self.single_action_space = own.single_action_space
        self.single_observation_space = own.single_observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._acts = self.action_space.shape or ()
        memory = SharedMemory.of(self.observation_space, num_envs)
        self._seen = {name: block.view() for name, block in memory.seen.items()}
        self._judged = [block.view() for block in memory.judged]
        own.write_into(memory, first)
        self.workers: list[EnvWorker] = []
        if others:
            start_fork_server(__name__)
        for share in others:
            self.workers.append(EnvWorker(make, memory, share))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Infos]:
        """Begin everywhere, with this seed and those after it, or a seed or None for each.

        Raises:
            UserError: there are more seeds than robots, or fewer, or only some are to begin.
        """
        check_reset(options)
        seeds = each_seed(seed, self.num_envs)
        infos = self._ask(
            EnvRequest("reset", (), {"seed": seeds[share], "options": options})
            for share in self._shares
        )
        return self._observations(), self._together(infos)

    def step(
        self, actions: NDArray[np.floating[Any]]
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], Infos]:
        """Apply actions (n, ...); where an episode was over, the next one begins instead.

        Raises:
            UserError: there are more actions than robots, or fewer, or of another shape.
        """
        wanted = as_action(actions, self._acts)
        infos = self._ask(EnvRequest("step", (wanted[share],)) for share in self._shares)
        rewards, terminated, truncated = (values.copy() for values in self._judged)
        return self._observations(), rewards, terminated, truncated, self._together(infos)

    def render(self) -> tuple[Any, ...]:
        """A picture of each, as of a single one."""
        return self.call("render")

    def call(self, name: str, *arguments: Any, **options: Any) -> tuple[Any, ...]:
        """What a method of each returns, or an attribute of each."""
        order = EnvRequest("call", (name, *arguments), options)
        return tuple(chain(*self._ask(order for _ in self._shares)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each to its own of n values, or of all to one."""
        each = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise UserError(f"{name}: {len(each)} values for {self.num_envs} robots")
        self._ask(EnvRequest("set_attr", (name, each[share])) for share in self._shares)

    def close_extras(self, **_: Any) -> None:
        """End the workers, and free the simulators."""
        for worker in self.workers:
            worker.end()
        self._own.close()

    def __del__(self) -> None:
        if hasattr(self, "workers"):
            self.close()

    def _ask(self, orders: Iterable[EnvRequest]) -> list[Any]:
        """What every share returns, each as it is told.

        Raises:
            Exception: what any of them raises; then all are closed.
        """
        if self.closed:
            raise ClosedEnvironmentError("these environments are closed")
        own, *others = orders
        try:
            for worker, order in zip(self.workers, others, strict=True):
                worker.ask(order)
            return [self._own.follow(own), *(worker.answer() for worker in self.workers)]
        except BaseException:  # answers that nobody has read would be taken for the next
            self.close()
            raise

    def _observations(self) -> Observation:
        """A copy of what all see, (n, ...)."""
        return {name: values.copy() for name, values in self._seen.items()}

    def _together(self, infos: Sequence[Infos]) -> Infos:
        """The infos of all, from those of every share; 0, or None, of who has none."""
        merged: Infos = {}
        for share, own in zip(self._shares, infos, strict=True):
            for name, values in own.items():
                if name not in merged:
                    shape = (self.num_envs, *values.shape[1:])
                    nothing = None if values.dtype == object else 0
                    merged[name] = np.full(shape, nothing, values.dtype)
                merged[name][share] = values
        return merged


def _shares(robots: int, workers: int) -> list[slice]:
    """Whose robots are whose, as evenly as can be; nobody has none."""
    bounds = np.linspace(0, robots, min(workers, robots) + 1).round().astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(bounds)]
