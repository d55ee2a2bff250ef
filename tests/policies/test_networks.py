"""The networks: parameter totals of the paper, attention against its definition, selection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pixelgait.policies.encoder_registry import ENCODERS
from pixelgait.policies.encoders.cnn import CNNEncoder
from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.encoders.iap.kernels import RELU_EPSILON
from pixelgait.policies.encoders.iap.patches import patches
from pixelgait.policies.encoders.strided import StridedEncoder
from pixelgait.policies.high_level import (
    MIRRORED,
    Architecture,
    HighLevelNetwork,
    flat_weights,
    make_high_level,
)
from pixelgait.policies.training.dagger import first_students
from pixelgait.policies.training.demonstrations import Demonstrations, Frames
from pixelgait.policies.training.fitting import (
    LOSS_WEIGHTS,
    SHORT,
    Lessons,
    find_device,
    fit,
    half_mirrored,
    has_gradient,
    recoloured,
    turn_error,
)
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.errors import UserError

NO_GRADIENT = ("iap", "iap-favor", "iap-trig", "iap-hybrid", "brute-force", "attention-agent")


@pytest.mark.parametrize(("encoder", "total"), [("iap", 1786), ("cnn", 14954)])
def test_totals_are_those_of_the_paper(encoder: str, total: int) -> None:
    high_level = sum(p.numel() for p in HighLevelNetwork(encoder).parameters())
    assert LOW_LEVEL_WEIGHTS == 399
    assert high_level + LOW_LEVEL_WEIGHTS == total


def random_images(size: int, count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (4, 2), (4, 4), (8, 8)])
def test_scores_equal_the_explicit_attention_matrix(patch: int, stride: int) -> None:
    encoder = IAPEncoder(16, 16, patch=patch, stride=stride, selected=2)
    images = random_images(16)
    x = patches(images.float() / 255.0, patch, stride)
    assert x.shape == (3, encoder.rows * encoder.columns, patch * patch * 3)
    q = torch.relu(x @ encoder.query.weight.T + encoder.query.bias) + RELU_EPSILON
    k = torch.relu(x @ encoder.key.weight.T + encoder.key.bias) + RELU_EPSILON
    attention = q @ k.transpose(1, 2)  # (B, L, L), A_ij: query i, key j
    expected = attention.sum(1)  # r^T A with r = 1
    torch.testing.assert_close(encoder.scores(images), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("patch", "stride"), [(1, 1), (4, 2), (3, 3), (3, 5)])
def test_a_patch_holds_its_rows_columns_and_channels(patch: int, stride: int) -> None:
    images = random_images(17)
    starts = range(0, 17 - patch + 1, stride)
    expected = [
        images[:, row : row + patch, column : column + patch].flatten(1)
        for row in starts
        for column in starts
    ]
    assert torch.equal(patches(images, patch, stride), torch.stack(expected, 1))


def test_positions_are_the_best_patches_first() -> None:
    torch.manual_seed(1)
    encoder = IAPEncoder(selected=5)
    images = random_images(32, count=1)
    features, attention = encoder(images)
    scores = encoder.scores(images)[0].detach().numpy()
    best = np.argsort(-scores, kind="stable")[:5]
    rows, columns = best // 32, best % 32
    expected = np.stack([rows, columns], 1) / 15.5 - 1.0
    np.testing.assert_allclose(features.reshape(5, 2).detach(), expected, atol=1e-6)
    assert set(np.flatnonzero(attention.numpy())) == set(best)


def test_equal_patches_are_taken_in_reading_order() -> None:
    torch.manual_seed(2)
    encoder = IAPEncoder(selected=64)
    flat = torch.full((1, 32, 32, 3), 77, dtype=torch.uint8)
    _, attention = encoder(flat)
    np.testing.assert_array_equal(np.flatnonzero(attention.numpy()), np.arange(64))


def test_decisions_stay_in_their_ranges_and_depend_on_the_image() -> None:
    for encoder in ("iap", "cnn", "strided"):
        torch.manual_seed(3)
        high_level = HighLevelNetwork(encoder)
        torch.nn.init.normal_(high_level.output.weight, std=3.0)
        decisions = [high_level.decide(image.numpy()) for image in random_images(32, count=20)]
        for decision in decisions:
            assert 10 <= decision.duration_steps <= 800
            assert np.abs(decision.latent).max() <= 1.0
        assert len({tuple(d.latent) for d in decisions}) > 1


def test_dropout_follows_the_seed_and_is_off_in_decisions() -> None:
    """Fitting alone drops anything out, and the same when it is repeated."""
    images, starts = random_images(32, count=4), torch.tensor([True, False, False, False])
    lessons = Lessons(images, torch.zeros(4, 2), torch.tensor([[1.0, 0.5]]).expand(4, 2), starts)
    plain, *dropping = (
        make_high_level(Architecture(f"siet:dropout={share}"), seed=0) for share in (0, 0.3, 0.3)
    )
    decided = [network.decide(images[0].numpy()).latent for network in (plain, *dropping)]
    np.testing.assert_array_equal(decided[1:], [decided[0]] * 2)
    for network in (plain, *dropping):
        fit(network, lessons, DAggerConfig(steps=2, batch=4), seed=0)
    fitted = [flat_weights(network) for network in (plain, *dropping)]
    np.testing.assert_array_equal(fitted[1], fitted[2])
    assert (fitted[0] != fitted[1]).any()
    decided = [dropping[0].decide(images[0].numpy()).latent for _ in range(2)]
    np.testing.assert_array_equal(*decided)


@pytest.mark.parametrize("encoder", ["ge-vit", "gsa-net", "latformer", "attention-neuron"])
@pytest.mark.parametrize("memory", ["", "gru:4"])
def test_encoders_with_a_gradient_are_fitted_with_their_head(encoder: str, memory: str) -> None:
    high_level = make_high_level(Architecture(encoder, mirror=True, memory=memory), seed=0)
    before = flat_weights(high_level)
    images, starts = random_images(32, count=4), torch.tensor([True, False, False, False])
    lessons = Lessons(images, torch.zeros(4, 2), torch.tensor([[1.0, 0.5]]).expand(4, 2), starts)
    assert has_gradient(high_level)
    assert np.isfinite(fit(high_level, lessons, DAggerConfig(steps=1, batch=4), seed=0))
    moved = flat_weights(high_level) != before
    count = sum(p.numel() for p in high_level.encoder.parameters())
    assert moved[:count].mean() > 0.5
    assert moved[count:].mean() > 0.5


@pytest.mark.parametrize(
    ("encoder", "students"),
    [("iap", 4), ("iap:values=8", 4), ("iap:values=8,sparse=true", 1), ("cnn", 1), ("sit", 1)],
)
def test_students_compete_where_the_selection_has_no_gradient(encoder: str, students: int) -> None:
    """Also where its values are learned by gradient: it looks where it looks."""
    drawn = first_students(Architecture(encoder), DAggerConfig(students=4), seed=0)
    assert len({weights.tobytes() for weights in drawn}) == students


def test_a_standardised_image_has_no_light_of_its_own_but_its_depth() -> None:
    torch.manual_seed(0)
    encoder = StridedEncoder(32, 32, channels=4, wide=2, standardise=True)
    image = torch.randint(0, 120, (1, 32, 32, 4), dtype=torch.uint8)
    tinted = (image * torch.tensor([2, 1, 1, 1]) + torch.tensor([0, 100, 7, 0])).to(torch.uint8)
    farther = image + torch.tensor([0, 0, 0, 100], dtype=torch.uint8)
    features, same, other = (encoder(each)[0] for each in (image, tinted, farther))
    assert features.shape == (1, encoder.features) == (1, 256)
    assert (features - same).abs().max() < 0.1 * (features - other).abs().max()


def test_a_normalised_convolution_may_have_weights_of_any_size() -> None:
    torch.manual_seed(0)
    encoder = StridedEncoder(normalise=True)
    image = random_images(32, count=3)
    features = encoder(image)[0]
    with torch.no_grad():
        for parameter in encoder.layers.convolutions.parameters():
            parameter *= 5.0
    torch.testing.assert_close(encoder(image)[0], features, atol=1e-2, rtol=1e-2)


def test_a_narrow_normalised_network_keeps_the_metres_of_depth() -> None:
    """Normalised channel by channel, all of a wall would be alike wherever it stands."""
    torch.manual_seed(0)
    encoder = StridedEncoder(channels=1, wide=0.25, normalise=True)
    walls = torch.tensor([40, 80, 160], dtype=torch.uint8)[:, None, None, None]
    features = encoder(walls.expand(3, 32, 32, 1))[0]
    assert encoder.features == 32
    assert (features[1:] - features[:-1]).abs().amax(1).min() > 0.05


@pytest.mark.parametrize(
    ("encoder", "memory"),
    [("strided", ""), *((name, "gru:4") for name in ENCODERS if name not in NO_GRADIENT)],
)
def test_a_network_is_fitted_on_any_device(encoder: str, memory: str) -> None:
    """torch's device without memory computes nothing, and refuses what lies on another one."""
    high_level = make_high_level(Architecture(encoder, True, True, memory), seed=0)
    images = torch.zeros(2, *high_level.image_shape, dtype=torch.uint8)
    lessons = Lessons(images, torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([True, False]))
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):  # its loss
        fit(high_level, lessons, DAggerConfig(steps=2, batch=2, recolour=True), 0, "meta")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("memory", ["", "gru:4"])
