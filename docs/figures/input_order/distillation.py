"""Distillation of the shipped low level into a network that does not know the order of its inputs.

DAgger (arXiv 1011.0686), as for high levels: the student walks, the teacher `walk` labels every
step, and the student is fitted to all labels by truncated back-propagation through time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from docs.figures.input_order.sensory_neurons import NeuronPolicy, SensoryNeurons
from pixelgait.policies.runs.trained import trained_low_level
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.control.controller import Controller
from pixelgait.robot.control.low_level import INPUT_SIZE, LinearLowLevel, act, felt
from pixelgait.robot.interface import Reading
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import SimulatedBody
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import Episode, run_episode
from pixelgait.sim.tasks.follow import Follow

EPISODE_STEPS = 1000  # 10 s of commands that change every second, with pushes
SHUFFLE_STEPS = 100  # 1 s; the paper shuffles every 100 steps as well
UNROLLED = 50  # steps of truncated back-propagation
BATCH = 32  # parts of episodes fitted at once
RATE = 0.003  # of Adam, falling to 0 along a cosine
MAX_NORM = 1.0  # of a gradient
ACTION_NOISE = 0.3  # standard deviation in every other walk of the teacher; assumption

Policy = Callable[[Array], Array]  # from inputs (20,) to an action (19,) in [-1, 1]


@dataclass(frozen=True, slots=True)
class Walk:
    """Inputs and actions of a low level in an episode, and the teacher's actions."""

    inputs: Array  # (n, 20)
    actions: Array  # (n, 19)
    taught: Array  # (n, 19)


class ObservedLowLevel:
    """Low level whose inputs are shuffled every so many steps; 0: never."""

    def __init__(self, teacher: LinearLowLevel, policy: Policy, shuffle: int, seed: int) -> None:
        self.teacher, self.policy, self.shuffle = teacher, policy, shuffle
        self.rng = np.random.default_rng(seed)
        self.order = np.arange(INPUT_SIZE)
        self._steps: list[tuple[Array, Array, Array]] = []

    def __call__(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        x = felt(latent, reading, carried[:1])
        if self.shuffle and len(self._steps) % self.shuffle == 0:
            self.order = self.rng.permutation(INPUT_SIZE)
        action = self.policy(x[self.order])
        self._steps.append((x, action, self.teacher.action(x)))
        return act(self.teacher.spec, latent, action, carried, reading.joint_angles)

    def walk(self) -> Walk:
        """The episode so far."""
        return Walk(*(np.array(column) for column in zip(*self._steps, strict=True)))


class OrderedWalker:
    """Robot that follows commands, in a worker process."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.teacher = trained_low_level(SHIPPED / "walk" / "low_level")
        self.body: SimulatedBody = make_body("pybullet", self.teacher.spec, FlatGround())

    def run(self, policy: Policy, shuffle: int, seed: int) -> tuple[Episode, Walk]:
        """Run an episode with a policy."""
        task = Follow(EPISODE_STEPS)
        low_level = ObservedLowLevel(self.teacher, policy, shuffle, seed)
        controller = Controller(task.command, low_level, Supervisor(self.teacher.spec))
        return run_episode(controller, self.body, task, seed), low_level.walk()

    def demonstrate(self, noise: float, seed: int) -> tuple[Episode, Walk]:
        """Run an episode with the teacher, with noise on its actions."""
        rng = np.random.default_rng((seed, 1))

        def noisy(x: Array) -> Array:
            action = self.teacher.action(x)
            return np.clip(action + noise * rng.standard_normal(action.size), -1.0, 1.0)

        return self.run(noisy, 0, seed)


_walker: OrderedWalker


def start() -> None:
    """Initialise a worker process."""
    global _walker
    _walker = OrderedWalker()


def walk(job: tuple[SensoryNeurons | None, int, int]) -> tuple[Episode, Walk]:
    """Run an episode of (student or None for the teacher, steps between shuffles, seed)."""
    network, shuffle, seed = job
    if network is None:
        return _walker.demonstrate(ACTION_NOISE * (seed % 2), seed)
    return _walker.run(NeuronPolicy(network), shuffle, seed)


def walk_linear(job: tuple[int, int]) -> tuple[Episode, Walk]:
    """Run an episode of the shipped low level, of (steps between shuffles, seed)."""
    shuffle, seed = job
    teacher = _walker.teacher
    return _walker.run(teacher.action, shuffle, seed)


def fit(network: SensoryNeurons, walks: list[Walk], steps: int, seed: int) -> float:
    """Fit to the teacher's actions, inputs shuffled at random times; returns the final loss.

    Raises:
        ValueError: if every walk is shorter than the back-propagation.
    """
    parts = [(w, at) for w in walks for at in range(0, len(w.inputs) - UNROLLED + 1, UNROLLED)]
    if not parts:
        raise ValueError(f"no walk is {UNROLLED} steps long")
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    at = rng.integers(len(parts), size=BATCH)
    state, losses = None, []
    orders = np.array([rng.permutation(INPUT_SIZE) for _ in at])
    for _ in range(steps):
        read = zip((parts[i] for i in at), orders, strict=True)
        drawn = [_part(whole, begin, order, rng) for (whole, begin), order in read]
        orders = np.array([order for *_, order in drawn])
        inputs, last, taught = (
            torch.tensor(np.stack([each[k] for each in drawn], 1), dtype=torch.float32)
            for k in range(3)
        )
        begins = torch.tensor([parts[i][1] == 0 for i in at])
        if state is not None:
            keep = (~begins).repeat_interleave(INPUT_SIZE)[None, :, None]
            state = (state[0].detach() * keep, state[1].detach() * keep)
        actions, state = network(inputs, last, state)
        loss = ((actions - taught) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
        optimiser.step()
        cooling.step()
        losses.append(float(loss.detach()))
        at = (at + 1) % len(parts)
    return float(np.mean(losses[-100:]))


def _part(
    whole: Walk, begin: int, order: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """Inputs, previous actions, teacher's actions and final input order of a part of a walk."""
    end = begin + UNROLLED
    inputs = whole.inputs[begin:end][:, order]
    if rng.random() < UNROLLED / SHUFFLE_STEPS:
        order, when = rng.permutation(INPUT_SIZE), int(rng.integers(UNROLLED))
        inputs[when:] = whole.inputs[begin + when : end][:, order]
    actions = whole.actions
    before = np.zeros((1, actions.shape[1])) if begin == 0 else actions[begin - 1 : begin]
    last = np.concatenate((before, actions[begin : end - 1]))
    return inputs, last, whole.taught[begin:end], order
