"""Behaviour cloning: fits a high level to a teacher's decisions by gradient.

A selection of patches has no gradient: for `iap` only the layers behind it are fitted, to features
that are computed once. A memory is fitted to sequences, by truncated back-propagation through time.
Images may be recoloured in every step, so that the policy does not learn what things are painted
with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.policies.runs.run import reading_arrays, write_arrays
from pixelgait.policies.training.plan import DAggerConfig, DeviceName
from pixelgait.policies.training.rollouts import Figures
from pixelgait.robot.control.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable
from pixelgait.robot.spec import Array
from pixelgait.sim.tasks.teacher import HOLD_STEPS

ROUND_FILE = "the demonstrations of a round"
CHUNK = 512  # images encoded at once
HEAD_RATE = 0.01  # Adam's learning rate where only a head is fitted; assumption
HEAD_STEPS = (
    3  # gradient steps of a head for one of a whole network, which costs over ten times more
)
LOSS_WEIGHTS = (0.1, 0.3, 1.0)  # duration, speed, turn: the turns matter most; assumption
# The teacher's duration, as the network's output.
SHORT = 2.0 * (HOLD_STEPS - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS) - 1.0
STEEPEST = 1.0  # norm that gradients through time are clipped to; assumption
CPU = torch.device("cpu")  # where batches are drawn
# Recolouring: standard deviations of brightness and tint [log of gain], black level [of 255];
# assumption.
LIGHT, TINT, BLACK = 0.3, 0.2, 15.0


def find_device(wanted: DeviceName) -> str:
    """Torch's name of the device to fit on; `auto` is a GPU if there is one.

    Raises:
        UserError: if torch sees no GPU for `cuda`.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        why = "sees no GPU"
        if torch.version.cuda is None:
            why = "is built for CPUs, PyPI's for Linux is not (pip install --force-reinstall torch)"
        raise UserError(f"device cuda: torch {torch.__version__} {why}; cpu always works")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Decisions of one or many episodes: what the camera saw, and what the teacher decided."""

    starts: NDArray[np.bool_]  # (n,) where an episode begins
    images: NDArray[np.uint8]  # (n, H, W, C)
    goals: Array  # (n, 2)
    latents: Array  # (n, 2)

    def save(self, path: Path, figures: Figures) -> None:
        """Write them, with the figures of the episodes."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        write_arrays(path, **columns, figures=json.dumps(figures))

    @classmethod
    def load(cls, file: Readable) -> Demonstrations:
        """Raises UserError if the file holds no demonstrations."""
        with reading_arrays(file, ROUND_FILE) as data:
            shown = cls(**{each.name: data[each.name] for each in fields(cls)})
            shown.check()
        return shown

    def check(self) -> None:
        """Raises ValueError if the arrays do not fit each other."""
        n, pixels = len(self.starts), self.images.shape[-3:]
        shapes = [getattr(self, each.name).shape for each in fields(self)]
        if shapes != [(n,), (n, *pixels), (n, 2), (n, 2)]:
            raise ValueError(f"arrays of shapes {shapes} are not of as many decisions")
        if [self.starts.dtype, self.images.dtype] != [bool, np.uint8]:
            raise ValueError("its images are not of bytes, or its starts not true or false")
        if not np.isfinite(self.latents).all():
            raise ValueError("its latents are not finite numbers")

    @classmethod
    def joined(cls, parts: Sequence[Demonstrations]) -> Demonstrations:
        """All parts, one after another."""
        columns = ([getattr(part, each.name) for part in parts] for each in fields(cls))
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, slots=True)
class Lessons:
    """A batch or dataset of n decisions in order of time: inputs, and the teacher's targets."""

    seen: Tensor  # images (n, H, W, C) uint8, or features (n, views, F)
    goals: Tensor  # (n, 2)
    latents: Tensor  # (n, 2)
    starts: Tensor  # (n,) bool: where an episode begins

    @classmethod
    def of(cls, shown: Demonstrations, seen: Tensor) -> Lessons:
        """Demonstrations with `seen` as inputs: images (n, H, W, C) or features (n, views, F)."""
        goals, latents = (torch.from_numpy(each).float() for each in (shown.goals, shown.latents))
        return cls(seen, goals, latents, torch.from_numpy(shown.starts))

    def __getitem__(self, which: Tensor | slice) -> Lessons:
        """Decisions by index: a tensor's shape (...) replaces n; or a slice."""
        return Lessons(*(each[which] for each in self._columns()))

    def to(self, device: torch.device) -> Lessons:
        """A copy on a device."""
        return Lessons(*(each.to(device) for each in self._columns()))

    def flattened(self) -> Lessons:
        """A grid of decisions (a, b) as a * b in a row."""
        return Lessons(*(each.flatten(0, 1) for each in self._columns()))

    def _columns(self) -> tuple[Tensor, ...]:
        return self.seen, self.goals, self.latents, self.starts


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


