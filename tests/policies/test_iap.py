"""IAP: random features against theory (arXiv 2102.04353), selection, ties, refusals.

Figures of errors are closed forms of Theorem 4.1, checked against Monte Carlo with 3e6 draws.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pixelgait.policies.encoder_registry import ENCODERS
from pixelgait.policies.encoders.iap import brute_force, kernels
from pixelgait.policies.encoders.iap.brute_force import BruteForceEncoder
from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.encoders.iap.kernels import (
    KERNELS,
    RANDOM_KERNELS,
    SoftmaxKernel,
    orthogonal_gaussian,
)
from pixelgait.policies.encoders.iap.ordered import Projection, ordered_sum
from pixelgait.policies.encoders.selection import first_best
from pixelgait.policies.high_level import HighLevelNetwork
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS

SELECTORS = tuple(name for name in ENCODERS if name.startswith(("iap", "brute")))
DRAWS, AT_ONCE = 100_000, 500
FIRST_OMEGA = (0.073434, -0.181379, 0.648195, -1.287572)  # of seed 0, d = 4


@pytest.fixture(scope="module")
def draws() -> tuple[torch.Tensor, torch.Tensor]:
    """Independent omega (N, 10, 2) and xi (N, 5, 2), for which the theorem holds."""
    generator = torch.Generator().manual_seed(0)
    normal = {"generator": generator, "dtype": torch.float64}
    return torch.randn(DRAWS, 10, 2, **normal), torch.randn(DRAWS, 5, 2, **normal)


def pair(angle: float, x: float, y: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two vectors of given lengths in the plane; angle in units of pi."""
    turn = torch.tensor([math.cos(angle * math.pi), math.sin(angle * math.pi)])
    return x * torch.tensor([1.0, 0.0]).double(), y * turn.double()


def make_kernel(name: str, omega: torch.Tensor, xi: torch.Tensor) -> SoftmaxKernel:
    """A kernel with given random vectors, one set for every item of the batch."""
    m, dim = omega.shape[-2:]
    kernel = SoftmaxKernel(name, dim, m, xi.shape[-2]).double()
    kernel.omega = omega
    kernel.xi = xi if name == "hybrid" else kernel.xi
    return kernel