def test_a_gpu_fits_as_a_cpu_does(memory: str) -> None:
    """But for rounding, which 20 steps of gradient descent make larger."""
    rng = torch.Generator().manual_seed(0)
    fitted = []
    for device in ("cpu", "cuda"):
        high_level = make_high_level(Architecture("strided", True, True, memory), seed=0)
        shape = (32, *high_level.image_shape)
        images = torch.randint(256, shape, generator=rng.manual_seed(0)).to(torch.uint8)
        goals, latents = torch.rand(32, 2, generator=rng), torch.rand(32, 2, generator=rng)
        lessons = Lessons(images, goals, latents, torch.arange(32) % 8 == 0)
        fit(high_level, lessons, DAggerConfig(steps=20, batch=16, unrolled=4), 0, device)
        fitted.append(flat_weights(high_level))
    np.testing.assert_allclose(*fitted, atol=1e-3)


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == "cpu"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UserError, match=r"device cuda: torch.* sees no GPU; cpu always works"):
        find_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(UserError, match=r"torch.* is built for CPUs, .*--force-reinstall torch"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == find_device("cuda") == "cuda"
    assert find_device("cpu") == "cpu"


def lessons_of_noise(episodes: int) -> Lessons:
    """Ten decisions each, of small images that say nothing about the turns."""
    rng, count = torch.Generator().manual_seed(0), 10 * episodes
    images = torch.randint(256, (count, 16, 16, 1), generator=rng).to(torch.uint8)
    latents = torch.rand(count, 2, generator=rng)
    return Lessons(images, torch.zeros(count, 2), latents, torch.arange(count) % 10 == 0)


@pytest.mark.parametrize(
    ("encoder", "memory"), [("strided", ""), ("strided", "gru:4"), ("siet", "gru:4")]
)
def test_weights_do_not_depend_on_the_number_of_threads(encoder: str, memory: str) -> None:
    """Nor where dropout draws numbers."""
    options = ",dropout=0.2" if encoder == "siet" else ""
    architecture = Architecture(
        f"{encoder}:height=16,width=16,channels=1{options}", True, memory=memory
    )
    fitted = []
    for threads in (1, 2):
        high_level = make_high_level(architecture, seed=0)
        steps = DAggerConfig(steps=3, batch=256, unrolled=8)
        fit(high_level, lessons_of_noise(40), steps, seed=0, threads=threads)
        fitted.append(flat_weights(high_level))
    np.testing.assert_array_equal(*fitted)


def test_every_weight_takes_its_own_step_downhill() -> None:
    """Adam's first step is against the sign of the gradient; convolutions may lay theirs out."""
    high_level = make_high_level(Architecture("strided:height=16,width=16"), seed=0)
    image = random_images(16, count=1)
    views, _ = high_level.views(image)
    heads, _ = high_level.heads(views, torch.zeros(1, 2), torch.zeros(1, 0))
    wanted = torch.tensor([[SHORT, 1.0, 0.5]])
    loss = (torch.tensor(LOSS_WEIGHTS) * (high_level.outputs(heads) - wanted).square()).sum()
    down = torch.autograd.grad(-loss, list(high_level.parameters()))
    downhill = torch.cat([each.flatten() for each in down]).double().numpy()
    before, alike = flat_weights(high_level), image.expand(4, -1, -1, -1)
    starts = torch.tensor([True, False, False, False])
    lessons = Lessons(alike, torch.zeros(4, 2), wanted[:, 1:].expand(4, 2), starts)
    fit(high_level, lessons, DAggerConfig(steps=1, batch=4), seed=0)
    clear = np.abs(downhill) > 1e-4
    moved = np.sign(flat_weights(high_level) - before)
    np.testing.assert_array_equal(moved[clear], np.sign(downhill[clear]))
    assert clear.sum() > 1000


@torch.no_grad()
def test_a_mirrored_sequence_has_the_errors_of_the_other_view() -> None:
    """Of the two views a step learns from one: of every second sequence from the mirror image."""
    high_level = make_high_level(
        Architecture("strided:height=16,width=16,channels=1", mirror=True, goal=True), seed=0
    )
    images = random_images(16, count=6)[..., :1].reshape(3, 2, 16, 16, 1)
    goals, latents = torch.rand(3, 2, 2), torch.rand(3, 2, 2)
    shown = half_mirrored(Lessons(images, goals, latents, torch.zeros(3, 2, dtype=torch.bool)))
    views, _ = high_level.views(images.flatten(0, 1))
    heads, _ = high_level.heads(views, goals.flatten(0, 1), torch.zeros(6, 0))
    others = heads[1] * torch.tensor(MIRRORED)  # in the world as it is
    alone = high_level.encoder(shown.seen.flatten(0, 1))[0]
    (one,) = high_level.with_goal([alone], shown.goals.flatten(0, 1))
    error = high_level.head(one)[:, 1:] - shown.latents.flatten(0, 1)
    wanted = latents.flatten(0, 1)
    torch.testing.assert_close(error[::2], heads[0][::2, 1:] - wanted[::2])
    torch.testing.assert_close(error[1::2].abs(), (others[1::2, 1:] - wanted[1::2]).abs())


@pytest.mark.parametrize("unrolled", [8, 4])
def test_both_views_learn_from_batches_of_one_or_two_sequences(unrolled: int) -> None:
    """All robots turn to the left where the left half is white."""
    architecture = "strided:height=16,width=16,channels=1"
    high_level = make_high_level(Architecture(architecture, mirror=True, memory="gru:4"), seed=0)
    images = torch.zeros(80, 16, 16, 1, dtype=torch.uint8)
    images[:, :, :8] = 255
    latents, starts = torch.tensor([[1.0, 0.8]]).expand(80, 2), torch.arange(80) % 8 == 0
    lessons = Lessons(images, torch.zeros(80, 2), latents, starts)
    fit(high_level, lessons, DAggerConfig(steps=100, batch=8, unrolled=unrolled), seed=1)
    assert turn_error(high_level, lessons) < 0.03


def test_large_batches_of_two_sequences_mirror_one() -> None:
    architecture = "strided:height=16,width=16,channels=1"
    high_level = make_high_level(Architecture(architecture, mirror=True, memory="gru:4"), seed=0)
    images = torch.zeros(256, 16, 16, 1, dtype=torch.uint8)
    images[:, :, :8] = 255
    latents, starts = torch.tensor([[1.0, 0.8]]).expand(256, 2), torch.arange(256) % 128 == 0
    lessons = Lessons(images, torch.zeros(256, 2), latents, starts)
    fit(high_level, lessons, DAggerConfig(steps=40, unrolled=128), seed=1)
    assert turn_error(high_level, lessons) < 0.1


@pytest.mark.parametrize("memory", ["", "gru:4"])
@pytest.mark.parametrize(("held_out", "ends"), [(0.1, 200), (0.0, 220)])
def test_steps_end_when_the_loss_held_out_no_longer_falls(
    held_out: float, ends: int, memory: str
) -> None:
    done = []
    fit(
        make_high_level(Architecture("strided:height=16,width=16,channels=1", memory=memory), 0),
        lessons_of_noise(60),
        DAggerConfig(steps=220, batch=16, unrolled=8, rate=1e-9, held_out=held_out),
        seed=0,
        progress=done.append,
    )
    assert len(done) == ends


def test_demonstrations_on_disk_are_mapped_and_gathered(tmp_path: Path) -> None:
    """Rounds of different lengths, one without any; each image once, whatever the order."""
    rng = np.random.default_rng(0)
    parts = []
    for i, count in enumerate((5, 0, 3)):
        images = rng.integers(256, size=(count, 4, 6, 3), dtype=np.uint8)
        starts = np.arange(count) == 0
        shown = Demonstrations(starts, images, np.zeros((count, 2)), np.zeros((count, 2)))
        shown.save(tmp_path / f"{i}.npz", {})
        parts.append(Demonstrations.load(tmp_path / f"{i}.npz"))
        np.testing.assert_array_equal(parts[-1].images, images)
        assert isinstance(parts[-1].images, np.memmap) == (count > 0)
    frames = Frames([part.images for part in parts])
    which = torch.tensor([[7, 0], [4, 5], [5, 1]])
    whole = torch.from_numpy(Demonstrations.joined(parts).images)
    assert torch.equal(frames[which], whole[which])
    assert torch.equal(frames.to(torch.device("cpu")), whole)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["", "gru:4"])
