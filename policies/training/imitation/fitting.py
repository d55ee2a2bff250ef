"""Behaviour cloning: a high level is fitted to decisions by gradient, as far down as there is one.

A selection of patches has no gradient: for IAP only what follows it is fitted, to features computed
once. A memory is fitted to sequences, by truncated back-propagation through time. What things are
painted with shall not be learned: images may have other colours in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.policies.training.imitation.demonstrations import Demonstrations
from pixelgait.policies.training.rollouts.plan import DAggerConfig, DeviceName
from pixelgait.robot.control.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.errors import UserError
from pixelgait.sim.tasks.teacher import HOLD_STEPS

CHUNK = 512  # images encoded at once
HEAD_RATE = 0.01  # of Adam, where a head alone is fitted; ours
HEAD_STEPS = 3  # a step of the head alone costs less than a tenth: it takes more; ours
# Of errors in duration, speed and turn: it is the turns that matter; ours.
LOSS_WEIGHTS = (0.1, 0.3, 1.0)
SHORT = 2.0 * (HOLD_STEPS - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS) - 1.0  # the output
STEEPEST = 1.0  # norm of a gradient that went through time; ours
CPU = torch.device("cpu")  # where lessons are drawn
# Standard deviations of light, of its colour [log of gain] and of black [of 255]; ours.
LIGHT, TINT, BLACK = 0.3, 0.2, 15.0


def find_device(wanted: DeviceName) -> str:
    """The device torch fits on; `auto` is a GPU if there is one.

    Raises:
        UserError: a GPU is wanted, and torch sees none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        why = "sees no GPU"
        if torch.version.cuda is None:
            why = "is built for CPUs, PyPI's for Linux is not (pip install --force-reinstall torch)"
        raise UserError(f"device cuda: torch {torch.__version__} {why}; cpu always works")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


@dataclass(frozen=True, slots=True)
class Lessons:
    """What was seen in n decisions, in the order of time, and what the teacher did there."""

    seen: Tensor  # images (n, H, W, C) uint8, or features (n, views, F)
    goals: Tensor  # (n, 2)
    latents: Tensor  # (n, 2)
    starts: Tensor  # (n,) bool: where an episode begins

    @classmethod
    def of(cls, shown: Demonstrations, seen: Tensor) -> Lessons:
        """What was shown, seen as these images (n, H, W, C), or features (n, views, F)."""
        goals, latents = (torch.from_numpy(each).float() for each in (shown.goals, shown.latents))
        return cls(seen, goals, latents, torch.from_numpy(shown.starts))

    def __getitem__(self, which: Tensor | slice) -> Lessons:
        """Those with these numbers, of any shape (...), which comes in place of n; or a part."""
        return Lessons(*(each[which] for each in self._columns()))

    def to(self, device: torch.device) -> Lessons:
        """The same on a device."""
        return Lessons(*(each.to(device) for each in self._columns()))

    def flattened(self) -> Lessons:
        """Of a grid of decisions (a, b): a * b in a row."""
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
    """Fit to lessons in the steps and batches of a round; returns the last steps' loss.

    Images train the whole network, features what follows the encoder. With `recolour` images have
    other colours in every step, all of a sequence the same. Which decisions are drawn does not
    depend on the device; what a network drops out does. With a label a passing bar on a terminal
    counts steps, below that of who waits.

    Raises:
        UserError: there are no lessons.
    """
    if not len(lessons.seen):
        raise UserError("nothing to learn: all robots begin where they shall go, none decides")
    high_level.train()
    # Where the network makes its constants; dropout draws from the generator of everybody.
    with torch.device(device), torch.random.fork_rng():
        torch.manual_seed(seed)
        loss = _fit(high_level.to(device), lessons, config, seed, label)
    high_level.to("cpu").eval()
    return loss