@torch.no_grad()
def estimates(kernel: SoftmaxKernel, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """Estimates (N,) of exp(x^T y), one for each set of random vectors."""
    omega, xi = kernel.omega, kernel.xi
    if len(omega) > AT_ONCE and omega.ndim == 3:  # a few at a time stay in the caches
        parts = []
        for start in range(0, len(omega), AT_ONCE):
            kernel.omega = omega[start : start + AT_ONCE]
            kernel.xi = xi[start : start + AT_ONCE] if xi.ndim == 3 else xi
            parts.append(estimates(kernel, x, y))
        return np.concatenate(parts)
    sides = []
    for vector in (x, y):  # the only "patch" is the number 1, so W is the vector
        projection = Projection(1, len(vector)).double()
        projection.weight[:] = vector[:, None] * len(vector) ** 0.25  # undone by eq. 4
        projection.bias[:] = 0.0
        sides.append(kernel.features(torch.ones(1, 1, 1).double(), projection))
    exponent = (sides[0].exponent + sides[1].exponent).flatten()
    return (kernel.importance(*sides).flatten() * torch.exp(exponent)).numpy()


def errors(angle: float, x: float, y: float, m: int, r: int) -> dict[str, float]:
    """Mean squared errors by Theorem 4.1; angle in units of pi."""
    cosine = math.cos(angle * math.pi)
    squared = math.exp(2.0 * x * y * cosine)  # SM^2
    total, apart = (x * x + y * y + sign * 2.0 * x * y * cosine for sign in (1.0, -1.0))
    trig = math.exp(total) / squared * (1.0 - math.exp(-apart)) ** 2 / (2.0 * m)
    favor = math.exp(total) * squared * (1.0 - math.exp(-total)) / m
    shared = 2.0 * (1.0 - 1.0 / r) / m * squared * (1.0 - math.cos(x * x - y * y))
    hybrid = angle**2 * favor + (1.0 - angle) ** 2 * trig
    hybrid += angle * (1.0 - angle) * ((favor + trig) / r - shared)
    return {"favor": favor, "trig": trig, "hybrid": hybrid}


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("point", "published"),  # angle / pi, |x|, |y|, m, r; trig, favor, hybrid
    [
        pytest.param((1 / 6, 0.5, 0.5, 10, 5), (3.46077e-4, 0.237784, 0.0134602), marks=LONG),
        pytest.param(
            (1 / 3, 0.5, 0.5, 4, 1), (0.0100838, 0.358564, 0.126244), marks=pytest.mark.slow
        ),
        pytest.param((1 / 2, 0.7, 0.7, 10, 5), (0.0519884, 0.166446, 0.0655302), marks=LONG),
        pytest.param((2 / 3, 0.6, 1.0, 10, 5), (0.143794, 0.0624699, 0.0490470), marks=LONG),
        pytest.param((5 / 6, 1.0, 1.0, 10, 5), (0.351972, 0.00543645, 0.0234804), marks=LONG),
    ],
)
def test_estimators_are_unbiased_with_the_error_of_the_theorem(
    draws: tuple[torch.Tensor, torch.Tensor],
    point: tuple[float, float, float, int, int],
    published: tuple[float, float, float],
) -> None:
    angle, x, y, m, r = point
    omega, xi = draws[0][:, :m], draws[1][:, :r]
    truth = math.exp(x * y * math.cos(angle * math.pi))
    theorem = errors(*point)
    for name, expected in zip(("trig", "favor", "hybrid"), published, strict=True):
        assert theorem[name] == pytest.approx(expected, rel=1e-5)
        values = estimates(make_kernel(name, omega, xi), *pair(angle, x, y))
        assert abs(values.mean() - truth) <= 4.0 * math.sqrt(expected / DRAWS), name
        assert np.mean((values - truth) ** 2) == pytest.approx(expected, rel=0.05), name


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("same_length", [False, True])
def test_the_hybrid_estimator_is_exact_at_angles_0_and_pi(dim: int, same_length: bool) -> None:
    vector = torch.randn(dim, generator=torch.Generator().manual_seed(dim)).double()
    vector /= vector.norm()
    squared = math.sqrt(dim) if same_length else 1.0  # |z|^2 by eq. 5 and 4
    for seed in range(5):
        kernel = SoftmaxKernel("hybrid", dim, same_length=same_length, seed=seed).double()
        for sign in (1.0, -1.0):
            estimate = estimates(kernel, vector, sign * vector)
            assert estimate == pytest.approx(math.exp(sign * squared), rel=1e-5)


@pytest.mark.parametrize("dim", [4, 8])
def test_orthogonal_vectors_are_gaussian_one_by_one(dim: int) -> None:
    """QR without sign correction: mean -0.8, and the estimator 25 % too high or too low."""
    generator = np.random.default_rng(0)
    omega = np.stack([orthogonal_gaussian(dim, dim, generator) for _ in range(20_000)])
    assert abs(omega[:, 0, 0].mean()) < 0.03
    assert omega.var(0) == pytest.approx(1.0, abs=0.06)
    products = omega @ omega.transpose(0, 2, 1)
    assert np.abs(products[:, ~np.eye(dim, dtype=bool)]).max() < 1e-12
    x = torch.full((dim,), 0.7 / math.sqrt(dim)).double()
    for sign in (1.0, -1.0):
        kernel = make_kernel("favor", torch.tensor(omega), torch.empty(0, dim))
        mean = estimates(kernel, sign * x, sign * x).mean()
        assert mean == pytest.approx(math.exp(0.49), rel=0.03)


def test_orthogonal_vectors_make_the_error_smaller() -> None:
    """Than the closed form for independent ones; at moderate lengths, where errors have a mean."""
    generator = np.random.default_rng(0)
    omega = np.stack([orthogonal_gaussian(8, 8, generator) for _ in range(20_000)])
    x = torch.full((8,), 0.5 / math.sqrt(8)).double()
    values = estimates(make_kernel("favor", torch.tensor(omega), torch.empty(0, 8)), x, x)
    ratio = np.mean((values - math.exp(0.25)) ** 2) / errors(0.0, 0.5, 0.5, 8, 1)["favor"]
    assert 0.5 < ratio < 0.95


