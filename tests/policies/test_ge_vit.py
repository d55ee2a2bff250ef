"""GE-ViT: groups, equivariance of every layer, and the defect of GSA-Nets that it mends.

All networks have random weights, not initial ones: nothing holds because a weight is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.ge_vit.encoder import GEViT
from pixelgait.policies.encoders.ge_vit.group_attention import Attention, GroupAttention
from pixelgait.policies.encoders.ge_vit.groups import (
    ROTATIONS,
    Encoding,
    Group,
    elements,
    encoded_elements,
    inverses,
    product_table,
)

EXACT = 2e-6  # relative, float32; what holds exactly differs by about 3e-7
GROUPS: tuple[Group, ...] = get_args(Group)
ORDERS = {"flip": 2, "C4": 4, "C8": 8, "D4": 8}
SIDE = 16  # of images [pixels]
GRID = 8  # of the patches of 2 pixels

# What they do to (row, column), to the axes of images.
Transform = Callable[[Tensor, tuple[int, int]], Tensor]
TRANSFORMS: dict[str, tuple[np.ndarray, Transform]] = {
    "turn": (np.array([[0.0, -1.0], [1.0, 0.0]]), lambda x, axes: x.rot90(1, axes)),
    "mirror": (np.diag([1.0, -1.0]), lambda x, axes: x.flip(axes[1])),
}
SYMMETRIES = [
    ("flip", "mirror"), ("C4", "turn"), ("C8", "turn"), ("D4", "turn"), ("D4", "mirror")
]  # fmt: skip


def random_weights(module: Any, size: float = 1.0) -> Any:
    """Scores differ as much as in a trained network; elements are told apart by a factor of 10."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
            if weight.dim() == 2:
                weight[:] = torch.randn(weight.shape, generator=generator)
                weight *= 10.0 if name.endswith("element") else size * weight.shape[1] ** -0.5
    return module.eval()


def random_image(seed: int = 0, side: int = SIDE) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (1, side, side, 3), dtype=torch.uint8, generator=generator)


def moved(maps: Tensor, group: Group, transform: str) -> Tensor:
    """Maps (B, h, P, d) as they are once the image was transformed: (g, x) is at (k g, k x)."""
    matrix, act = TRANSFORMS[transform]
    k = np.abs(elements(group) - matrix).sum((1, 2)).argmin()
    result = torch.empty_like(maps)
    side = round(maps.shape[2] ** 0.5)
    grid = act(maps.unflatten(2, (side, side)), (2, 3))
    result[:, product_table(group)[k]] = grid.flatten(2, 3)
    return result


def change(values: Tensor, reference: Tensor) -> float:
    return float((values - reference).norm() / reference.norm())


# Groups and their encoding (eq. 15 and 18)


@pytest.mark.parametrize("group", GROUPS)
def test_groups_are_groups(group: Group) -> None:
    matrices, product, inverse = elements(group), product_table(group), inverses(group)
    assert len(matrices) == ORDERS[group]
    np.testing.assert_allclose(matrices[product], matrices[:, None] @ matrices, atol=1e-14)
    np.testing.assert_allclose(
        matrices[inverse] @ matrices, np.eye(2)[None] + 0 * matrices, atol=1e-14
    )
    if group != "C8":
        assert set(np.unique(matrices)) <= {-1.0, 0.0, 1.0}  # no 6e-17


@pytest.mark.parametrize(
    ("group", "defects"), [("flip", 8), ("C4", 192), ("C8", 3584), ("D4", 3584)]
)
def test_only_the_corrected_encoding_is_invariant(group: Group, defects: int) -> None:
    """Entries (k, v, g, m) where it differs between (v, g, m) and (k v, k g, k m)."""
    product = product_table(group)
    k, v, g, m = np.ogrid[(slice(len(product)),) * 4]
    for encoding, expected in (("ge-vit", 0), ("gsa-net", defects)):
        told = encoded_elements(group, encoding)
        changed = told[product[k, v], product[k, g], product[k, m]] != told[v, g, m]
        assert int(changed.sum()) == expected


# Layers


@pytest.mark.parametrize(("group", "transform"), SYMMETRIES)
@torch.no_grad()
def test_group_attention_is_equivariant_and_that_of_gsa_nets_is_not(
    group: Group, transform: str
) -> None:
    maps = torch.randn(1, ORDERS[group], 36, 32, generator=torch.Generator().manual_seed(1))
    for encoding in get_args(Encoding):
        layer = random_weights(GroupAttention(Attention(32, 4, 6, 6, 5, group, encoding)))
        out, _ = layer(maps)
        error = change(layer(moved(maps, group, transform))[0], moved(out, group, transform))
        assert error < EXACT if encoding == "ge-vit" else error > 0.1