def test_recoloured_images_are_not_learned_by_colour(memory: str) -> None:
    """Red means left, blue right: by its colour alone a turn is learned, unless it changes."""
    right = torch.arange(64) % 2 == 1
    images = torch.zeros(64, 16, 16, 3, dtype=torch.uint8)
    images[~right, ..., 0], images[right, ..., 2] = 150, 150
    turns = torch.stack([torch.ones(64), torch.where(right, -0.5, 0.5)], 1)
    lessons = Lessons(images, torch.zeros(64, 2), turns, torch.ones(64, dtype=torch.bool))

    def loss(recolour: bool) -> float:
        architecture = Architecture("strided:height=16,width=16", memory=memory)
        fresh = make_high_level(architecture, seed=0)
        return fit(fresh, lessons, DAggerConfig(steps=200, batch=64, recolour=recolour), seed=0)

    assert loss(recolour=False) < 0.05
    assert loss(recolour=True) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["", "gru:4"])
@pytest.mark.parametrize(("huber", "turn"), [(0.0, 0.1), (0.1, 0.9)])
def test_of_two_equally_good_turns_huber_learns_one_and_squares_their_mean(
    huber: float, turn: float, memory: str
) -> None:
    """Five times the teacher turns left, four times right, and it looks the same."""
    turns = torch.tensor([0.9] * 5 + [-0.9] * 4).repeat(8)
    taught = torch.stack([torch.ones(72), turns], 1)
    images, starts = torch.zeros(72, 16, 16, 3, dtype=torch.uint8), torch.ones(72)
    lessons = Lessons(images, torch.zeros(72, 2), taught, starts.bool())
    high_level = make_high_level(Architecture("strided:height=16,width=16", memory=memory), seed=0)
    fit(high_level, lessons, DAggerConfig(steps=150, batch=256, huber=huber, held_out=0.0), seed=0)
    decided = high_level.decide(images[0].numpy()).latent[1]
    assert decided == pytest.approx(turn, abs=0.15)