def test_random_vectors_are_the_same_everywhere_and_no_weights() -> None:
    kernel = IAPEncoder(kernel="hybrid", dim=4, m=6, r=3).kernel
    assert not kernel.state_dict()
    assert kernel.omega.shape == (6, 4)
    np.testing.assert_allclose(kernel.omega[0], FIRST_OMEGA, atol=1e-5)
    other = IAPEncoder(kernel="hybrid", dim=4, m=6, r=3, seed=1).kernel
    assert not torch.equal(kernel.omega, other.omega)


def features_by_definition(
    u: np.ndarray, kernel: SoftmaxKernel, kind: str, same_length: bool, sign: float
) -> np.ndarray:
    """Features (L, n) by eq. 4 to 9 of vectors u (L, d); `sign` is that of beta in eq. 9."""
    dim = u.shape[1]
    lengths = np.linalg.norm(u, axis=1, keepdims=True)
    z = dim**0.25 * u / lengths if same_length else dim**-0.25 * u
    omega, xi = (buffer.double().numpy() for buffer in (kernel.omega, kernel.xi))
    half = (z**2).sum(1, keepdims=True) / 2.0
    favor = np.exp(-half + z @ omega.T) / math.sqrt(len(omega))
    waves = np.hstack([np.sin(z @ omega.T), np.cos(z @ omega.T)])
    trig = np.exp(half) * waves / math.sqrt(len(omega))
    if kind != "hybrid":
        return favor if kind == "favor" else trig
    signs = np.sign(z @ xi.T) / math.sqrt(len(xi))
    composite = [sign * favor[:, :, None] * signs[:, None], trig[:, :, None] * signs[:, None]]
    parts = [trig, favor, *(part.reshape(len(u), -1) for part in composite)]
    return np.hstack(parts) / math.sqrt(2.0)


@pytest.mark.parametrize("kind", RANDOM_KERNELS)
@pytest.mark.parametrize("same_length", [False, True])
@pytest.mark.parametrize(("side", "patch"), [(16, 1), (16, 4), (32, 1)])  # W folded into, and not
def test_scores_are_those_of_the_features_of_the_paper(
    kind: str, same_length: bool, side: int, patch: int
) -> None:
    """And so is the choice, though one exponent for all patches keeps features from overflowing."""
    torch.manual_seed(4)
    encoder = IAPEncoder(side, side, patch=patch, kernel=kind, same_length=same_length, selected=10)
    images = noise(side, side, 3)
    x = encoder.columns_of(images)[0, :, : encoder.count].double()
    with torch.no_grad():
        q, k = (
            (layer.weight.double() @ x + layer.bias.double()[:, None]).T.numpy()
            for layer in (encoder.query, encoder.key)
        )
        scores = encoder.scores(images)[0].double().numpy()
    queries = features_by_definition(q, encoder.kernel, kind, same_length, 1.0)
    keys = features_by_definition(k, encoder.kernel, kind, same_length, -1.0)
    expected = (queries @ keys.T).sum(0)  # by the whole matrix
    largest = np.abs(expected).argmax()
    scores *= expected[largest] / scores[largest]
    np.testing.assert_allclose(scores, expected, atol=1e-5 * abs(expected[largest]))
    assert expected[largest] * scores[largest] > 0.0
    assert set(np.argsort(-scores)[:10]) == set(np.argsort(-expected)[:10])