@torch.no_grad()
def turn_error(high_level: HighLevelNetwork, lessons: Lessons) -> float:
    """Mean squared error of the turns it decides on, seeing lessons in the order of time."""
    rows = torch.arange(len(lessons.seen)).split(CHUNK)
    decisions = (lessons[row[:, None]] for row in rows)
    pairs = (_recurrent if high_level.memory else _memoryless)(high_level, decisions)
    turns = ((out[:, 2].clamp(-1.0, 1.0), each.latents[:, 1]) for out, each in pairs)
    errors = [(turn - wanted).square().sum() for turn, wanted in turns]
    return float(sum(errors)) / len(lessons.seen)


def _fit(
    high_level: HighLevelNetwork, lessons: Lessons, config: DAggerConfig, seed: int, label: str
) -> float:
    """Fit a network where it is."""
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
    off = None if label else True  # None: where there is no terminal
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
    """Batches of single decisions (1, batch), for ever."""
    shape = 1, config.batch
    while True:
        yield lessons[torch.randint(len(lessons.seen), shape, generator=rng, device=CPU)]


def _sequences(lessons: Lessons, config: DAggerConfig, rng: torch.Generator) -> Iterator[Lessons]:
    """Batches of sequences of decisions (unrolled, readers), for ever.

    All episodes are one endless tape with as many readers as there are sequences in a batch, each
    beginning at an episode.
    """
    begins = lessons.starts.nonzero()[:, 0]
    readers = max(1, config.batch // config.unrolled)
    at = begins[torch.randint(len(begins), (readers,), generator=rng, device=CPU)]
    steps = torch.arange(config.unrolled, device=CPU)[:, None]
    while True:
        yield lessons[(at + steps) % len(lessons.seen)]
        at = (at + config.unrolled) % len(lessons.seen)


def recoloured(images: Tensor, rng: torch.Generator) -> Tensor:
    """Images (n, B, H, W, C) uint8 of B sequences, each with its colour channels swapped, brighter
    or darker, and tinted, the same from its first image to its last. Depth stays as it is.
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
    """Outputs (B, 3) for batches of single decisions (1, B), and these in a row."""
    for drawn in decisions:
        flat = drawn.flattened()
        views = list(_views(high_level, flat.seen).unbind(1))
        heads, _ = high_level.heads(views, flat.goals, torch.zeros(len(flat.goals), 0))
        yield high_level.outputs(heads), flat


def _recurrent(
    high_level: HighLevelNetwork, decisions: Iterator[Lessons]
) -> Iterator[tuple[Tensor, Lessons]]:
    """Outputs (B, 3) for batches of sequences (unrolled, readers), and these in a row; one
    sequence goes on where the last one ended.

    A state is what the sequence before has left, and nothing at a start.
    """
    memory = high_level.memory
    assert memory is not None
    state = None
    for drawn in decisions:
        flat = drawn.flattened()
        views = list(_views(high_level, flat.seen).unbind(1))
        told = torch.stack(high_level.told(views, flat.goals))  # (views, decisions, F)
        inputs = memory.inputs(told).unflatten(1, drawn.starts.shape)
        if state is None:
            state = inputs.new_zeros(len(views), drawn.starts.shape[1], memory.size)
        remembered = []
        for x, starts in zip(inputs.unbind(1), drawn.starts, strict=True):
            state = memory.advance(x, state * ~starts[:, None])
            remembered.append(state)
        read = memory.read(torch.stack(remembered, 1)).flatten(1, 2)
        yield high_level.outputs(list(high_level.head(read))), flat
        state = state.detach()


def _views(high_level: HighLevelNetwork, seen: Tensor) -> Tensor:
    """Features (B, views, F) of what was seen."""
    return encode(high_level, seen) if seen.dtype == torch.uint8 else seen


def _loss(out: Tensor, lessons: Lessons, huber: float) -> Tensor:
    """Weighted squared error of outputs (B, 3), with `huber` beyond so much that of Huber (1964);
    durations shall be as short as the teacher's."""
    wanted = torch.cat([torch.full_like(lessons.latents[:, :1], SHORT), lessons.latents], 1)
    if huber:
        error = 2.0 * F.huber_loss(out, wanted, reduction="none", delta=huber)  # torch's is half
    else:
        error = F.mse_loss(out, wanted, reduction="none")
    return (torch.tensor(LOSS_WEIGHTS) * error).sum(1).mean()
