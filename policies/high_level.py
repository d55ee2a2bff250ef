"""The high level: an image encoder and the head that turns features into a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.encoder_registry import ENCODERS, make_encoder
from pixelgait.policies.memory import cells_of
from pixelgait.robot.control.controller import LONGEST_STEPS, SHORTEST_STEPS, Decision, MemoryState
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.control.observation import COLOURS, NO_GOAL
from pixelgait.robot.control.policy_map import MOST_COLUMNS as MAP_COLUMNS
from pixelgait.robot.control.policy_map import ROWS as MAP_ROWS
from pixelgait.robot.control.policy_map import PolicyMap, Spread
from pixelgait.robot.interface import Image
from pixelgait.robot.spec import Array, RobotSpec

HIDDEN = 10  # tanh units (IAP paper, section 5.3)
MIRRORED = (1.0, 1.0, -1.0)  # duration, speed and yaw rate of a mirrored decision
MIRRORED_GOAL = (1.0, -1.0, 1.0)  # distance, bearing, approach
GOAL_FEATURES, AHEAD_FEATURES = 4, 2
FAR_M = 10.0  # distances are clipped to it
APPROACH_M = 0.12  # the approach between two decisions at full speed: 0.6 m/s for 0.2 s
UNKNOWN_M = 1e3  # distance of no goal; infinity has no differences
LAST_DISTANCE = 2  # entries of the state: the distance [m], and whether there is one


class Decider(nn.Module):
    """From image (B, H, W, C), goal (B, 2) and state (B, n) to a decision.

    A decision is latent (B, 2), duration (B, 1) [control steps], attention (B, H', W') and the next
    state (B, n). `image_shape` (H, W, C) is that of the camera: C is 1 for depth, 3 for RGB, 4 for
    RGB-D.
    """

    image_shape: tuple[int, int, int]
    sees_goal = sees_ahead = False  # inputs: the goal, or its bearing only
    sees_map = False  # below the camera's image
    state_size = 0

    @property
    def camera_shape(self) -> tuple[int, int, int]:
        """Shape (H, W, C) of the camera's part of the image."""
        height, width, channels = self.image_shape
        return height - MAP_ROWS * self.sees_map, width, channels

    def map(self, spec: RobotSpec, spread: Spread | None = None) -> PolicyMap | None:
        """A fresh map of a robot, see `PolicyMap`; None: this high level sees none."""
        return PolicyMap(spec, *self.camera_shape[:2], spread) if self.sees_map else None

    @torch.no_grad()
    def decide(
        self,
        image: NDArray[np.uint8],
        goal: Array = NO_GOAL,
        state: MemoryState = None,
        around: NDArray[np.uint8] | None = None,
    ) -> Decision:
        """The controller's high level: image (H, W, C), goal (2,), state (n,) and, if it sees one,
        map (32, W) to a decision.
        """
        image = Image(image, 0.0, around).whole
        return self.decide_all(image[None], goal[None], [state])[0]

    @torch.no_grad()
    def decide_all(
        self, images: NDArray[np.uint8], goals: Array, states: Sequence[MemoryState]
    ) -> list[Decision]:
        """Decisions of n robots: images (n, H, W, C), goals (n, 2), states of (m,) or None."""
        start = np.zeros(self.state_size)
        recurrent = np.array([start if state is None else state for state in states])
        inputs = [torch.from_numpy(images)]
        inputs += [torch.from_numpy(each).float() for each in (goals, recurrent)]
        latents, durations, attentions, after = self(*inputs)
        rows = latents.double().numpy(), durations.int().numpy(), attentions.numpy()
        next_states = after.double().numpy() if self.state_size else [None] * len(images)
        return [
            Decision(latent, int(duration[0]), attention, state)
            for latent, duration, attention, state in zip(*rows, next_states, strict=True)
        ]