def test_selection_is_that_of_brute_force_where_features_are_exact() -> None:
    """Queries and keys on one line, of one length: every angle is 0 or pi."""
    encoder = IAPEncoder(16, 16, channels=1, selected=40, kernel="hybrid")
    line = torch.randn(8, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        for layer in (encoder.query, encoder.key):
            layer.weight[:], layer.bias[:] = 2.0 * line[:, None], -line
    image = 255 * (noise(16, 16, 1) > 180).to(torch.uint8)
    sides = np.where(image.flatten() > 0, 1.0, -1.0)
    attention = np.exp(np.outer(sides, sides) * float(line @ line) / math.sqrt(8))
    best = np.argsort(-attention.sum(0), kind="stable")[:40]
    centres = encoder(image)[0].reshape(40, 2)
    torch.testing.assert_close(centres, encoder.centres[best])


def test_brute_force_is_softmax_attention_summed_over_queries(monkeypatch) -> None:  # noqa: ANN001
    torch.manual_seed(6)
    encoder = BruteForceEncoder(15, 17, patch=3, stride=2, selected=9)
    images = noise(15, 17, 3)
    x = encoder.columns_of(images)[0, :, : encoder.count]
    with torch.no_grad():
        logits = (encoder.query(x[None])[0].T @ encoder.key(x[None])[0] / math.sqrt(8)).double()
        expected = torch.softmax(logits, 1).sum(0).float()
        torch.testing.assert_close(encoder.scores(images)[0], expected)
        monkeypatch.setattr(brute_force, "LARGEST_BLOCK", 5 * len(expected))
        torch.testing.assert_close(encoder.scores(images)[0], expected)


def test_tiles_of_large_images_do_not_change_scores(monkeypatch) -> None:  # noqa: ANN001
    torch.manual_seed(9)
    encoder = IAPEncoder(16, 16)
    image = noise(16, 16, 3)
    expected = encoder.scores(image)
    monkeypatch.setattr(kernels, "TILE", 100)  # of 256 patches
    torch.testing.assert_close(encoder.scores(image), expected)


def noise(height: int, width: int, channels: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (1, height, width, channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize(
    ("height", "width", "patch", "stride"),
    [(19, 23, 1, 1), (19, 23, 3, 2), (19, 23, 5, 3), (17, 17, 3, 2)],  # the last: 64 patches
)
def test_equal_patches_are_equally_important_and_taken_in_reading_order(
    name: str, height: int, width: int, patch: int, stride: int
) -> None:
    torch.manual_seed(7)
    encoder = ENCODERS[name](height=height, width=width, patch=patch, stride=stride, selected=12)
    image = noise(1, 1, 3).expand(1, height, width, 3).clone()
    flat = encoder(image)[1].flatten().nonzero().flatten()
    assert flat.tolist() == list(range(12))
    image[:, 11:] = torch.tensor([200, 30, 90])
    scores = encoder.scores(image).detach()[0].numpy()
    columns = encoder.columns_of(image)[0, :, : encoder.count].numpy()
    colours = len(np.unique(columns, axis=1).T)
    assert len(np.unique(scores)) <= colours
    centres = encoder(image)[0].detach().reshape(12, 2)
    best = np.argsort(-scores, kind="stable")[:12]
    torch.testing.assert_close(centres, encoder.centres[best])


def weighted_and_not(kind: str, patch: int, stride: int) -> tuple[IAPEncoder, IAPEncoder]:
    """With an r (eq. 1) that is 1 so far, and without one."""
    encoders, angle = [], {"r": 3} if kind == "hybrid" else {}
    for weighted in (True, False):
        torch.manual_seed(3)
        encoders.append(
            IAPEncoder(
                *(19, 23, 3, patch, stride), selected=12, kernel=kind, weighted=weighted, **angle
            )
        )
    return encoders[0], encoders[1]


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (3, 2)])
@torch.no_grad()
def test_r_weighs_the_queries_of_the_attention_matrix(
    kind: str,
    patch: int,
    stride: int,
    monkeypatch,  # noqa: ANN001
) -> None:
    monkeypatch.setattr(kernels, "TILE", 128)  # of 437 patches, or 99
    encoder, plain = weighted_and_not(kind, patch, stride)
    image = noise(19, 23, 3)
    torch.testing.assert_close(encoder.scores(image), plain.scores(image), rtol=0, atol=0)
    encoder.weights.normal_()
    x = encoder.columns_of(image)[0, :, : encoder.count].double()
    sides = []
    for layer, sign in ((encoder.query, 1.0), (encoder.key, -1.0)):
        u = (layer.weight.double() @ x + layer.bias.double()[:, None]).T.numpy()
        sides.append(
            np.maximum(u, 0.0) + kernels.RELU_EPSILON
            if kind == "relu"
            else features_by_definition(u, encoder.kernel, kind, False, sign)
        )
    expected = encoder.weights.double().numpy() @ (sides[0] @ sides[1].T)
    scores = encoder.scores(image)[0].double().numpy()
    largest = np.abs(expected).argmax()
    scores *= expected[largest] / scores[largest]
    np.testing.assert_allclose(scores, expected, atol=2e-5 * abs(expected[largest]))


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (3, 2)])
@torch.no_grad()
def test_with_r_equal_patches_are_equally_important_too(kind: str, patch: int, stride: int) -> None:
    encoder, _ = weighted_and_not(kind, patch, stride)
    encoder.weights.normal_()
    image = noise(1, 1, 3).expand(1, 19, 23, 3).clone()
    assert encoder(image)[1].flatten().nonzero().flatten().tolist() == list(range(12))
    image[:, 11:] = torch.tensor([200, 30, 90])
    columns = encoder.columns_of(image)[0, :, : encoder.count]
    assert len(encoder.scores(image)[0].unique()) <= len(columns.T.unique(dim=0))