def fit(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    config: DAggerConfig,
    seed: int,
    device: str = "cpu",
    label: str = "",
) -> float:
    """Fit a network in the steps and batches of a round; mean loss of the last 100 steps.

    Images train the whole network, features the layers behind the encoder. Batches do not depend
    on the device; dropout does.

    Args:
        seed: of batches, recolouring and dropout.
        device: torch's name of the device.
        label: of the bar that counts steps on a terminal; empty: no bar.

    Raises:
        UserError: if there are no lessons.
    """
    if not len(lessons.seen):
        raise UserError("nothing to learn: all robots begin where they shall go, none decides")
    high_level.train()
    # The network makes constants on the default device; dropout draws from torch's generator.
    with torch.device(device), torch.random.fork_rng():
        torch.manual_seed(seed)
        loss = _fit(high_level.to(device), lessons, config, seed, label)
    high_level.to("cpu").eval()
    return loss


@torch.no_grad()
def turn_error(high_level: HighLevelNetwork, lessons: Lessons) -> float:
    """Mean squared error of the network's turns over lessons in order of time."""
    rows = torch.arange(len(lessons.seen)).split(CHUNK)
    decisions = (lessons[row[:, None]] for row in rows)
    pairs = (_recurrent if high_level.memory else _memoryless)(high_level, decisions)
    turns = ((out[:, 2].clamp(-1.0, 1.0), each.latents[:, 1]) for out, each in pairs)
    errors = [(turn - wanted).square().sum() for turn, wanted in turns]
    return float(sum(errors)) / len(lessons.seen)


def _fit(
    high_level: HighLevelNetwork, lessons: Lessons, config: DAggerConfig, seed: int, label: str
) -> float:
    """`fit`, on the device that the network is on; recolours a sequence's images alike."""
    whole = lessons.seen.dtype == torch.uint8
    encoder = {id(parameter) for parameter in high_level.encoder.parameters()}
    rest = [p for p in high_level.parameters() if id(p) not in encoder]
    parameters = high_level.parameters() if whole else rest
    rate = config.rate if whole or high_level.memory else HEAD_RATE
    steps = config.steps if whole else HEAD_STEPS * config.steps
    optimiser = torch.optim.Adam(parameters, lr=rate)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    batches = torch.Generator("cpu").manual_seed(seed)
    drawn = (_sequences if high_level.memory else _single)(lessons, config, batches)
    if config.recolour and whole:
        drawn = (replace(each, seen=recoloured(each.seen, batches)) for each in drawn)
    decisions = (each.to(torch.get_default_device()) for each in drawn)
    pairs = (_recurrent if high_level.memory else _memoryless)(high_level, decisions)
    losses = (_loss(out, each, config.huber) for out, each in pairs)
    last: list[Tensor] = []
    off = None if label else True  # None: only without a terminal
    counted = tqdm(islice(losses, steps), label, steps, leave=False, disable=off, position=1)
    for loss in counted:
        optimiser.zero_grad()
        loss.backward()
        if high_level.memory:
            torch.nn.utils.clip_grad_norm_(high_level.parameters(), STEEPEST)
        optimiser.step()
        cooling.step()
        last = [*last[-99:], loss.detach()]
    return float(torch.stack(last).mean())


def _single(lessons: Lessons, config: DAggerConfig, rng: torch.Generator) -> Iterator[Lessons]:
    """Endless batches of single decisions (1, batch)."""
    shape = 1, config.batch
    while True:
        yield lessons[torch.randint(len(lessons.seen), shape, generator=rng, device=CPU)]