@pytest.mark.parametrize("group", GROUPS)
def test_offsets_are_those_of_the_identity_turned_back(group: Group) -> None:
    """Zeros are exact: the encoding's norm would amplify 4e-8."""
    options = Attention(32, 4, 6, 6, 5, group, "ge-vit")
    turned = GroupAttention(options).offsets.double()
    for element, found in zip(elements(group), turned, strict=True):
        expected = turned[0] @ torch.from_numpy(element)  # row vectors: by the inverse
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        assert not found[expected.abs() < 1e-6].any()
    rotations = turned[: ROTATIONS[group]]
    angles = torch.atan2(rotations[:, 5 * 2 + 4, 1], rotations[:, 5 * 2 + 4, 0])  # of (0, 1)
    steps = torch.arange(len(rotations)) * 2.0 * np.pi / len(rotations)
    torch.testing.assert_close(torch.cos(angles), torch.sin(steps).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.sin(angles), torch.cos(steps).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("group", "transform"), SYMMETRIES)
@torch.no_grad()
def test_lifting_is_equivariant(group: Group, transform: str) -> None:
    options = Attention(32, 4, 6, 6, 5, group, "ge-vit")
    layer = random_weights(GroupAttention(options, lifting=True))
    grid = torch.randn(1, 1, 6, 6, 32, generator=torch.Generator().manual_seed(1))
    transformed = TRANSFORMS[transform][1](grid, (2, 3))
    out, after = (layer(x.flatten(2, 3))[0] for x in (grid, transformed))
    assert out.shape == (1, ORDERS[group], 36, 32)
    assert change(after, moved(out, group, transform)) < EXACT
    assert change(after, moved(out, group, transform).roll(1, 1)) > 0.03  # elements differ


@pytest.mark.parametrize(("group", "transform"), SYMMETRIES)
@torch.no_grad()
def test_turns_by_90_degrees_are_as_exact_as_the_numbers(group: Group, transform: str) -> None:
    layer = random_weights(GroupAttention(Attention(32, 4, 6, 6, 5, group, "ge-vit"))).double()
    maps = torch.randn(1, ORDERS[group], 36, 32, dtype=torch.float64)
    out, after = layer(maps)[0], layer(moved(maps, group, transform))[0]
    assert change(after, moved(out, group, transform)) < 1e-14


@torch.no_grad()
def test_attention_is_that_of_the_equations() -> None:
    """Eq. 17, term by term, of one vertex at the border."""
    group: Group = "D4"
    layer = random_weights(GroupAttention(Attention(8, 2, 4, 5, 3, group, "ge-vit")))
    maps = torch.randn(1, 8, 20, 8, generator=torch.Generator().manual_seed(2))
    q, k, values = layer.query_key_value(maps[0]).unflatten(-1, (3, 2, 4)).unbind(2)
    encoded, turn = encoded_elements(group, "ge-vit"), np.linalg.inv(elements(group))
    found = layer(maps)[0][0]
    i, near = 5, [(r, c) for r in range(3) for c in range(2)]  # around (1, 0)
    for v in range(8):
        total = torch.zeros(2, 4)
        for g in range(8):
            scores = []
            for m in range(8):
                for r, c in near:
                    offset = torch.tensor(turn[v] @ (r - 1, c), dtype=torch.float32)
                    rho = layer.position(offset) + layer.element[encoded[v, g, m]]
                    scores.append((q[g, i] * (k[m, 5 * r + c] + rho)).sum(-1) / 8**0.5)
            weights = torch.stack(scores).softmax(0)
            told = torch.stack([values[m, 5 * r + c] for m in range(8) for r, c in near])
            total += (weights[..., None] * told).sum(0)
        expected = layer.project(total.flatten())
        torch.testing.assert_close(found[v, i], expected, rtol=1e-4, atol=1e-4)


# Whole encoders


@pytest.mark.parametrize(("group", "transform"), SYMMETRIES)
@torch.no_grad()
def test_ge_vit_is_equivariant(group: Group, transform: str) -> None:
    image, act = random_image(), TRANSFORMS[transform][1]
    errors = {}
    for encoding in get_args(Encoding):
        encoder = random_weights(GEViT(SIDE, SIDE, patch=2, group=group, encoding=encoding), 3.0)
        transformed = act(image, (1, 2))
        (maps, _), (other, _) = encoder.maps(image), encoder.maps(transformed)
        errors[encoding] = change(other, moved(maps, group, transform))
        if encoding == "ge-vit":
            (features, seen), (after, seen_after) = encoder(image), encoder(transformed)
            assert change(after[:, :32], features[:, :32]) < EXACT
            assert change(seen_after, act(seen, (1, 2))) < 5 * EXACT
            assert change(encoder(random_image(1))[0][:, :32], features[:, :32]) > 1e-3
            if group != "flip":
                grid, grid_after = (
                    x[:, 32:].unflatten(1, (GRID, GRID, -1)) for x in (features, after)
                )
                assert change(grid_after, act(grid, (1, 2))) < EXACT
    assert errors["ge-vit"] < EXACT
    assert errors["gsa-net"] > 1e-3