def test_ordered_sums_are_sums() -> None:
    for count in (1, 2, 8, 9, 27, 192):
        terms = torch.randn(3, count, 5, dtype=torch.float64)
        torch.testing.assert_close(ordered_sum(terms, 1), terms.sum(1))


@pytest.mark.parametrize("kind", RANDOM_KERNELS)
@pytest.mark.parametrize("size", [1e-3, 30.0])
def test_scores_neither_overflow_nor_vanish(kind: str, size: float) -> None:
    torch.manual_seed(8)
    encoder = IAPEncoder(16, 16, kernel=kind)
    torch.nn.init.normal_(encoder.query.weight, std=size)
    torch.nn.init.normal_(encoder.key.weight, std=size)
    scores = encoder.scores(noise(16, 16, 3))
    assert torch.isfinite(scores).all()
    assert scores.abs().max() > 1e-30


@pytest.mark.parametrize("name", SELECTORS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_depth_rgb_and_rgbd_with_centres_and_learned_values(name: str, channels: int) -> None:
    assert sum(p.numel() for p in HighLevelNetwork(name).parameters()) + LOW_LEVEL_WEIGHTS == 1786
    image = noise(12, 14, channels)
    for values, length in ((0, 10), (3, 15)):
        encoder = ENCODERS[name](
            height=12, width=14, channels=channels, patch=4, stride=2, selected=5, values=values
        )
        features, attention = encoder(image)
        assert features.shape == (1, length) == (1, encoder.features)
        assert attention.shape == (1, 5, 6)
        if values:
            best = encoder.scores(image)[0].argmax()
            first = encoder.value(encoder.columns_of(image)[0, :, best])
            torch.testing.assert_close(features[0, :values], first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, "unknown kernel 'rbf', choose from relu, favor, trig, hybrid"),
        ({"kernel": "hybrid", "m": 0}, "m is 0, expected at least 1"),
        ({"kernel": "hybrid", "r": -1}, "r is -1, expected at least 1"),
        ({"same_length": True}, "kernel 'relu' does not scale"),
        ({"m": 20}, "kernel 'relu' has no m, which is 20"),
        ({"seed": 1}, "kernel 'relu' has no seed, which is 1"),
        ({"kernel": "favor", "r": 3}, "kernel 'favor' has no r, which is 3"),
        ({"stride": 0}, "stride is 0, expected at least 1"),
        ({"patch": 33}, "patch 33 is larger than the image"),
        ({"selected": 1025}, "selected 1025 exceeds the 1024 patches"),
        ({"values": -1}, "values is -1, expected at least 0"),
        ({"sparse": True}, "placed, gated and sparse have no effect with values 0"),
        (
            {"values": 2, "sparse": True, "gated": True},
            "placed and gated have no effect with sparse",
        ),
        ({"values": 2, "straight": True}, "straight has no effect with values 2"),
        ({"straight": True, "kernel": "trig"}, "kernel 'trig' is not for straight"),
        (
            {"values": 2, "sparse": True, "selected": 1024},
            "selected 1024 exceeds the 1023 others of the image",
        ),
        ({"stem": -1}, "stem is -1, expected at least 0"),
        ({"stem": 8, "height": 34}, "image 34 x 32: sides must be multiples of 4"),
        ({"stem": 8, "patch": 9}, r"patch 9 is larger than the map \(8 x 8\)"),
    ],
)
def test_impossible_configurations_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IAPEncoder(**options)
    with pytest.raises(ValueError, match=r"image is \(8, 8, 3\), expected \(32, 32, 3\)"):
        IAPEncoder()(noise(8, 8, 3))