class StraightAhead(Decider):
    """Full speed straight ahead, without a camera: ships with a low level on its own."""

    DURATION_STEPS = 100.0
    image_shape = (32, 32, 3)

    def forward(
        self, image: Tensor, goal: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Constant latent (B, 2) and duration (B, 1), and zero attention (B, H, W)."""
        attention = torch.zeros_like(image[..., 0], dtype=torch.float32)
        latent = torch.tensor([[1.0, 0.0]]).expand(len(image), 2)
        return latent, torch.full((len(image), 1), self.DURATION_STEPS), attention, state


@dataclass(frozen=True, slots=True)
class Architecture:
    """Architecture of a high level. Picklable."""

    encoder: str  # its name, with options, see `make_encoder`
    mirror: bool = False
    goal: bool = False
    memory: str = ""  # as in gru:32, lstm:16; empty: none
    ahead: bool = False
    approach: bool = False
    map: bool = False


class HighLevelNetwork(Decider):
    """Encoder, optional goal and memory, 10 tanh units, 3 outputs in [-1, 1].

    The first output sets the duration, the other two are the latent command. A goal adds four
    features, `ahead` the two of its bearing. A memory is a recurrent cell between features and
    head, see `cells_of`. `approach` adds to the goal how much nearer it came since the last
    decision: a robot that pushes against what its camera does not see is told by nothing else. The
    last distance is part of the state.

    With `mirror` the network is averaged over the world and its mirror image: mirroring image, goal
    and state negates the steering and keeps speed and duration, bit for bit. The number of weights
    is unchanged; there are two states, which a mirrored world swaps. If an encoder's features are
    even or odd (`SiT` with a mirror graph, `GEViT` with the mirror group), the mirror image is not
    encoded: the symmetry is then as exact as the encoder's.

    Raises:
        ValueError: if the encoder or memory does not exist or its options do not fit (see
            `make_encoder`, `cells_of`), the encoder cannot tell left from right, or both goal and
            ahead are given.
    """

    def __init__(
        self,
        encoder: str,
        mirror: bool = False,
        goal: bool = False,
        memory: str = "",
        ahead: bool = False,
        approach: bool = False,
        map: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.mirror = mirror
        self.encoder = make_encoder(encoder, **options)
        self.image_shape = self.encoder.image_shape
        self.sees_map = map
        height, width, channels = self.image_shape
        if map and channels == COLOURS:
            raise ValueError("a map needs depth: channels of 1 or 4")
        if map and (height <= MAP_ROWS or width > MAP_COLUMNS):
            most = f"more than the map's {MAP_ROWS} rows, {MAP_COLUMNS} columns at most"
            raise ValueError(f"images of {height} x {width}, a map needs {most}")
        if self.encoder.flip_blind or self.image_shape[1] == 1:
            raise ValueError(f"'{encoder}' cannot tell left from right, and so it cannot steer")
        if goal and ahead:
            raise ValueError("goal and ahead are mutually exclusive")
        if approach and not (goal and memory):
            raise ValueError("approach needs goal and memory")
        self.sees_goal, self.sees_ahead, self.sees_approach = goal, ahead, approach
        size = self.encoder.features + goal * GOAL_FEATURES + ahead * AHEAD_FEATURES + approach
        self.memory = cells_of(memory, size)
        recalled = self.memory.size if self.memory else 0
        self.state_size = (recalled + approach * LAST_DISTANCE) * (1 + mirror)
        self.hidden = nn.Linear(self.memory.units if self.memory else size, HIDDEN)
        self.output = nn.Linear(HIDDEN, 3)

    def forward(
        self, image: Tensor, goal: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Latent (B, 2), duration (B, 1) [control steps], attention (B, H', W'), state (B, n)."""
        views, attention = self.views(image)
        heads, after = self.heads(views, goal, state)
        # Clipped after the mean, as in imitation: parts that cancel in the mean have no limit.
        out = self.outputs(heads).clamp(-1.0, 1.0)
        span = LONGEST_STEPS - SHORTEST_STEPS
        duration = torch.round(SHORTEST_STEPS + (out[:, :1] + 1.0) / 2.0 * span)
        return out[:, 1:], duration, attention, after

    def views(self, image: Tensor) -> tuple[list[Tensor], Tensor]:
        """Features (B, F) of the image, with `mirror` also of its mirror image; mean attention."""
        features, attention = self.encoder(image)
        if not self.mirror:
            return [features], attention
        if odd := self.encoder.odd:
            even = features.shape[1] - odd
            signs = torch.cat([torch.ones(even), -torch.ones(odd)])
            return [features, features * signs], attention
        # Two passes, not one batch: rounding may depend on the place in a batch.
        others, mirrored = self.encoder(image.flip(2))
        return [features, others], (attention + mirrored.flip(2)) / 2.0

    def heads(
        self, views: list[Tensor], goal: Tensor, state: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Head outputs of every view (B, 3), before clipping, and the next state (B, n)."""
        states, noted = list(state.chunk(len(views), 1)), list[Tensor]()
        if self.sees_approach:  # the same in every view
            last, before = states[0][:, -LAST_DISTANCE:].chunk(LAST_DISTANCE, 1)
            distance = goal[:, :1].clamp(max=UNKNOWN_M)
            goal = torch.cat([goal, (last - distance) * before], 1)
            states = [each[:, :-LAST_DISTANCE] for each in states]
            noted = [distance, torch.ones_like(distance)]
        heads, after = [], []
        for x, own in zip(self.with_goal(views, goal), states, strict=True):
            if self.memory:
                own = self.memory(x, own)
                x = self.memory.read(own)
            heads.append(self.head(x))
            after += [own, *noted]
        return heads, torch.cat(after, 1)

    def with_goal(self, views: list[Tensor], goal: Tensor) -> list[Tensor]:
        """Features (..., F) of every view, with those of the goal in that view.

        The goal (..., 2) is distance [m] and bearing [rad]; (..., 3) with the approach [m].
        """
        if not self.sees_goal and not self.sees_ahead:
            return views
        features_of = goal_features if self.sees_goal else direction
        mirrored = goal * torch.tensor(MIRRORED_GOAL[: goal.shape[-1]])
        goals = [goal, mirrored][: len(views)]
        pairs = zip(views, goals, strict=True)
        return [torch.cat([features, features_of(towards)], -1) for features, towards in pairs]

    def head(self, x: Tensor) -> Tensor:
        """Outputs (..., 3), before clipping, from features or the memory's units."""
        out: Tensor = self.output(torch.tanh(self.hidden(x)))
        return out

    def outputs(self, heads: list[Tensor]) -> Tensor:
        """Duration, speed and turn (B, 3) from the head outputs of every view."""
        if not self.mirror:
            return heads[0]
        one, other = heads
        return (one + other * torch.tensor(MIRRORED)) / 2.0


def goal_features(goal: Tensor) -> Tensor:
    """Features of goals (..., 2): distance on two scales, cosine and sine of the bearing.

    The scales are those of the planner and of the last metre; the bearing is encoded as in DD-PPO
    (Wijmans et al. 2020, arXiv 1911.00357). No goal is encoded as one far ahead. A third entry of
    the goal, the approach [m], is a fifth feature.
    """
    near = goal[..., :1].clamp(max=FAR_M)
    approach = (goal[..., 2:] / APPROACH_M).clamp(-1.0, 1.0)
    return torch.cat([near / FAR_M, torch.exp(-near), direction(goal), approach], -1)


def direction(goal: Tensor) -> Tensor:
    """Cosine and sine of the bearing (..., 2) of goals (..., 2)."""
    bearing = goal[..., 1:2]
    return torch.cat([bearing.cos(), bearing.sin()], -1)


def make_high_level(architecture: Architecture, seed: int) -> HighLevelNetwork:
    """A fresh high level with short durations, without dropout (`eval`).

    With long durations training would learn to do without the camera.
    """
    torch.manual_seed(seed)
    a = architecture
    inputs = a.mirror, a.goal, a.memory, a.ahead, a.approach, a.map
    high_level = HighLevelNetwork(a.encoder, *inputs)
    with torch.no_grad():
        high_level.output.bias[0] = -0.95  # 30 steps, on the scale of 10..800
    return high_level.eval()


def flat_weights(high_level: HighLevelNetwork) -> Array:
    """All weights of a high level as one vector."""
    vector = torch.nn.utils.parameters_to_vector(high_level.parameters())
    return vector.detach().double().numpy()


def set_weights(high_level: HighLevelNetwork, weights: Array) -> None:
    """Set all weights from a vector of `flat_weights`."""
    vector = torch.tensor(weights, dtype=torch.float32)
    torch.nn.utils.vector_to_parameters(vector, high_level.parameters())


def encoder_table() -> str:
    """Table of all encoders: weights of the encoder, and of the whole policy with its low level."""
    lines = [f"{'encoder':<16}{'encoder weights':>16}{'whole policy':>14}"]
    for name in ENCODERS:
        high_level = HighLevelNetwork(name)
        counts = [sum(p.numel() for p in m.parameters()) for m in (high_level.encoder, high_level)]
        lines.append(f"{name:<16}{counts[0]:>16}{counts[1] + LOW_LEVEL_WEIGHTS:>14}")
    return "\n".join(lines)
