"""LatFormer: masks against permutation matrices, masked attention, learning of transformations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pixelgait.policies.encoders.latformer import lattice as transformations
from pixelgait.policies.encoders.latformer.encoder import (
    LatFormer,
    LatFormerLayer,
    masked_attention,
)
from pixelgait.policies.encoders.latformer.experts import (
    EXPERTS,
    SCALES,
    TURNS,
    Lattice,
    MaskExpert,
)
from pixelgait.policies.encoders.latformer.lattice import (
    mask,
    reflected,
    rotated,
    translated,
    upscaled,
)

Picture = Callable[[np.ndarray], np.ndarray]  # what is done to a lattice (rows, columns)
PERMUTATIONS = ("translation", "reflection", "rotation")


def permutation(picture: Picture, rows: int, columns: int) -> Tensor:
    """The matrix (n, n) of what is done to a lattice, read row by row."""
    cells = picture(np.arange(rows * columns).reshape(rows, columns))
    return torch.eye(rows * columns)[np.ascontiguousarray(cells).ravel()]


def bits(*gates: float) -> Tensor:
    return torch.tensor([gates], dtype=torch.float32)


# Table 1


def sources(name: str, size: int) -> Tensor:
    by_name = {
        "translation": transformations.translated(size, 3),
        "reflection": transformations.reflected(size),
        "upscaling": upscaled(size, 2),
        "rotation": rotated(size // 4, 4),
    }
    return by_name[name]


@pytest.mark.parametrize("name", ["translation", "reflection", "upscaling", "rotation"])
@pytest.mark.parametrize("size", [8, 12, 16])
def test_masks_are_shifts_of_the_identity_in_the_fourier_domain(name: str, size: int) -> None:
    """Theorem 3.2, along rows and with r = 0, ..., n - 1."""
    index = np.arange(size)
    offsets = sources(name, size).numpy() - index
    phases = np.exp(-2j * np.pi / size * np.outer(offsets, index))
    shifted = np.fft.ifft(np.fft.fft(np.eye(size), axis=1) * phases, axis=1)
    np.testing.assert_allclose(mask(sources(name, size)), shifted, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (5, 5), (30, 30), (2, 3), (3, 2), (4, 6)])
def test_rotation_holds_on_oblong_lattices_too(shape: tuple[int, int]) -> None:
    torch.testing.assert_close(mask(rotated(*shape)), permutation(np.rot90, *shape))


@pytest.mark.parametrize("by", SCALES)
def test_upscaling_repeats_cells(by: int) -> None:
    np.testing.assert_array_equal(upscaled(8, by), np.arange(8).repeat(by)[:8])


# Experts with gates of 0 and 1


def scaled(x: np.ndarray, by: tuple[int, int]) -> np.ndarray:
    return x.repeat(by[0], 0).repeat(by[1], 1)[: len(x), : x.shape[1]]


def codes(name: str) -> list[tuple[tuple[int, ...], Picture]]:
    """All codes of one expert's gates, and what each does."""
    if name == "translation":
        powers = np.array([1, 2, 4])
        return [
            (code, partial(np.roll, shift=(code[:3] @ powers, code[3:] @ powers), axis=(0, 1)))
            for code in product((0, 1), repeat=6)
        ]
    if name == "reflection":
        return [
            (code, partial(np.flip, axis=[axis for axis in (0, 1) if code[axis]]))
            for code in product((0, 1), repeat=2)
        ]
    if name == "rotation":
        return [(code, partial(np.rot90, k=sum(code))) for code in product((0, 1), repeat=TURNS)]
    one_hot = [tuple(int(factor == each) for each in SCALES) for factor in (1, *SCALES)]
    return [
        ((*rows, 0, *columns, 0), partial(scaled, by=(i + 1, j + 1)))
        for (i, rows), (j, columns) in product(enumerate(one_hot), repeat=2)
    ]


SQUARE_AND_OBLONG = [
    *((name, 6, 6) for name in EXPERTS),
    *((name, 4, 7) for name in EXPERTS if name != "rotation"),
]


@pytest.mark.parametrize(("name", "rows", "columns"), SQUARE_AND_OBLONG)
def test_every_code_of_gates_is_its_permutation_exactly(name: str, rows: int, columns: int) -> None:
    expert = MaskExpert(Lattice(rows, columns, (name,), powers=3))
    for code, picture in codes(name):
        found = expert(bits(*code))[0]
        assert torch.equal(found, permutation(picture, rows, columns)), code


