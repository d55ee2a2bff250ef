"""Behaviour cloning: fits a high level to a teacher's decisions by gradient.

A selection of patches has no gradient: for `iap` only the layers behind it are fitted, to features
that are computed once. A memory is fitted to sequences, by truncated back-propagation through time.
Images may be recoloured in every step, so that the policy does not learn what things are painted
with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.high_level import (
    MIRRORED,
    MIRRORED_GOAL,
    UNKNOWN_M,
    HighLevelNetwork,
)
from pixelgait.policies.training.demonstrations import Demonstrations, Frames, load_once
from pixelgait.policies.training.plan import DAggerConfig, DeviceName
from pixelgait.robot.control.controller import LONGEST_STEPS, SHORTEST_STEPS
from pixelgait.robot.control.observation import COLOURS
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import Readable
from pixelgait.sim.tasks.teacher import HOLD_STEPS

CHUNK = 512  # images encoded at once
HEAD_RATE = 0.01  # Adam's learning rate where only a head is fitted; assumption
HEAD_STEPS = (
    3  # gradient steps of a head for one of a whole network, which costs over ten times more
)
# A round's steps end when the loss held out has not fallen by 1 % in three checks. Assumptions.
CHECKED = 50  # steps
CHECKS, LEAST_GAIN = 3, 0.99
HELD_OUT = 3000  # decisions at most; assumption
READERS = 16  # sequences of what is held out
LONGEST_AVERAGE = 0.99  # share of an average that a step leaves; assumption
LOSS_WEIGHTS = (0.1, 0.3, 1.0)  # duration, speed, turn: the turns matter most; assumption
# The teacher's duration, as the network's output.
SHORT = 2.0 * (HOLD_STEPS - SHORTEST_STEPS) / (LONGEST_STEPS - SHORTEST_STEPS) - 1.0
PARTED = 256  # images of a batch that is computed in two parts
# Options of glibc's mallopt (malloc.h): from how many bytes on arrays are mapped, how many free
# bytes go back, how many arenas threads share.
MALLOC_OPTIONS = ((-3, 2**30), (-1, 2**31 - 1), (-8, 1))
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
class Lessons:
    """A batch or dataset of n decisions in order of time: inputs, and the teacher's targets."""

    seen: Any  # Tensor or `Frames`: images (n, H, W, C) uint8, or features (n, views, F)
    goals: Tensor  # (n, 2), or (n, 3) with the approach
    latents: Tensor  # (n, 2)
    starts: Tensor  # (n,) bool: where an episode begins

    @classmethod
    def of(cls, shown: Sequence[Demonstrations], seen: Tensor | Frames) -> Lessons:
        """Demonstrations with `seen` as inputs: images (n, H, W, C) or features (n, views, F)."""
        columns = zip(*((each.goals, each.latents, each.starts) for each in shown), strict=True)
        goals, latents, starts = (torch.from_numpy(np.concatenate(each)) for each in columns)
        return cls(seen, goals.float(), latents.float(), starts)

    def __getitem__(self, which: Tensor | slice) -> Lessons:
        """Decisions by index: a tensor's shape (...) replaces n; or a slice, of tensors."""
        return Lessons(*(each[which] for each in self._columns()))

    def to(self, device: torch.device) -> Lessons:
        """A copy on a device."""
        return Lessons(*(each.to(device) for each in self._columns()))

    def flattened(self) -> Lessons:
        """A grid of decisions (a, b) as a * b in a row."""
        return Lessons(*(each.flatten(0, 1) for each in self._columns()))

    def _columns(self) -> tuple[Any, Tensor, Tensor, Tensor]:
        return self.seen, self.goals, self.latents, self.starts


def has_gradient(high_level: HighLevelNetwork) -> bool:
    """Whether gradients reach the encoder's weights."""
    image = torch.zeros(1, *high_level.image_shape, dtype=torch.uint8)
    return encode(high_level, image).requires_grad