def _sequences(lessons: Lessons, config: DAggerConfig, rng: torch.Generator) -> Iterator[Lessons]:
    """Endless batches of sequences (unrolled, readers).

    All episodes form one endless tape. Every sequence of a batch is a reader of it, which begins
    at the start of an episode and continues from batch to batch.
    """
    begins = lessons.starts.nonzero()[:, 0]
    readers = max(1, config.batch // config.unrolled)
    at = begins[torch.randint(len(begins), (readers,), generator=rng, device=CPU)]
    steps = torch.arange(config.unrolled, device=CPU)[:, None]
    while True:
        yield lessons[(at + steps) % len(lessons.seen)]
        at = (at + config.unrolled) % len(lessons.seen)


def recoloured(images: Tensor, rng: torch.Generator) -> Tensor:
    """Colour augmentation of B sequences of images (n, B, H, W, C) uint8.

    Permutes channels, scales brightness, tints and shifts black, the same within a sequence. Depth
    is unchanged.
    """
    if images.shape[-1] < COLOURS:
        return images
    sequences = images.shape[1]
    swapped = torch.rand(sequences, COLOURS, generator=rng, device=CPU).argsort(1)  # (B, 3)
    order = swapped[None, :, None, None, :].expand(*images.shape[:-1], COLOURS)
    colours = images[..., :COLOURS].gather(-1, order).float()
    gain = LIGHT * torch.randn(sequences, 1, generator=rng, device=CPU)
    gain = (gain + TINT * torch.randn(sequences, COLOURS, generator=rng, device=CPU)).exp()
    black = BLACK * torch.randn(sequences, 1, generator=rng, device=CPU).expand(-1, COLOURS)
    other = (colours * gain[:, None, None] + black[:, None, None]).clamp(0.0, 255.0)
    return torch.cat([other.round().to(torch.uint8), images[..., COLOURS:]], -1)


def _memoryless(
    high_level: HighLevelNetwork, decisions: Iterator[Lessons]
) -> Iterator[tuple[Tensor, Lessons]]:
    """Outputs (B, 3) for batches of single decisions (1, B), each with its flattened batch."""
    for drawn in decisions:
        flat = drawn.flattened()
        views = list(_views(high_level, flat.seen).unbind(1))
        heads, _ = high_level.heads(views, flat.goals, torch.zeros(len(flat.goals), 0))
        yield high_level.outputs(heads), flat


def _recurrent(
    high_level: HighLevelNetwork, decisions: Iterator[Lessons]
) -> Iterator[tuple[Tensor, Lessons]]:
    """Outputs (B, 3) for batches of sequences (unrolled, readers), each with its flattened batch.

    A sequence begins with the recurrent state the previous one ended with, detached; the state is
    zero at the start of an episode.
    """
    memory = high_level.memory
    assert memory is not None
    state = None
    for drawn in decisions:
        flat = drawn.flattened()
        views = list(_views(high_level, flat.seen).unbind(1))
        features = torch.stack(high_level.with_goal(views, flat.goals))  # (views, decisions, F)
        inputs = memory.inputs(features).unflatten(1, drawn.starts.shape)
        if state is None:
            state = inputs.new_zeros(len(views), drawn.starts.shape[1], memory.size)
        states = []
        for x, starts in zip(inputs.unbind(1), drawn.starts, strict=True):
            state = memory.advance(x, state * ~starts[:, None])
            states.append(state)
        read = memory.read(torch.stack(states, 1)).flatten(1, 2)
        yield high_level.outputs(list(high_level.head(read))), flat
        state = state.detach()


def _views(high_level: HighLevelNetwork, seen: Tensor) -> Tensor:
    """Features (B, views, F) of images, or features as they are."""
    return encode(high_level, seen) if seen.dtype == torch.uint8 else seen


def _loss(out: Tensor, lessons: Lessons, huber: float) -> Tensor:
    """Weighted squared error of outputs (B, 3) from the teacher's; with `huber` Huber's (1964)."""
    wanted = torch.cat([torch.full_like(lessons.latents[:, :1], SHORT), lessons.latents], 1)
    if huber:
        error = 2.0 * F.huber_loss(out, wanted, reduction="none", delta=huber)  # torch's is half
    else:
        error = F.mse_loss(out, wanted, reduction="none")
    return (torch.tensor(LOSS_WEIGHTS) * error).sum(1).mean()