def test_every_code_of_scales_repeats_or_adds_up() -> None:
    """Also where several gates are open, and downwards, where the last rows stay empty."""
    expert = MaskExpert(Lattice(1, 12, ("scaling",), powers=0))
    for *scales, down in product((0, 1), repeat=len(SCALES) + 1):
        by = math.prod(factor for factor, chosen in zip(SCALES, scales, strict=True) if chosen)
        repeated = torch.eye(12)[np.arange(12) // by]
        found = expert(bits(*(0,) * (len(SCALES) + 1), *scales, down))[0]
        assert torch.equal(found, repeated.T if down else repeated), (scales, down)


def test_experts_compose_to_diagonal_reflection() -> None:
    expert = MaskExpert(Lattice(5, 5, ("reflection", "rotation"), powers=0))
    found = expert(bits(0, 1, 1, 0, 0))[0]  # transpose = R90 (I kron F)
    assert torch.equal(found, permutation(np.transpose, 5, 5))


def test_thirty_cells_are_moved_by_five_gates() -> None:
    expert = MaskExpert(Lattice(30, 30, ("translation",), powers=5))
    for by in range(32):  # rows ahead, and columns 31 - by: every code once along both axes
        code = [by >> power & 1 for power in range(5)]
        found = expert(bits(*code, *(1 - bit for bit in code)))[0]
        moved = partial(np.roll, shift=(by, 31 - by), axis=(0, 1))
        assert torch.equal(found, permutation(moved, 30, 30)), by


@pytest.mark.parametrize("name", EXPERTS)
def test_rows_of_soft_masks_sum_to_1(name: str) -> None:
    expert = MaskExpert(Lattice(6, 6, (name,), powers=3))
    gates = torch.rand(200, expert.gates, generator=torch.Generator().manual_seed(0))
    if name == "scaling":
        gates[:, [len(SCALES), -1]] = 0.0  # down-scaling leaves rows empty
    sums = expert(gates).sum(2)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-6)


# Masked attention (section 3.1)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 30.0])
@pytest.mark.parametrize("name", PERMUTATIONS)
def test_masked_attention_applies_the_transformation_exactly(name: str, scale: float) -> None:
    """Softmax first and mask later divides 0 by 0 from scale 10 on."""
    x = scale * torch.randn(1, 64, 8, generator=torch.Generator().manual_seed(0))
    expert = MaskExpert(Lattice(8, 8, (name,), powers=3))
    for code, picture in codes(name):
        moved = masked_attention(x, x, x, expert(bits(*code)))
        assert torch.equal(moved[0], permutation(picture, 8, 8) @ x[0])


def test_downscaling_averages_and_leaves_the_rest_empty() -> None:
    expert = MaskExpert(Lattice(1, 8, ("scaling",), powers=0))
    down = expert(bits(*(0,) * 5, 1, 0, 0, 0, 1))
    values = torch.randn(1, 8, 3, generator=torch.Generator().manual_seed(0))
    alike = torch.zeros(1, 8, 3)  # equal scores
    small = masked_attention(alike, alike, values, down)[0]
    torch.testing.assert_close(small[:4], values[0].reshape(4, 2, 3).mean(1))
    assert not small[4:].any()


def test_masked_attention_is_that_of_the_paper() -> None:
    q, k, v = torch.randn(3, 2, 6, 4, generator=torch.Generator().manual_seed(0))
    soft = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(1))
    printed = (q @ k.transpose(1, 2) / 2.0).softmax(-1) * soft
    expected = printed / printed.sum(-1, keepdim=True) @ v
    torch.testing.assert_close(masked_attention(q, k, v, soft), expected)


# Smoothing (section 4.2)


def heat(motions: list[Tensor], time: float) -> Tensor:
    """Heat kernel (n, n) after `time` on the Cayley graph of invertible transformations.

    It smooths a mask M to heat M, the mean over all masks in the group, near ones having more
    weight: neighbours are one step in `motions` (n,) or back apart.
    """
    steps = torch.stack([step for motion in motions for step in (mask(motion), mask(motion).t())])
    steps = steps.unique(dim=0)  # a reflection is its own inverse
    spread: Tensor = torch.matrix_exp(time * (steps.sum(0) - len(steps) * torch.eye(len(steps[0]))))
    return spread