@torch.no_grad()
def test_a_mirror_image_negates_only_the_odd_features() -> None:
    for columns in (8, 7):
        encoder = random_weights(GEViT(SIDE, 2 * columns, patch=2), 3.0)
        image = random_image(side=20)[:, :SIDE, : 2 * columns]
        features, after = encoder(image)[0], encoder(image.flip(2))[0]
        assert features.shape == (1, encoder.features)
        assert encoder.odd == GRID * (columns // 2) * 4
        signs = torch.ones(encoder.features)
        signs[-encoder.odd :] = -1.0
        assert change(after * signs, features) < EXACT
        assert float(features[:, -encoder.odd :].norm()) > 0.01 * float(features.norm())


@torch.no_grad()
def test_groups_of_rotations_see_mirror_images() -> None:
    for group in ("C4", "C8"):
        encoder, image = (
            random_weights(GEViT(SIDE, SIDE, patch=2, group=group), 3.0),
            random_image(),
        )
        features, mirrored = encoder(image)[0], encoder(image.flip(2))[0]
        assert change(mirrored[:, :32], features[:, :32]) > 1e-3


def blobs(seed: int, angle: float = 0.0) -> Tensor:
    """A picture of eight soft blobs, turned and then sampled: nothing is interpolated."""
    rng = np.random.default_rng(seed)
    axis = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 2)
    row, column = np.meshgrid(axis, axis, indexing="ij")
    cosine, sine = np.cos(angle), np.sin(angle)
    row, column = cosine * row + sine * column, cosine * column - sine * row
    picture = np.full((SIDE, SIDE, 3), 128.0)
    for _ in range(8):
        y, x = rng.uniform(-0.6, 0.6, 2)
        size = rng.uniform(0.15, 0.35)
        bump = np.exp(-((row - y) ** 2 + (column - x) ** 2) / (2.0 * size**2))
        picture += rng.uniform(-90.0, 90.0, 3) * bump[..., None]
    return torch.from_numpy(picture.clip(0, 255).round().astype(np.uint8))[None]


@pytest.mark.parametrize("group", ["C4", pytest.param("C8", marks=pytest.mark.slow)])
@torch.no_grad()
def test_turns_by_45_degrees_change_less_than_another_picture_but_no_group_has_them(
    group: Group,
) -> None:
    """The eight rotations add nothing to the four on a grid of pixels: docs/methods/ge-vit.md."""
    torch.manual_seed(0)
    encoder = random_weights(GEViT(SIDE, SIDE, patch=1, group=group), 3.0)
    turned, other = [], []
    for seed in range(8):
        features, after, others = (
            encoder(picture)[0][:, :32]
            for picture in (blobs(seed), blobs(seed, np.pi / 4), blobs(seed + 1))
        )
        turned.append(change(after, features))
        other.append(change(others, features))
    assert 0.01 < np.mean(turned) / np.mean(other) < 0.1


@torch.no_grad()
def test_every_patch_hands_out_as_much_attention_as_any_other() -> None:
    encoder = random_weights(GEViT(SIDE, SIDE, patch=2))
    _, received = encoder.blocks[0].attention(torch.randn(2, 2, GRID * GRID, 32))
    heads, outputs, queries = 4, 2, 2
    total = torch.full((2,), float(GRID * GRID * heads * outputs * queries))
    torch.testing.assert_close(received.sum(1), total)


@pytest.mark.parametrize("group", GROUPS)
def test_every_weight_of_the_encoder_learns(group: Group) -> None:
    encoder = GEViT(SIDE, SIDE, patch=2, group=group)
    head = nn.Linear(encoder.features, 1)
    head(encoder(random_image())[0]).sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.any()), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 12}, "not a multiple of patch 12"),
        ({"channels": 2}, "2 channels"),
        ({"heads": 5}, "not a multiple of 5 heads"),
        ({"layers": 0}, "layers is 0, expected at least 1"),
        ({"window": 4}, "window is 4, expected an odd number of at least 3"),
        ({"group": "C6"}, "unknown group 'C6', choose from flip, C4, C8, D4"),
        ({"encoding": "rope"}, "unknown encoding 'rope'"),
        ({"group": "C4", "width": 64}, "group 'C4' needs a square image, not 32 x 64"),
    ],
)
def test_ge_vit_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GEViT(**options)
