"""Behaviour cloning: a high level is fitted to decisions by gradient, as far down as there is one.

A selection of patches has no gradient: for IAP only what follows it is fitted, to features computed
once. A memory is fitted to sequences, by truncated back-propagation through time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.sim.tasks.teacher import HOLD_STEPS

CHUNK = 512  # images encoded at once
# Rates of Adam, falling to 0 along half a cosine. At 0.01 one in three CNNs dies at once.
HEAD_RATE, NETWORK_RATE = 0.01, 0.003
HEAD_STEPS = 3  # a step of the head alone costs less than a tenth: it takes more
LOSS_WEIGHTS = (0.1, 0.3, 1.0)  # of errors in duration, speed and turn: it is the turns that matter
SHORT = 2.0 * (HOLD_STEPS - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS) - 1.0  # the output
UNROLLED = 32  # decisions through which gradients go back in time
STEEPEST = 1.0  # norm of a gradient that went through time


@dataclass(frozen=True, slots=True)
class Lessons:
    """What was seen in n decisions, in the order of time, and what the teacher did there."""

    seen: Tensor  # images (n, H, W, C) uint8, or features (n, views, F)
    goals: Tensor  # (n, 2)
    latents: Tensor  # (n, 2)
    starts: Tensor  # (n,) bool: where an episode begins

    def __getitem__(self, which: Tensor) -> Lessons:
        return Lessons(
            *(each[which] for each in (self.seen, self.goals, self.latents, self.starts))
        )


def has_gradient(high_level: HighLevelNetwork) -> bool:
    """Whether gradients reach the encoder's weights."""
    image = torch.zeros(1, *high_level.image_shape, dtype=torch.uint8)
    return encode(high_level, image).requires_grad


def encode(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """Features (B, views, F) of images (B, H, W, C)."""
    return torch.stack(high_level.views(images)[0], 1)


@torch.no_grad()
def encode_all(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """Features (n, views, F) of many images (n, H, W, C)."""
    return torch.cat([encode(high_level, chunk) for chunk in images.split(CHUNK)])


def fit(high_level: HighLevelNetwork, lessons: Lessons, steps: int, batch: int, seed: int) -> float:
    """Fit to lessons in so many steps of `batch` decisions each; returns the last steps' loss.

    Images train the whole network, features what follows the encoder.
    """
    whole = lessons.seen.dtype == torch.uint8
    encoder = {id(parameter) for parameter in high_level.encoder.parameters()}
    rest = [p for p in high_level.parameters() if id(p) not in encoder]
    parameters, rate = (high_level.parameters(), NETWORK_RATE) if whole else (rest, HEAD_RATE)
    if high_level.memory:
        rate = NETWORK_RATE
    steps = steps if whole else HEAD_STEPS * steps
    optimiser = torch.optim.Adam(parameters, lr=rate)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    batches = torch.Generator().manual_seed(seed)
    losses = (_recurrent if high_level.memory else _memoryless)(high_level, lessons, batch, batches)
    last: list[float] = []
    for _, loss in zip(range(steps), losses, strict=False):
        optimiser.zero_grad()
        loss.backward()
        if high_level.memory:
            torch.nn.utils.clip_grad_norm_(high_level.parameters(), STEEPEST)
        optimiser.step()
        cooling.step()
        last = [*last[-99:], float(loss.detach())]
    return float(np.mean(last))


def _memoryless(
    high_level: HighLevelNetwork, lessons: Lessons, batch: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Losses of batches of single decisions, for ever."""
    while True:
        drawn = lessons[torch.randint(len(lessons.seen), (batch,), generator=rng)]
        views = list(_views(high_level, drawn.seen).unbind(1))
        heads, _ = high_level.heads(views, drawn.goals, torch.zeros(batch, 0))
        yield _loss(high_level.outputs(heads), drawn)


def _recurrent(
    high_level: HighLevelNetwork, lessons: Lessons, batch: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Losses of batches of sequences of `UNROLLED` decisions, for ever.

    All episodes are one endless tape with as many readers as there are sequences in a batch, each
    beginning at an episode; a state is what the sequence before has left, and nothing at a start.
    """
    memory = high_level.memory
    assert memory is not None
    readers = max(1, batch // UNROLLED)
    begins = lessons.starts.nonzero()[:, 0]
    at = begins[torch.randint(len(begins), (readers,), generator=rng)]
    state = torch.zeros(high_level.state_size // memory.size, readers, memory.size)
    while True:
        tape = (at + torch.arange(UNROLLED)[:, None]) % len(lessons.seen)  # (UNROLLED, readers)
        drawn = lessons[tape.flatten()]
        views = list(_views(high_level, drawn.seen).unbind(1))
        told = torch.stack(high_level.told(views, drawn.goals))  # (views, decisions, F)
        inputs = memory.inputs(told).unflatten(1, tape.shape)
        remembered = []
        for x, starts in zip(inputs.unbind(1), drawn.starts.unflatten(0, tape.shape), strict=True):
            state = memory.advance(x, state * ~starts[:, None])
            remembered.append(state)
        read = memory.read(torch.stack(remembered, 1)).flatten(1, 2)
        heads = high_level.head(read)
        yield _loss(high_level.outputs(list(heads)), drawn)
        state = state.detach()
        at = (at + UNROLLED) % len(lessons.seen)


def _views(high_level: HighLevelNetwork, seen: Tensor) -> Tensor:
    """Features (B, views, F) of what was seen."""
    return encode(high_level, seen) if seen.dtype == torch.uint8 else seen


def _loss(out: Tensor, lessons: Lessons) -> Tensor:
    """Weighted squared error of outputs (B, 3); durations shall be as short as the teacher's."""
    wanted = torch.cat([torch.full_like(lessons.latents[:, :1], SHORT), lessons.latents], 1)
    return (torch.tensor(LOSS_WEIGHTS) * (out - wanted) ** 2).sum(1).mean()