def test_gated_values_have_a_gradient_down_to_the_selection() -> None:
    image = noise(16, 16, 1)
    for gated in (False, True):
        encoder = IAPEncoder(
            16, 16, 1, patch=4, stride=4, selected=3, values=2, gated=gated, weighted=True
        )
        encoder(image)[0].square().sum().backward()
        gradients = [encoder.query.weight.grad, encoder.key.weight.grad, encoder.weights.grad]
        assert all((g is not None and bool(g.any())) == gated for g in gradients)


SPARSE = {"patch": 4, "stride": 4, "selected": 3, "values": 2, "sparse": True}


def test_sparse_values_are_in_their_places_and_fade_before_they_leave() -> None:
    """Weights are importance above that of the best patch left out, in units of the mean."""
    torch.manual_seed(0)
    encoder = IAPEncoder(16, 16, 1, **SPARSE)
    image = noise(16, 16, 1)
    features, attention = encoder(image)
    shares = encoder.scores(image)[0] / encoder.scores(image).mean()
    order = shares.argsort(descending=True)
    expected = (shares - shares[order[3]]).clamp(min=0.0)
    assert (expected > 0.0).sum() == 3
    torch.testing.assert_close(attention.flatten(), expected)
    values = encoder.value(encoder.columns_of(image)[0, :, :16].T)
    torch.testing.assert_close(features.reshape(16, 2), values * expected[:, None])


def test_sparse_values_do_not_jump_where_patches_change_ranks() -> None:
    """A patch that becomes the third best passes from weight 0; a ranked one takes the others'."""
    torch.manual_seed(0)
    sparse = IAPEncoder(16, 16, 1, **SPARSE)
    ranked = IAPEncoder(16, 16, 1, **(SPARSE | {"sparse": False, "gated": True}))
    ranked.load_state_dict(sparse.state_dict())
    scores = sparse.scores(noise(16, 16, 1))
    order = scores.argsort(descending=True)[0]
    x = sparse.columns_of(noise(16, 16, 1))
    jumps = {"sparse": 0.0, "ranked": 0.0}
    for first, second in ((1, 2), (2, 3)):  # within the selection, and at its edge
        one, other = scores.clone(), scores.clone()
        middle = (scores[0, order[first]] + scores[0, order[second]]) / 2.0
        for at, sign in ((one, 1.0), (other, -1.0)):
            at[0, order[first]], at[0, order[second]] = middle + sign * 1e-6, middle - sign * 1e-6
        kept = [sparse._in_place(x, at)[0] for at in (one, other)]
        listed = [ranked._ranked(x, at, first_best(at, 3)) for at in (one, other)]
        for name, (before, after) in (("sparse", kept), ("ranked", listed)):
            jumps[name] = max(jumps[name], float((before - after).detach().abs().max()))
    assert jumps["sparse"] < 1e-5
    assert jumps["ranked"] > 1e-2


def test_sparse_values_have_a_gradient_down_to_the_stem() -> None:
    encoder = IAPEncoder(16, 16, 3, selected=3, values=2, sparse=True, stem=8)
    encoder(noise(16, 16, 3))[0].square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())


def test_straight_through_the_papers_selection_goes_a_gradient() -> None:
    """The forward pass is the paper's; a step along the gradient moves the selected patches."""
    options = {"patch": 4, "stride": 4, "selected": 5}
    straight = IAPEncoder(32, 32, 3, straight=True, **options)
    paper = IAPEncoder(32, 32, 3, **options)
    paper.load_state_dict(straight.state_dict())
    torch.manual_seed(0)
    images = torch.cat([noise(32, 32, 3, seed) for seed in range(8)])
    torch.testing.assert_close(straight(images)[0], paper(images)[0])
    assert not paper(images)[0].requires_grad
    optimiser = torch.optim.SGD(straight.parameters(), lr=0.3)
    columns = []
    for _ in range(60):
        columns.append(straight(images)[0][:, 1::2].mean())
        optimiser.zero_grad()
        columns[-1].backward()
        optimiser.step()
    assert columns[-1] < columns[0] - 0.05  # further left