def encode(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """Features (B, views, F) of images (B, H, W, C)."""
    return torch.stack(high_level.views(images)[0], 1)


@torch.no_grad()
def encode_all(high_level: HighLevelNetwork, images: Tensor | Frames) -> Tensor:
    """Features (n, views, F) of many images (n, H, W, C)."""
    chunks = torch.arange(len(images)).split(CHUNK)
    return torch.cat([_encode_some(high_level, images[chunk]) for chunk in chunks])


def _encode_some(high_level: HighLevelNetwork, images: Tensor) -> Tensor:
    """`encode` without gradients, in machine code where the encoder has it."""
    if isinstance(high_level.encoder, IAPEncoder):
        views = high_level.encoder.features_of_many(images.numpy(), high_level.mirror)
        if views is not None:
            return torch.stack(views, 1)
    return encode(high_level, images)


def fit_to(
    high_level: HighLevelNetwork,
    files: Sequence[Readable],
    config: DAggerConfig,
    seed: int,
    device: str,
    **options: Any,
) -> float:
    """Fit a network to demonstrations in files, see `fit`.

    Raises:
        UserError: if a file holds none, or all are without decisions.
    """
    shown = [load_once(file) for file in files]
    seen: Tensor | Frames = Frames([each.images for each in shown])
    if not has_gradient(high_level):
        with computing_on("cpu"):
            seen = encode_all(high_level, seen)
    lessons = Lessons.of(shown, seen)
    if high_level.sees_approach:
        lessons = with_approach(lessons)
    return fit(high_level, lessons, config, seed, device, **options)


def with_approach(lessons: Lessons) -> Lessons:
    """Lessons whose goals (n, 3) also say how much nearer each came since the decision before."""
    distance = lessons.goals[:, 0].clamp(max=UNKNOWN_M)
    approach = -distance.diff(prepend=distance[:1]) * ~lessons.starts
    return replace(lessons, goals=torch.cat([lessons.goals, approach[:, None]], 1))


def fit(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    config: DAggerConfig,
    seed: int,
    device: str = "cpu",
    label: str = "",
    threads: int = 1,
    progress: Callable[[float], object] = lambda _: None,
) -> float:
    """Fit a network in the steps and batches of a round; mean loss of the last 100 steps.

    Images train the whole network, features the layers behind the encoder. Batches do not depend
    on the device; dropout does. Weights do not depend on the number of threads.

    Args:
        seed: of batches, recolouring and dropout.
        device: torch's name of the device.
        label: of the bar that counts steps on a terminal; empty: no bar.
        threads: that the parts of a batch are shared among, on a CPU.
        progress: is called with the share of the steps that are done.

    Raises:
        UserError: if there are no lessons.
    """
    if not len(lessons.seen):
        raise UserError("nothing to learn: all robots begin where they shall go, none decides")
    high_level.train()
    with computing_on(device), torch.random.fork_rng():
        torch.manual_seed(seed)
        high_level.to(device)
        if _fits(lessons, device):
            lessons = replace(lessons, seen=lessons.seen.to(torch.device(device)))
        loss = _fit(high_level, lessons, config, seed, label, threads, progress)
    high_level.to("cpu").eval()
    return loss


@contextmanager
def computing_on(device: str) -> Iterator[None]:
    """A block in which a device computes; on a CPU each operation by one thread."""
    threads = torch.get_num_threads()
    try:
        if device == "cpu":
            keep_memory()
            torch.set_num_threads(1)  # sums of more threads have another order
            yield
        else:  # the network makes constants on the default device
            with torch.device(device):
                yield
    finally:
        torch.set_num_threads(threads)


def _fits(lessons: Lessons, device: str) -> bool:
    """Whether a device other than the CPU has room for what is seen: half of its free memory."""
    if device != "cuda":
        return device != "cpu"
    return bool(lessons.seen.nbytes < torch.cuda.mem_get_info()[0] / 2)


def keep_memory() -> None:
    """Let glibc keep the memory that is freed, for good; other C libraries have no such option.

    Otherwise every step gets its large arrays anew from the kernel, page by page: an eighth of its
    time.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        for option, value in MALLOC_OPTIONS:
            mallopt(option, value)


@torch.no_grad()
def turn_error(high_level: HighLevelNetwork, lessons: Lessons) -> float:
    """Mean squared error of the network's turns over lessons in order of time."""
    rows = torch.arange(len(lessons.seen)).split(CHUNK)
    pairs = _outputs(high_level, (lessons[row[:, None]] for row in rows))
    turns = ((out[:, 2].clamp(-1.0, 1.0), each.latents[:, 1]) for out, each in pairs)
    errors = [(turn - wanted).square().sum() for turn, wanted in turns]
    return float(sum(errors)) / len(lessons.seen)


def _fit(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    config: DAggerConfig,
    seed: int,
    label: str,
    threads: int,
    progress: Callable[[float], object],
) -> float:
    """`fit`, on the device that the network is on."""
    whole = _whole(lessons)
    encoder = {id(parameter) for parameter in high_level.encoder.parameters()}
    parameters = [p for p in high_level.parameters() if whole or id(p) not in encoder]
    steps = config.steps if whole else HEAD_STEPS * config.steps
    learned, held = _split(lessons.starts.to(CPU), config.held_out)
    gradients = (
        _gradients(high_level, lessons, learned, config, seed, parameters, threads)
        if whole or high_level.memory
        else _head_gradients(high_level, lessons, learned, config, seed)
    )
    rate = config.rate if whole or high_level.memory else HEAD_RATE
    fused = parameters[0].device.type in ("cpu", "cuda")
    optimiser = torch.optim.Adam(parameters, lr=rate, fused=fused)
    average = Average(parameters)
    losses: list[Tensor] = []
    errors: list[float] = []  # of the averaged weights on what is held out
    off = None if label else True  # None: only without a terminal
    counted = tqdm(range(1, steps + 1), label, leave=False, disable=off, position=1)
    for step, (loss, *gradient) in zip(counted, gradients, strict=False):
        for parameter, each in zip(parameters, gradient, strict=True):
            parameter.grad = each.contiguous()  # torch's fused Adam takes it for so
        if high_level.memory:
            torch.nn.utils.clip_grad_norm_(parameters, STEEPEST)
        optimiser.step()
        average.update(step)
        losses = [*losses[-99:], loss]
        progress(step / steps)
        if step % CHECKED == 0 and len(held):
            with average.taken():
                errors.append(_error(high_level, lessons, held, config))
            if len(errors) > CHECKS and errors[-1] > LEAST_GAIN * errors[-1 - CHECKS]:
                break
    counted.close()
    average.take()
    return float(torch.stack(losses).mean())


class Average:
    """Exponential moving average of weights (Polyak and Juditsky 1992), over more steps later on.

    At a constant learning rate it is as good at any step as if the rate had fallen to 0 there.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [each.detach() for each in parameters]
        self._average = [each.clone() for each in self._parameters]

    def update(self, step: int) -> None:
        """Add the present weights, of a step counted from 1."""
        kept = min(LONGEST_AVERAGE, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._average, self._parameters, 1.0 - kept)

    def take(self) -> None:
        """Set the weights to their average."""
        torch._foreach_copy_(self._parameters, self._average)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A block in which the weights are the average."""
        kept = [each.clone() for each in self._parameters]
        self.take()
        yield
        torch._foreach_copy_(self._parameters, kept)


def _split(starts: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Indices of decisions to learn from, and of those held out: every so many episodes.

    The newest of those are enough. An episode that is held out stays so in later rounds.
    """
    every = round(1.0 / share) if share else len(starts) + 1
    held = starts.cumsum(0) % every == 0
    newest = held.nonzero()[-HELD_OUT:, 0]
    return (~held).nonzero()[:, 0], newest


@torch.no_grad()
def _error(
    high_level: HighLevelNetwork, lessons: Lessons, held: Tensor, config: DAggerConfig
) -> float:
    """Mean loss over decisions held out, without dropout."""
    high_level.eval()
    readers = min(READERS, len(held))
    rows = held[: len(held) // readers * readers].view(readers, -1).t()  # in order of time
    device = next(high_level.parameters()).device
    drawn = (lessons[part].to(device) for part in rows.split(max(1, CHUNK // readers)))
    pairs = _outputs(high_level, drawn)
    losses = [_loss(out, each, config.huber) * len(out) for out, each in pairs]
    high_level.train()
    return float(torch.stack(losses).sum()) / rows.numel()


def _gradients(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    learned: Tensor,
    config: DAggerConfig,
    seed: int,
    parameters: Sequence[Tensor],
    threads: int,
) -> Iterator[list[Tensor]]:
    """Mean loss of every batch, and its gradient for each of the parameters.

    The parts of a batch are summed in a fixed order, so that it does not matter which thread
    computes which.
    """
    begins = lessons.starts.to(CPU)[learned].nonzero()[:, 0]
    sizes = _sizes(high_level, lessons, config)
    parts = []
    for i, size in enumerate(sizes):
        rng = torch.Generator("cpu").manual_seed(seed + i)
        indices = (
            _sequences(learned, begins, config.unrolled, size, rng)
            if high_level.memory
            else _single(learned, size, rng)
        )
        parts.append(_losses(high_level, lessons, indices, config, rng))

    def gradient(part: int) -> list[Tensor]:
        loss = next(parts[part]) * (sizes[part] / sum(sizes))
        return [loss.detach(), *torch.autograd.grad(loss, parameters, materialize_grads=True)]

    # Dropout draws from one generator, in the order of the parts.
    dropping = any(getattr(each, "dropout", 0.0) for each in high_level.modules())
    threads = 1 if dropping or parameters[0].device.type != "cpu" else min(threads, len(parts))
    with ThreadPoolExecutor(threads) as pool:
        while True:
            found = (map if threads == 1 else pool.map)(gradient, range(len(parts)))
            yield [reduce(torch.add, each) for each in zip(*found, strict=True)]


@torch.no_grad()
def _head_gradients(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    learned: Tensor,
    config: DAggerConfig,
    seed: int,
) -> Iterator[list[Tensor]]:
    """`_gradients` of a head alone, by the chain rule written out: a third of autograd's time."""
    hidden, output = high_level.hidden, high_level.output
    seen = torch.stack(high_level.with_goal(list(lessons.seen.unbind(1)), lessons.goals), 1)
    _, views, size = seen.shape
    seen, wanted, weights = seen.flatten(1), _wanted(lessons), torch.tensor(LOSS_WEIGHTS)
    signs = torch.stack([torch.ones(3), torch.tensor(MIRRORED)][:views])
    mean = (signs[..., None] * torch.eye(3)).flatten(0, 1) / views  # (views 3, 3) of the views
    for which in _single(learned, config.batch, torch.Generator("cpu").manual_seed(seed)):
        rows = which[0].to(seen.device)
        x, target = seen.index_select(0, rows).view(-1, size), wanted.index_select(0, rows)
        units = torch.tanh(torch.addmm(hidden.bias, x, hidden.weight.t()))
        heads = torch.addmm(output.bias, units, output.weight.t()).view(-1, views * 3)
        error = heads @ mean - target
        linear = error.clamp(-config.huber, config.huber) if config.huber else error
        loss = (weights * linear * (2.0 * error - linear)).sum() / config.batch
        out = ((linear * (2.0 / config.batch * weights)) @ mean.t()).view(-1, 3)
        back = (out @ output.weight) * (1.0 - units * units)
        yield [loss, back.t() @ x, back.sum(0), out.t() @ units, out.sum(0)]


def _sizes(high_level: HighLevelNetwork, lessons: Lessons, config: DAggerConfig) -> list[int]:
    """Sequences, or without memory images, of the parts of a batch; small ones are one part."""
    count = max(1, config.batch // config.unrolled) if high_level.memory else config.batch
    small = config.batch < PARTED or count < 4 or not _whole(lessons)
    return [count] if small else [count - count // 2, count // 2]


def _losses(
    high_level: HighLevelNetwork,
    lessons: Lessons,
    indices: Iterator[Tensor],
    config: DAggerConfig,
    rng: torch.Generator,
) -> Iterator[Tensor]:
    """Mean loss of one part after another, endlessly; recolours a sequence's images alike."""
    drawn = (lessons[which] for which in indices)
    if config.recolour and _whole(lessons):
        drawn = (replace(each, seen=recoloured(each.seen, rng)) for each in drawn)
    device = next(high_level.parameters()).device
    drawn = (each.to(device) for each in drawn)
    single = _sizes(high_level, lessons, config) == [1]  # no second one to mirror
    one_view = high_level.mirror and not (high_level.encoder.odd or single) and _whole(lessons)
    if one_view:
        drawn = (half_mirrored(each) for each in drawn)
    pairs = _outputs(high_level, drawn, one_view)
    return (_loss(out, each, config.huber) for out, each in pairs)


def _whole(lessons: Lessons) -> bool:
    """Whether what is seen are images, not features."""
    return bool(lessons.seen.dtype == torch.uint8)


def half_mirrored(drawn: Lessons) -> Lessons:
    """Decisions (n, B), of which every second sequence is seen in the mirror.

    The policy is the mean of what it decides of an image and of its mirror image. The error of a
    mean is at most the mean of both errors (Jensen), so it is enough to learn from one of them: a
    step costs half as much.
    """
    seen, goals, latents = drawn.seen.clone(), drawn.goals.clone(), drawn.latents.clone()
    seen[:, 1::2] = seen[:, 1::2].flip(-2)
    goals[:, 1::2] *= torch.tensor(MIRRORED_GOAL[: goals.shape[-1]])
    latents[:, 1::2] *= torch.tensor(MIRRORED[1:])
    return Lessons(seen, goals, latents, drawn.starts)


def _single(learned: Tensor, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Endless indices of single decisions (1, size)."""
    while True:
        yield learned[torch.randint(len(learned), (1, size), generator=rng, device=CPU)]


def _sequences(
    learned: Tensor, begins: Tensor, unrolled: int, size: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Endless indices of sequences (unrolled, size).

    All episodes form one endless tape. Every sequence of a batch is a reader of it, which begins
    at the start of an episode and continues from batch to batch.
    """
    at = begins[torch.randint(len(begins), (size,), generator=rng, device=CPU)]
    steps = torch.arange(unrolled, device=CPU)[:, None]
    while True:
        yield learned[(at + steps) % len(learned)]
        at = (at + unrolled) % len(learned)


def recoloured(images: Tensor, rng: torch.Generator) -> Tensor:
    """Colour augmentation of B sequences of images (n, B, H, W, C) uint8.

    Permutes channels, scales brightness, tints and shifts black, the same within a sequence. Depth
    is unchanged.
    """
    if images.shape[-1] < COLOURS:
        return images
    sequences = images.shape[1]
    swapped = torch.rand(sequences, COLOURS, generator=rng, device=CPU).argsort(1)  # (B, 3)
    gain = LIGHT * torch.randn(sequences, 1, generator=rng, device=CPU)
    gain = (gain + TINT * torch.randn(sequences, COLOURS, generator=rng, device=CPU)).exp()
    black = BLACK * torch.randn(sequences, 1, generator=rng, device=CPU).expand(-1, COLOURS)
    swapped, gain, black = (each.to(images.device) for each in (swapped, gain, black))
    order = swapped[None, :, None, None, :].expand(*images.shape[:-1], COLOURS)
    colours = images[..., :COLOURS].gather(-1, order).float()
    other = (colours * gain[:, None, None] + black[:, None, None]).clamp(0.0, 255.0)
    return torch.cat([other.round().to(torch.uint8), images[..., COLOURS:]], -1)


def _outputs(
    high_level: HighLevelNetwork, decisions: Iterator[Lessons], one_view: bool = False
) -> Iterator[tuple[Tensor, Lessons]]:
    """Outputs (B, 3) for batches of decisions (unrolled, readers), each with its flattened batch.

    With `one_view` those of the image alone, else with `mirror` the mean over both views.

    With a memory the decisions of a reader are a sequence. It begins with the recurrent state the
    previous one ended with, detached; the state is zero at the start of an episode.
    """
    memory, state = high_level.memory, None
    for drawn in decisions:
        flat = drawn.flattened()
        if one_view:
            views = [high_level.encoder(flat.seen)[0]]
        else:
            views = list(_views(high_level, flat.seen).unbind(1))
        x = torch.stack(high_level.with_goal(views, flat.goals))  # (views, decisions, F)
        if memory is not None:
            shape = (len(views), *drawn.starts.shape)
            inputs = memory.inputs(x).unflatten(1, shape[1:]).transpose(0, 1)  # (T, views, ...)
            if state is None:
                state = inputs.new_zeros(len(views) * shape[2], memory.size)
            fresh = drawn.starts.repeat(1, len(views))
            states = memory.unrolled(inputs.flatten(1, 2), fresh, state)
            state = states[-1].detach()
            x = memory.read(states).unflatten(1, (len(views), -1)).transpose(0, 1).flatten(1, 2)
        heads = list(high_level.head(x))
        yield heads[0] if one_view else high_level.outputs(heads), flat


def _views(high_level: HighLevelNetwork, seen: Tensor) -> Tensor:
    """Features (B, views, F) of images, or features as they are."""
    return encode(high_level, seen) if seen.dtype == torch.uint8 else seen


def _loss(out: Tensor, lessons: Lessons, huber: float) -> Tensor:
    """Weighted squared error of outputs (B, 3) from the teacher's; with `huber` Huber's (1964)."""
    wanted = _wanted(lessons)
    if huber:
        error = 2.0 * F.huber_loss(out, wanted, reduction="none", delta=huber)  # torch's is half
    else:
        error = F.mse_loss(out, wanted, reduction="none")
    return (torch.tensor(LOSS_WEIGHTS) * error).sum(1).mean()


def _wanted(lessons: Lessons) -> Tensor:
    """Outputs (B, 3) that the teacher would have."""
    return torch.cat([torch.full_like(lessons.latents[:, :1], SHORT), lessons.latents], 1)