def smoothing(lattice: Lattice, time: float) -> Tensor:
    """Heat kernel (n, n) of a lattice's experts but scaling, which is no group.

    Neighbours are one cell, one reflection or 90 degrees apart.
    """
    rows, columns = lattice.rows, lattice.columns
    cells = torch.arange(rows * columns).reshape(rows, columns)
    motions = []
    if "translation" in lattice.experts:
        motions += [cells[translated(rows, 1)], cells[:, translated(columns, 1)]]
    if "reflection" in lattice.experts:
        motions += [cells[reflected(rows)], cells[:, reflected(columns)]]
    if "rotation" in lattice.experts:
        motions += [rotated(rows, columns)]
    return heat([motion.flatten() for motion in motions], time)


class Smoothed(MaskExpert):
    """Masks of an expert, smoothed."""

    def __init__(self, expert: MaskExpert, time: float) -> None:
        super().__init__(expert.lattice)
        self.expert, self.kernel = expert, smoothing(expert.lattice, time)

    def forward(self, gates: Tensor) -> Tensor:
        return self.kernel @ self.expert(gates)


@pytest.mark.parametrize("time", [0.1, 0.5, 2.0])
def test_smoothed_rotations_are_weighted_by_the_heat_kernel_of_the_4_cycle(time: float) -> None:
    turn = mask(rotated(4, 4))
    slow, fast = np.exp(-2.0 * time), np.exp(-4.0 * time)
    weights = [1 + 2 * slow + fast, 1 - fast, 1 - 2 * slow + fast, 1 - fast]
    expected = sum(w / 4 * turn.matrix_power(k) for k, w in enumerate(weights))
    torch.testing.assert_close(heat([rotated(4, 4)], time), expected)
    torch.testing.assert_close(smoothing(Lattice(4, 4, ("rotation",), powers=0), time), expected)


def test_smoothed_translations_fade_with_their_distance() -> None:
    spread = smoothing(Lattice(7, 7, ("translation",), powers=3), 0.5)
    kernel = spread[24].reshape(7, 7)  # of the cell in the middle
    torch.testing.assert_close(spread.sum(1), torch.ones(49))
    near, far, corner = kernel[3, 4], kernel[3, 6], kernel[0, 0]
    assert kernel[3, 3] > near > far > corner > 0.0
    torch.testing.assert_close(kernel, torch.outer(kernel.sum(1), kernel.sum(0)))  # a Gaussian's


# Learning one transformation from a few examples (section 5.1), grids of colours as in ARC

COLOURS, EMPTY = 6, -100
EXAMPLES, LEARNED_ON, TRIED_ON = 8, 6, (6, 9)  # sides of grids


class Everywhere(MaskExpert):
    """No mask: attention alone."""

    def forward(self, gates: Tensor) -> Tensor:
        return torch.ones_like(super().forward(gates))


def make_layer(side: int, experts: tuple[str, ...], hard: bool, masked: bool) -> LatFormerLayer:
    layer = LatFormerLayer(Lattice(side, side, experts, powers=3), COLOURS, hard)
    if not masked:
        layer.expert = Everywhere(layer.expert.lattice)
    return layer


def shares_solved(
    experts: tuple[str, ...],
    task: Callable[[Tensor], Tensor],
    masked: bool = True,
    blocks: tuple[int, int] = (1, 1),
) -> list[float]:
    """Shares of new grids, as large and larger, that are transformed without any error."""
    rng = torch.Generator().manual_seed(1)

    def drawn(count: int, side: int) -> Tensor:
        cells = torch.randint(0, COLOURS, (count, side, side), generator=rng)
        return enlarged(cells, *blocks)

    layer = make_layer(LEARNED_ON, experts, hard=False, masked=masked)
    gates = list(layer.gate.parameters())
    rest = [p for name, p in layer.named_parameters() if not name.startswith("gate.")]
    optimiser = torch.optim.Adam([{"params": gates, "lr": 0.05}, {"params": rest, "lr": 0.005}])
    grids = drawn(EXAMPLES, LEARNED_ON)
    truth = task(grids).flatten()
    masks = [layer.expert]
    if experts != ("scaling",):
        masks.append(Smoothed(layer.expert, 0.5))
    for _ in range(100):
        # Two predictions, the second with smoothed masks (section 4.2).
        losses = []
        for layer.expert in reversed(masks):  # the last one is kept
            answer = 5.0 * layer(one_hot(grids))[0].flatten(0, 1)
            losses.append(F.cross_entropy(answer, truth, ignore_index=EMPTY))
        loss = torch.stack(losses).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    shares = []
    for side in TRIED_ON:
        other = make_layer(side, experts, hard=True, masked=masked)
        other.load_state_dict(layer.state_dict())
        grids = drawn(30, side)
        truth = task(grids).flatten(1)
        right = (other(one_hot(grids))[0].argmax(-1) == truth) | (truth == EMPTY)
        shares.append(float(right.all(1).float().mean()))
    return shares


