"""SiT and ViT: which symmetries hold exactly, which are broken, and that the export keeps them.

All networks have random weights, not initial ones: nothing holds because a weight is zero.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.sit.encoder import SiT
from pixelgait.policies.encoders.sit.graph_attention import Attention, GlobalGSA, GraphAttention
from pixelgait.policies.encoders.sit.graph_symmetry import (
    GROUPS,
    Graph,
    GraphMatrix,
    TriangleAttention,
    triangle_table,
)
from pixelgait.policies.encoders.vit import ViT
from tests.policies.networks import change, random_weights

EXACT = 2e-6  # relative, float32; what holds exactly differs by about 1e-7
BROKEN = 1e-4
VARIANTS = ("sit", "sit-star", "set", "siet")


def random_image(height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (height, width, channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@torch.no_grad()
def features(encoder: nn.Module, *images: Tensor) -> Tensor:
    return torch.cat([encoder(image[None])[0] for image in images])


@pytest.mark.parametrize(
    ("encoder", "total"),
    [
        (SiT, 64_544),
        (lambda *size: SiT(*size, variant="sit-star"), 65_600),
        (lambda *size: SiT(*size, variant="set"), 65_428),
        (lambda *size: SiT(*size, variant="siet"), 69_780),
        (ViT, 216_640),
    ],
)
def test_totals_at_64_pixels(encoder: Any, total: int) -> None:
    assert sum(p.numel() for p in encoder(64, 64).parameters()) == total


# Graph matrices (figure 2, listing 4)


@pytest.mark.parametrize("graph", GROUPS)
@pytest.mark.parametrize(("rows", "columns", "reach"), [(8, 8, 4), (8, 8, 7), (5, 5, 5), (4, 6, 2)])
def test_graph_matrix_is_a_depthwise_convolution(
    graph: Graph, rows: int, columns: int, reach: int
) -> None:
    graph_matrix = random_weights(GraphMatrix(6, reach, graph))
    x = torch.randn(2, 6, rows, columns, generator=torch.Generator().manual_seed(1))
    expected = torch.einsum("cij,bcj->bci", graph_matrix.matrix(rows, columns), x.flatten(2))
    torch.testing.assert_close(graph_matrix(x).flatten(2), expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("graph", "kept"),
    [("flip", {"mirror"}), ("flips", {"mirror", "upside_down"}),
     ("rotation", {"mirror", "upside_down", "turn"})],
)  # fmt: skip
def test_graph_matrices_commute_with_their_symmetries_only(graph: Graph, kept: set[str]) -> None:
    graph_matrix = random_weights(GraphMatrix(3, 4, graph))
    x = torch.randn(1, 3, 7, 7, generator=torch.Generator().manual_seed(2))
    symmetries = {
        "mirror": lambda x: x.flip(-1),
        "upside_down": lambda x: x.flip(-2),
        "turn": lambda x: x.rot90(1, (-2, -1)),
    }
    for name, symmetry in symmetries.items():
        difference = change(graph_matrix(symmetry(x)), symmetry(graph_matrix(x)))
        assert difference < EXACT if name in kept else difference > 0.1, name


# TriangleAttention (eq. 4 and 8, appendix A)


def violations(side: int, vertices: Tensor) -> int:
    """Pairs whose triangle a permutation of the vertices does not map onto another of the table."""
    edges, labels = triangle_table(side)
    count, p = side * side, vertices.flatten()
    mapped = p[edges // count] * count + p[edges % count]
    moved_edges, moved_labels = edges[:, p][:, :, p], labels[:, p][:, :, p]
    return int(((moved_edges != mapped) | (moved_labels != labels)).any(0).sum())


@pytest.mark.parametrize(
    ("side", "angles", "flipped"),
    [(3, 7, 72), (4, 11, 240), (5, 19, 600), (7, 41, 2352), (8, 55, 4032)],
)
def test_triangles_turn_with_the_grid_and_see_flips(side: int, angles: int, flipped: int) -> None:
    vertices = torch.arange(side * side).reshape(side, side)
    assert int(triangle_table(side)[1].max()) + 1 == angles
    assert violations(side, vertices.rot90()) == 0
    assert violations(side, vertices.flip(1)) == flipped
    assert violations(side, vertices.flip(0)) == flipped


def test_triangles_collapse_at_the_border() -> None:
    edges, _ = triangle_table(8)
    own = torch.arange(64 * 64).reshape(64, 64)
    assert int((edges[0] == own).sum()) == 316
    assert bool((edges[2] == own).all())


@pytest.mark.parametrize("token", [False, True])
def test_triangles_add_up_as_in_the_paper(token: bool) -> None:
    layer = random_weights(TriangleAttention(heads=2, side=3, token=token))
    edges, labels = triangle_table(3)
    size = 9 + token
    scores = torch.randn(5, 2, size, size)
    result = layer(scores).detach()
    expected = scores.clone()
    for i in range(9):
        for j in range(9):
            terms = [
                layer.weights[:, label] * scores[..., edge // 9 + token, edge % 9 + token]
                for edge, label in zip(edges[:, i, j], labels[:, i, j], strict=True)
            ]
            expected[..., i + token, j + token] = sum(terms).detach()
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("triangles", [0, 1, 2])
@pytest.mark.parametrize("matrices", ["qk", "qkvg"])
@pytest.mark.parametrize("antisymmetric", [False, True])
def test_the_token_alone_equals_the_token_among_patches(
    triangles: int, matrices: str, antisymmetric: bool
) -> None:
    options = Attention(16, 4, "rotation", matrices, triangles, 0.0, antisymmetric)
    layer = random_weights(GlobalGSA(options, 3, 3))
    x = torch.randn(2, 10, 16)
    for alone, among in zip(layer(x, token_only=True), layer(x), strict=True):
        torch.testing.assert_close(alone, among[..., :1, :], rtol=0, atol=1e-5)


def test_the_stem_is_embedding_graph_matrix_and_mixing() -> None:
    stem = random_weights(SiT()).stem
    image = random_image()
    black_around = torch.nn.functional.pad(image / 255.0, (0, 0, 2, 2, 2, 2))
    x = stem.graph(stem.embed(black_around).permute(2, 0, 1)[None])[:, :, 2:-2, 2:-2]
    x = stem.mix(x.permute(0, 2, 3, 1)).relu().permute(0, 3, 1, 2)
    expected = torch.nn.functional.max_pool2d(x, 2)
    torch.testing.assert_close(stem(image[None]), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("matrices", ["", "qk", "qkvg"])
def test_scores_are_symmetric(matrices: str) -> None:
    options = Attention(16, 4, "rotation", matrices, triangles=0, dropout=0.0)
    attention = random_weights(GraphAttention(options, 3, 3))
    q, k = torch.randn(2, 1, 4, 9, 4, generator=torch.Generator().manual_seed(3))
    scores = attention.scores(q, k)
    torch.testing.assert_close(scores, scores.transpose(-2, -1), rtol=0, atol=1e-6)


def test_anti_symmetric_scores_have_a_softmax_of_their_own() -> None:
    """Equation 6."""
    options = Attention(16, 4, "rotation", "qk", triangles=0, dropout=0.0, antisymmetric=True)
    attention = random_weights(GraphAttention(options, 3, 3))
    q, k, v = torch.randn(3, 1, 4, 9, 4, generator=torch.Generator().manual_seed(3))
    gamma = q @ k.transpose(-2, -1) / 2.0  # the root of 16 / 4
    both = (gamma + gamma.mT).softmax(-1) + (gamma - gamma.mT).softmax(-1)
    torch.testing.assert_close(attention(q, k, v)[1], both)
    torch.testing.assert_close(attention(q, k, v)[0], both @ v)


# Whole encoders


@pytest.mark.parametrize(
    "options",
    [
        *({"matrices": matrices} for matrices in ("qk", "qkvg")),
        {"antisymmetric": True},
        {"local_layers": 0},
        {"local_layers": 1, "global_layers": 3},
    ],
)
@pytest.mark.parametrize("variant", ["sit", "sit-star"])
def test_sit_is_invariant_to_rotations_but_not_to_flips(variant: Any, options: Any) -> None:
    encoder = random_weights(SiT(variant=variant, **options))
    image = random_image()
    reference, *turned = features(encoder, *(image.rot90(k) for k in range(4)))
    for values in turned:
        assert change(values, reference) < EXACT
    for values in features(encoder, image.flip(0), image.flip(1), image.transpose(0, 1)):
        assert change(values, reference) > BROKEN


@pytest.mark.parametrize(("kind", "exact"), [(torch.float32, EXACT), (torch.float64, 1e-14)])
@pytest.mark.parametrize("variant", ["sit", "sit-star"])
def test_rotations_change_a_larger_image_by_rounding_alone(
    variant: Any, kind: torch.dtype, exact: float
) -> None:
    encoder = random_weights(SiT(64, 64, variant=variant)).to(kind)
    image = random_image(64, 64)
    reference, turned, opposite, flipped = features(
        encoder, image, image.rot90(1), image.rot90(2), image.flip(1)
    )
    assert change(turned, reference) < exact
    assert change(opposite, reference) < exact
    assert change(flipped, reference) > 100.0 * exact


def test_without_triangles_sit_is_invariant_to_flips() -> None:
    encoder = random_weights(SiT())
    for layer in (*encoder.local_layers, *encoder.global_layers):
        layer.attention.triangles = nn.ModuleList()
    image = random_image()
    reference, *flipped = features(encoder, image, image.flip(0), image.flip(1))
    for values in flipped:
        assert change(values, reference) < EXACT


def test_triangles_of_the_last_layer_do_not_reach_the_token() -> None:
    encoder = random_weights(SiT())
    for layer in encoder.local_layers:
        layer.attention.triangles = nn.ModuleList()
    image = random_image()
    reference, flipped = features(encoder, image, image.flip(1))
    assert change(flipped, reference) > BROKEN
    encoder.global_layers = encoder.global_layers[:1]
    reference, flipped = features(encoder, image, image.flip(1))
    assert change(flipped, reference) < EXACT


@pytest.mark.parametrize("variant", ["set", "siet"])
def test_the_map_of_set_and_siet_turns_with_the_image(variant: Any) -> None:
    encoder = random_weights(SiT(variant=variant))
    image = random_image()
    vectors = features(encoder, *(image.rot90(k) for k in range(4)), image.flip(1))
    token, grid = vectors[:, :-64], vectors[:, -64:].unflatten(1, (4, 4, 4))
    assert token.shape[1] == {"set": 0, "siet": 64}[variant]
    for k in range(1, 4):
        assert change(grid[k], grid[0].rot90(k)) < EXACT
        assert change(grid[k], grid[0]) > BROKEN
        assert not token.numel() or change(token[k], token[0]) < EXACT
    assert change(grid[4], grid[0].flip(1)) > BROKEN  # lifted windows see flips


@pytest.mark.parametrize("variant", VARIANTS)
def test_local_rotations_change_the_output_softly(variant: Any) -> None:
    encoder = random_weights(SiT(variant=variant))
    image = random_image()
    turned = image.clone()
    turned[8:16, 8:16] = image[8:16, 8:16].rot90(1)
    reference, local, other = features(encoder, image, turned, random_image(seed=9))
    assert BROKEN < change(local, reference) < change(other, reference)


def shuffled(image: Tensor) -> Tensor:
    """8 x 8 patches in a shuffled order."""
    order = torch.randperm(16, generator=torch.Generator().manual_seed(4))
    patches = image.reshape(4, 8, 4, 8, 3).transpose(1, 2).flatten(0, 1)[order]
    return patches.unflatten(0, (4, 4)).transpose(1, 2).reshape(32, 32, 3)


def test_the_order_of_patches_matters() -> None:
    encoder, image = random_weights(SiT()), random_image()
    reference, values = features(encoder, image, shuffled(image))
    assert change(values, reference) > 1e-3


def test_identity_graph_matrices_make_sit_permutation_invariant() -> None:
    encoder, image = random_weights(SiT(graph="flips", matrices="qkv")), random_image()
    for module in encoder.modules():
        if isinstance(module, GraphMatrix):
            loop = module.labels[module.reach, module.reach]
            with torch.no_grad():
                module.weights.zero_()[:, loop] = 1.0
    reference, values = features(encoder, image, shuffled(image))
    assert change(values, reference) < EXACT


@pytest.mark.parametrize("graph", ["flip", "flips"])
@pytest.mark.parametrize("variant", ["sit", "set", "siet"])
@pytest.mark.parametrize("width", [24, 64])  # an odd and an even number of columns
def test_mirror_graphs_split_features_into_even_and_odd(
    variant: Any, graph: Graph, width: int
) -> None:
    encoder = random_weights(SiT(32, width, variant=variant, graph=graph))
    image = random_image(32, width)
    vectors = features(encoder, image, image.flip(1), image.flip(0))
    assert vectors.shape[1] == encoder.features
    even, odd = vectors.split([encoder.features - encoder.odd, encoder.odd], 1)
    assert encoder.odd == (0 if variant == "sit" else 4 * 4 * (width // 16))
    assert change(even[1], even[0]) < EXACT
    if encoder.odd:
        assert float(odd[0].norm()) > 1e-3 * float(even[0].norm())
        assert change(odd[1], -odd[0]) < 10 * EXACT
    if (variant, graph) != ("sit", "flips"):
        assert change(vectors[2], vectors[0]) > BROKEN


def test_dropout_of_shared_weights_keeps_the_symmetry() -> None:
    encoder, image = random_weights(SiT(matrices="qkvg", dropout=0.3)), random_image()
    reference = features(encoder, image)[0]
    encoder.train()
    values, turned = encoder(torch.stack([image, image.rot90(1)]))[0].detach()
    assert change(turned, values) < EXACT
    assert change(values, reference) > 0.01


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_turns_with_the_image(variant: Any) -> None:
    encoder, image = random_weights(SiT(variant=variant)), random_image()
    attention, turned = encoder(torch.stack([image, image.rot90(1)]))[1].detach()
    assert attention.shape == (4, 4)
    assert float(attention.max()) == 1.0
    assert float(attention.std()) > 1e-3
    assert change(turned, attention.rot90(1)) < 5 * EXACT


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_vit_takes_any_image_and_sees_where_patches_are(channels: int) -> None:
    encoder = random_weights(ViT(32, 48, channels))
    image = random_image(32, 48, channels)
    swapped = image.roll(16, 0)  # the same patches elsewhere
    vectors = features(encoder, image, swapped)
    assert vectors.shape == (2, encoder.features)
    assert encoder(image[None])[1].shape == (1, 4, 6)
    assert change(vectors[1], vectors[0]) > 1e-3
    assert features(SiT(32, 32, channels), random_image(channels=channels)).shape == (1, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 64}, "larger than the image"),
        ({"patch": 12}, "not a multiple of patch 12"),
        ({"patch": 2}, "even and at least 4"),
        ({"width": 64}, "needs a square image"),
        ({"channels": 2}, "2 channels"),
        ({"heads": 7}, "not a multiple of 7 heads"),
        ({"dropout": 1.0}, "dropout is 1.0, expected at least 0 and below 1"),
        ({"graph": "shear"}, "unknown graph 'shear'"),
        ({"variant": "sat"}, "unknown variant 'sat'"),
        ({"matrices": "qz"}, "graph matrices 'qz'"),
        ({"variant": "sit-star", "graph": "flip"}, "needs graph 'rotation'"),
    ],
)
def test_sit_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SiT(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 64}, "larger than the image"),
        ({"patch": 12}, "not a multiple"),
        ({"channels": 2}, "2 channels"),
        ({"heads": 7}, "heads"),
        ({"heads": 0}, "heads is 0, expected at least 1"),
        ({"patch": 0}, "patch is 0, expected at least 1"),
        ({"layers": 0}, "layers is 0, expected at least 1"),
        ({"mlp_ratio": -1}, "mlp_ratio is -1"),
    ],
)
def test_vit_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ViT(**options)