def test_recolouring_leaves_a_sequence_its_colours_and_depth_its_metres() -> None:
    image = random_images(8, count=1)
    pixels = torch.cat([image, image[..., :1]], -1).expand(5, 3, 8, 8, 4)  # 5 decisions, 3 readers
    other = recoloured(pixels, torch.Generator().manual_seed(0))
    assert torch.equal(other[..., 3], pixels[..., 3])
    assert all(torch.equal(other[0], later) for later in other)
    assert not torch.equal(other[0, 0], other[0, 1])
    assert torch.equal(recoloured(pixels[..., :1], torch.Generator()), pixels[..., :1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IAPEncoder(8, 8, patch=9), "larger than the image"),
        (lambda: IAPEncoder(8, 8, selected=65), "exceeds the 64 patches"),
        (lambda: CNNEncoder(4, 4), "too small"),
        (lambda: StridedEncoder(channels=1, standardise=True), "depth images have no colours"),
        (lambda: HighLevelNetwork("retina"), "unknown encoder 'retina'"),
        (lambda: HighLevelNetwork("cnn", goal=True, ahead=True), "goal and ahead are mutually"),
        (lambda: HighLevelNetwork("cnn", goal=True, approach=True), "approach needs goal and mem"),
    ],
)
def test_impossible_configurations_are_refused(build, message: str) -> None:  # noqa: ANN001
    with pytest.raises(ValueError, match=message):
        build()