def one_hot(grids: Tensor) -> Tensor:
    """Cells (B, n, COLOURS) of grids (B, rows, columns)."""
    return F.one_hot(grids.flatten(1), COLOURS).float()


def enlarged(x: Tensor, rows: int, columns: int) -> Tensor:
    large = x.repeat_interleave(rows, 1).repeat_interleave(columns, 2)
    return large[:, : x.shape[1], : x.shape[2]]


def reduced(x: Tensor, rows: int, columns: int) -> Tensor:
    """One cell of each block; what is left over is empty."""
    small = x[:, ::rows, ::columns]
    missing = (0, x.shape[2] - small.shape[2], 0, x.shape[1] - small.shape[1])
    return F.pad(small, missing, value=EMPTY)


TASKS: list[tuple[tuple[str, ...], Callable[[Tensor], Tensor]]] = [
    (("translation",), lambda x: x.roll((1, 2), (1, 2))),
    (("translation",), lambda x: x.roll((3, 5), (1, 2))),
    (("translation",), lambda x: x.roll((5, 4), (1, 2))),
    (("rotation",), lambda x: x.rot90(1, (1, 2))),
    (("rotation",), lambda x: x.rot90(2, (1, 2))),
    (("rotation",), lambda x: x.rot90(3, (1, 2))),
    (("reflection",), lambda x: x.flip(1)),
    (("reflection",), lambda x: x.flip(2)),
    (("reflection", "rotation"), lambda x: x.transpose(1, 2)),
    (("scaling",), lambda x: enlarged(x, 2, 2)),
    (("scaling",), lambda x: enlarged(x, 3, 2)),
]


@pytest.mark.parametrize(("experts", "task"), TASKS)
def test_a_layer_learns_a_transformation_from_a_few_examples(
    experts: tuple[str, ...], task: Callable[[Tensor], Tensor]
) -> None:
    assert shares_solved(experts, task) == [1.0, 1.0]


@pytest.mark.parametrize("factors", [(2, 2), (3, 2)])
def test_a_layer_learns_to_make_blocks_smaller(factors: tuple[int, int]) -> None:
    """Empty cells are not compared."""
    rows, columns = factors
    task = partial(reduced, rows=rows, columns=columns)
    assert shares_solved(("scaling",), task, blocks=factors) == [1.0, 1.0]


def test_attention_without_masks_does_not() -> None:
    assert shares_solved(*TASKS[0], masked=False) == [0.0, 0.0]


# As an encoder


@torch.no_grad()
def test_features_are_the_patches_where_the_gates_move_them() -> None:
    encoder = LatFormer(16, 16, experts="translation", hard=True)
    image = torch.randint(0, 256, (1, 16, 16, 3), dtype=torch.uint8)
    assert encoder.features == 16 * 4 + 4
    still, _ = encoder(image)
    encoder.layers[0].gate.bias[2] = 9.0  # one column ahead
    moved, _ = encoder(image)
    columns = still[:, :64].unflatten(1, (4, 4, 4))
    torch.testing.assert_close(moved[:, :64].unflatten(1, (4, 4, 4)), columns.roll(1, 2))
    assert moved[0, 64:].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_every_weight_of_the_encoder_learns() -> None:
    encoder = LatFormer(16, 16)
    image = torch.randint(0, 256, (4, 16, 16, 3), dtype=torch.uint8)
    optimiser = torch.optim.Adam(encoder.parameters())
    for _ in range(2):  # the perceptron begins as zero
        optimiser.zero_grad()
        encoder(image)[0].square().sum().backward()
        optimiser.step()
    for name, weight in encoder.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.any()), name
        assert bool(weight.isfinite().all()), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 12}, "not a multiple of patch 12"),
        ({"channels": 2}, "2 channels"),
        ({"dim": 0}, "dim is 0, expected at least 1"),
        ({"layers": 0}, "layers is 0, expected at least 1"),
        ({"experts": "shear"}, "unknown expert 'shear', choose from translation, reflection"),
        ({"width": 64}, "rotation needs a square lattice, not 8 x 16"),
    ],
)
def test_latformer_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LatFormer(**options)


def test_experts_are_named_once() -> None:
    with pytest.raises(ValueError, match=r"experts are rotation\+rotation, expected each once"):
        LatFormer(experts="rotation+rotation")