def test_of_a_flat_wall_patches_are_taken_from_everywhere() -> None:
    """A fixed shuffled order breaks ties; the paper's order comes from the top."""
    wall = torch.full((1, 32, 32, 3), 90, dtype=torch.uint8)
    for straight, highest in ((True, 0.5), (False, -0.7)):
        encoder = IAPEncoder(32, 32, 3, patch=4, stride=2, selected=28, straight=straight)
        rows = encoder(wall)[0][0, ::2]
        assert (rows.max() > highest) == straight
        torch.testing.assert_close(encoder(wall)[0], encoder(wall)[0], rtol=0.0, atol=0.0)


def test_a_flat_image_has_equally_important_patches() -> None:
    encoder = IAPEncoder(16, 16, 1, **SPARSE)
    features, attention = encoder(torch.full((1, 16, 16, 1), 90, dtype=torch.uint8))
    assert not features.any()
    assert not attention.any()


def test_patches_of_a_stem_are_cut_from_a_map_of_a_quarter_of_the_size() -> None:
    encoder = IAPEncoder(32, 48, 4, patch=2, stride=2, selected=5, values=3, sparse=True, stem=8)
    features, attention = encoder(noise(32, 48, 4))
    assert attention.shape == (1, 4, 6)
    assert features.shape == (1, 4 * 6 * 3) == (1, encoder.features)


def test_a_stem_sees_no_light_but_metres() -> None:
    """Colours are standardised, depth is not."""
    torch.manual_seed(0)
    encoder = IAPEncoder(32, 32, 4, selected=16, values=4, sparse=True, stem=16)
    image = torch.randint(0, 120, (1, 32, 32, 4), dtype=torch.uint8)
    tinted = (image * torch.tensor([2, 1, 1, 1]) + torch.tensor([0, 100, 7, 0])).to(torch.uint8)
    farther = image + torch.tensor([0, 0, 0, 100], dtype=torch.uint8)
    features, same, other = (encoder(each)[0] for each in (image, tinted, farther))
    assert (features - same).abs().max() < 0.1 * (features - other).abs().max()


def test_places_stand_beside_values() -> None:
    options = {"patch": 4, "stride": 4, "selected": 3, "values": 2}
    plain, placed = (IAPEncoder(16, 16, 1, **options, placed=on) for on in (False, True))
    placed.load_state_dict(plain.state_dict())
    image = torch.randint(0, 256, (5, 16, 16, 1), dtype=torch.uint8)
    values, attention = plain(image)
    both, _ = placed(image)
    rows = both.unflatten(1, (3, 4))
    assert torch.equal(rows[..., :2].flatten(1), values)
    where = placed.centres[attention.flatten(1).nonzero()[:, 1].reshape(5, 3)]
    assert torch.equal(rows[..., 2:].sort(1).values, where.sort(1).values)
    with pytest.raises(ValueError, match="no effect with values 0"):
        IAPEncoder(16, 16, 1, placed=True)


@pytest.mark.parametrize("channels", [1, 3])
def test_many_images_select_the_same_patches_as_one(channels: int) -> None:
    """Blocks of one colour tie, which the first patch wins, in the mirror too."""
    rng, encoder = np.random.default_rng(0), IAPEncoder(24, 32, channels, selected=40)
    blocks = rng.integers(0, 256, (20, 6, 8, channels)).astype(np.uint8)
    images = blocks.repeat(4, axis=1).repeat(4, axis=2)
    images[::2] = rng.integers(0, 256, images[::2].shape)
    found = encoder.features_of_many(images, mirror=True)
    assert found is not None
    for features, seen in zip(found, (images, images[:, :, ::-1].copy()), strict=True):
        with torch.no_grad():
            wanted = encoder(torch.from_numpy(seen))[0]
        # All here; other libraries round other scores, which may part two that are almost equal.
        assert (features == wanted).float().mean() > 0.99


@pytest.mark.parametrize(
    "options", [{"values": 2}, {"kernel": "favor"}, {"patch": 3}, {"weighted": True}, {"stem": 4}]
)
def test_options_without_machine_code_are_left_to_torch(options: dict[str, object]) -> None:
    encoder = IAPEncoder(selected=8, **options)
    assert encoder.features_of_many(np.zeros((1, 32, 32, 3), np.uint8), mirror=False) is None
