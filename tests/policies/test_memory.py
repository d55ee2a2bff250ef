"""Goals and memory of high levels: symmetry, learning, graphs, and when a state begins anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pixelgait.export import parity
from pixelgait.export.onnx_graphs import high_level_graph
from pixelgait.policies.high_level import Architecture, HighLevelNetwork, make_high_level
from pixelgait.policies.memory import GRU, LSTM, Memory
from pixelgait.policies.training.fitting import Lessons, encode, fit, with_approach
from pixelgait.policies.training.plan import DAggerConfig
from pixelgait.robot.bundle import SHIPPED, load_bundle, single_thread_session
from pixelgait.robot.control.observation import NO_GOAL
from tests.conftest import Command

SMALL = "height=16,width=16,channels=1"
WITH_MEMORY = [
    f"cnn:{SMALL}",
    f"iap:{SMALL},patch=4,stride=4,selected=4",
    f"iap:{SMALL},patch=4,stride=4,selected=4,values=3,placed=true,gated=true",
    f"iap:{SMALL},selected=4,values=3,sparse=true,stem=8",
    f"siet:graph=flip,{SMALL}",
    f"ge-vit:layers=1,{SMALL}",
    f"strided:{SMALL},wide=0.25",
]
ENCODERS = pytest.mark.parametrize("encoder", WITH_MEMORY)


def remembering(encoder: str, memory: str = "gru:6", *, approach: bool = False) -> HighLevelNetwork:
    """An untrained one whose decisions vary."""
    architecture = Architecture(encoder, True, goal=True, memory=memory, approach=approach)
    high_level = make_high_level(architecture, seed=3)
    torch.nn.init.normal_(high_level.output.weight, std=0.3)
    return high_level


def walk(seed: int, steps: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images (16, 16, 1) and goals (2,), one after another."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (steps, 16, 16, 1), dtype=np.uint8)
    return [(image, np.array((rng.uniform(0, 9), rng.uniform(-3, 3)))) for image in images]


@ENCODERS
def test_a_mirrored_walk_is_decided_as_the_mirror_image(encoder: str) -> None:
    high_level = remembering(encoder, approach=encoder.startswith("strided"))
    state = mirrored_state = None
    turns = []
    for image, goal in walk(0):
        one = high_level.decide(image, goal, state)
        flipped = np.ascontiguousarray(image[:, ::-1])
        other = high_level.decide(flipped, goal * (1.0, -1.0), mirrored_state)
        state, mirrored_state = one.state, other.state
        exact = not encoder.startswith(("siet", "ge-vit"))  # their features are so up to rounding
        tolerance = 0.0 if exact else 1e-5
        np.testing.assert_allclose(one.latent, other.latent * (1.0, -1.0), atol=tolerance)
        assert state is not None
        assert mirrored_state is not None
        halves = np.concatenate(np.split(mirrored_state, 2)[::-1])
        np.testing.assert_allclose(state, halves, atol=tolerance)
        turns.append(one.latent[1])
    assert np.std(turns) > 1e-3


NAVIGATORS = sorted(path.name for path in SHIPPED.glob("navigator*"))


@pytest.mark.parametrize("name", NAVIGATORS)
def test_a_shipped_navigator_decides_a_mirrored_walk_as_the_mirror_image(name: str) -> None:
    """Its graph, by onnxruntime: the halves of its state are those of the two worlds."""
    bundle, rng = load_bundle(name), np.random.default_rng(5)
    state = mirrored_state = None
    turns = []
    for _ in range(30):
        image = rng.integers(0, 256, bundle.image_shape, dtype=np.uint8)
        goal = np.array((rng.uniform(0, 9), rng.uniform(-3, 3)))
        one = bundle.high_level(image, goal, state)
        flipped = np.ascontiguousarray(image[:, ::-1])
        other = bundle.high_level(flipped, goal * (1.0, -1.0), mirrored_state)
        state, mirrored_state = one.state, other.state
        np.testing.assert_allclose(one.latent, other.latent * (1.0, -1.0), atol=1e-5)
        assert abs(one.duration_steps - other.duration_steps) <= 1  # it was rounded
        assert state is not None
        assert mirrored_state is not None
        halves = np.concatenate(np.split(mirrored_state, 2)[::-1])
        np.testing.assert_allclose(state, halves, atol=1e-5)
        turns.append(one.latent[1])
    assert np.std(turns) > 0.01


SEQUENCES = [
    *((encoder, "gru:6") for encoder in WITH_MEMORY[:-1]),
    (WITH_MEMORY[0], "lstm:6"),
]


@pytest.mark.parametrize(
    ("encoder", "memory"),
    [
        (WITH_MEMORY[-1], "gru:6"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in SEQUENCES),
    ],
)
def test_onnx_equals_torch_over_a_sequence(encoder: str, memory: str) -> None:
    """The state is fed back on either side: errors would add up."""
    high_level = remembering(encoder, memory, approach=encoder.startswith("strided"))
    graph = high_level_graph(high_level)
    session = single_thread_session(graph.SerializeToString())
    state, remembered = np.zeros(high_level.state_size, np.float32), None
    for image, goal in walk(1, steps=50):
        inputs = {"image": image, "goal": goal.astype(np.float32), "state": state}
        latent, duration, _, state = session.run(None, inputs)
        decision = high_level.decide(image, goal, remembered)
        remembered = decision.state
        np.testing.assert_allclose(latent, decision.latent, atol=parity.TOLERANCE)
        np.testing.assert_allclose(state, remembered, atol=parity.TOLERANCE)
        assert duration[0] == decision.duration_steps


def test_an_lstm_is_that_of_torch() -> None:
    ours, torchs = LSTM(5, 4), torch.nn.LSTMCell(5, 4)
    weights = [ours.gates.weight, ours.recurrent.weight, ours.gates.bias, ours.recurrent.bias]
    for one, other in zip(torchs.parameters(), weights, strict=True):
        one.data.copy_(other)
    x, state = torch.randn(3, 5), torch.randn(3, 8)
    after = ours(x, state)
    torch.testing.assert_close(after, torch.cat(torchs(x, state.chunk(2, 1)), 1))
    torch.testing.assert_close(ours.read(after), after[:, :4])


def test_a_graph_has_only_the_inputs_its_high_level_uses() -> None:
    all_inputs = {(False, ""): ("image",), (True, "gru:5"): ("image", "goal", "state")}
    for (goal, memory), inputs in all_inputs.items():
        network = HighLevelNetwork(f"cnn:{SMALL}", goal=goal, memory=memory)
        graph = high_level_graph(network)
        assert tuple(value.name for value in graph.graph.input) == inputs


def test_a_policy_with_ahead_uses_only_its_bearing() -> None:
    architecture = Architecture(WITH_MEMORY[2], True, memory="gru:6", ahead=True)
    high_level = make_high_level(architecture, seed=3)
    torch.nn.init.normal_(high_level.output.weight, std=0.3)
    graph = single_thread_session(high_level_graph(high_level).SerializeToString())
    assert {each.name: each.shape for each in graph.get_inputs()} == {
        "image": [16, 16, 1],
        "ahead": [1],
        "state": [12],
    }
    turns = []
    for image, goal in walk(4):
        near, far = (high_level.decide(image, np.array((d, goal[1]))) for d in (0.5, np.inf))
        np.testing.assert_array_equal(near.latent, far.latent)
        flipped = np.ascontiguousarray(image[:, ::-1])
        other = high_level.decide(flipped, goal * (1.0, -1.0))
        np.testing.assert_array_equal(near.latent, other.latent * (1.0, -1.0))
        given = {"image": image, "ahead": goal[1:].astype(np.float32)}
        latent, *_ = graph.run(None, {**given, "state": np.zeros(12, np.float32)})
        np.testing.assert_allclose(latent, near.latent, atol=parity.TOLERANCE)
        turns.append(near.latent[1] - high_level.decide(image, NO_GOAL).latent[1])
    assert np.std(turns) > 1e-3


def test_the_approach_is_that_since_the_last_decision() -> None:
    """The network computes it from its state, the fit from successive goals: both are equal."""
    high_level = remembering(f"strided:{SMALL},wide=0.25", approach=True)
    decisions = walk(4)
    images = torch.from_numpy(np.stack([image for image, _ in decisions]))
    goals = torch.from_numpy(np.stack([goal for _, goal in decisions])).float()
    starts = torch.arange(len(goals)) % 5 == 0
    lessons = with_approach(Lessons(images, goals, torch.zeros(len(goals), 2), starts))
    nearer = goals[:-1, 0] - goals[1:, 0]
    torch.testing.assert_close(lessons.goals[1:, 2], nearer * ~starts[1:])
    views, state, heads = list(encode(high_level, images).unbind(1)), None, []
    for i in range(len(goals)):
        if starts[i]:
            state = torch.zeros(1, high_level.state_size)
        (one, _), state = high_level.heads(
            [each[i : i + 1] for each in views], goals[i : i + 1], state
        )
        heads.append(one)
    x = torch.stack(high_level.with_goal(views, lessons.goals))[0]
    memory = high_level.memory
    assert memory is not None
    states = memory.unrolled(
        memory.inputs(x)[:, None], starts[:, None], torch.zeros(1, memory.size)
    )
    fitted = high_level.head(memory.read(states[:, 0]))
    torch.testing.assert_close(torch.cat(heads), fitted, rtol=1e-4, atol=1e-6)


def test_a_robot_that_is_held_is_told_by_the_approach() -> None:
    high_level = remembering(f"strided:{SMALL},wide=0.25", approach=True)
    image, _ = walk(5, steps=1)[0]
    first = high_level.decide(image, np.array((4.0, 0.1)))
    held, came = (
        high_level.decide(image, np.array((away, 0.1)), first.state) for away in (4.0, 3.9)
    )
    assert abs(held.latent - came.latent).max() > 1e-3
    unmoved = high_level.decide(image, NO_GOAL, high_level.decide(image, NO_GOAL).state)
    assert np.isfinite(unmoved.latent).all()


def test_no_goal_is_one_far_ahead() -> None:
    high_level = remembering(f"cnn:{SMALL}")
    image, _ = walk(2, steps=1)[0]
    none, far = (high_level.decide(image, goal) for goal in (NO_GOAL, np.array((1e3, 0.0))))
    np.testing.assert_allclose(none.latent, far.latent, atol=1e-4)
    left = high_level.decide(image, np.array((1e3, 1.0)))
    assert abs(left.latent[1] - none.latent[1]) > 1e-3


@pytest.mark.parametrize("mirrored", [False, True])
def test_an_unrolled_gru_is_the_same_cell_step_by_step(mirrored: bool) -> None:
    """Its states and all gradients, also across the begin of an episode."""
    torch.manual_seed(0)
    cell = GRU(features=5, size=4).double()
    x = torch.rand(6, 3, 4, dtype=torch.double, requires_grad=True)
    if mirrored:  # as a view of both, not contiguous
        x = x.expand(2, 6, 3, 4).transpose(0, 1).flatten(1, 2)
    first = torch.rand(x.shape[1], 4, dtype=torch.double, requires_grad=True)
    starts = torch.rand(x.shape[:2]) < 0.3
    weights = [each for name, each in cell.named_parameters() if "squeeze" not in name]
    found = []
    for states in (cell.unrolled(x, starts, first), Memory.unrolled(cell, x, starts, first)):
        gradients = torch.autograd.grad((states * states.cos()).sum(), [x, first, *weights])
        found.append([states, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def shown_once(seed: int, episodes: int = 60) -> Lessons:
    """Ten decisions each: the first image says on which side to turn at the end, the rest is gray.

    Nothing but what was seen first tells the last decision.
    """
    rng = np.random.default_rng(seed)
    sides = rng.choice((-1.0, 1.0), episodes)
    images = np.full((episodes, 10, 16, 16, 1), 128, np.uint8)
    images[sides > 0, 0, :, :8] = 255
    images[sides < 0, 0, :, 8:] = 255
    latents = np.zeros((episodes, 10, 2))
    latents[:, -1, 1] = sides
    starts = np.zeros((episodes, 10), bool)
    starts[:, 0] = True
    goals = np.tile(NO_GOAL, (episodes * 10, 1))
    return Lessons(
        torch.from_numpy(images.reshape(-1, 16, 16, 1)),
        torch.from_numpy(goals).float(),
        torch.from_numpy(latents.reshape(-1, 2)).float(),
        torch.from_numpy(starts.ravel()),
    )


def last_turns(high_level: HighLevelNetwork, lessons: Lessons) -> np.ndarray:
    """Share of the episodes at whose end it turns to the right side."""
    hits, state = [], None
    for image, latent, start in zip(lessons.seen, lessons.latents, lessons.starts, strict=True):
        decision = high_level.decide(image.numpy(), NO_GOAL, None if start else state)
        state = decision.state
        if latent[1] != 0.0:
            hits.append(np.sign(decision.latent[1]) == np.sign(float(latent[1])))
    return np.mean(hits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "remembers"),
    [("gru:8", True), pytest.param("lstm:8", True, marks=pytest.mark.long), ("", False)],
)
def test_a_memory_learns_from_images_long_past(memory: str, remembers: bool) -> None:
    architecture = Architecture(f"cnn:{SMALL}", mirror=True, memory=memory)
    high_level = make_high_level(architecture, seed=0)
    fit(high_level, shown_once(0), DAggerConfig(steps=300, batch=128, held_out=0.0), seed=1)
    right = last_turns(high_level, shown_once(1, episodes=40))
    assert right == 1.0 if remembers else right < 0.8


@pytest.mark.long
def test_a_bundle_with_ahead_walks(tmp_path: Path, command: Command) -> None:
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    trained = command(
        *("pixelgait-train", "imitate", "--out", str(run), "--encoder", f"cnn:{SMALL}", "--ahead"),
        *("--mirror", "--randomise", "--iterations", "1", "--dagger.courses", "2"),
        *("--dagger.steps", "5", "--steps", "100", "--validation-steps", "20"),
        *("--validation-episodes", "1"),
    )
    assert trained.returncode == 0, trained.stderr
    exported = command(
        *("pixelgait-export", "--low-level", "walk", "--high-level", str(run)),
        *("--out", str(bundle)),
    )
    assert exported.returncode == 0, exported.stderr
    assert load_bundle(bundle).takes == {"image": [16, 16, 1], "ahead": [1]}
    evaluated = command("pixelgait-eval", str(bundle), "--episodes", "1", "--seconds", "2")
    assert evaluated.returncode == 0, evaluated.stderr


@pytest.mark.long
def test_a_bundle_with_goal_and_memory_walks(tmp_path: Path, command: Command) -> None:
    """Trained for a moment, exported, evaluated in rooms: the whole path by its commands."""
    encoder = f"iap:{SMALL},patch=4,stride=4,selected=4"
    run = command(
        *("pixelgait-train", "imitate", "--out", str(tmp_path / "run"), "--scene", "rooms"),
        *("--encoder", encoder, "--goal", "--memory", "gru:6", "--mirror", "--iterations", "1"),
        *("--approach", "--dagger.knows", "seen", "--dagger.decay", "0.9"),
        *("--dagger.courses", "2", "--dagger.steps", "5", "--dagger.students", "2"),
        *("--steps", "100", "--validation-steps", "20", "--validation-episodes", "1"),
    )
    assert run.returncode == 0, run.stderr
    bundle = tmp_path / "bundle"
    exported = command(
        *("pixelgait-export", "--low-level", "walk", "--high-level", str(tmp_path / "run")),
        *("--out", str(bundle)),
    )
    assert exported.returncode == 0, exported.stderr
    assert "next_state" in exported.stdout
    assert load_bundle(bundle).takes == {"image": [16, 16, 1], "goal": [2], "state": [16]}
    evaluated = command(
        *("pixelgait-eval", str(bundle), "--scene", "rooms", "--episodes", "2", "--seconds", "3")
    )
    assert evaluated.returncode == 0, evaluated.stderr
    for figure in ("success_rate", "collision_free_rate", "spl", "remaining_m"):
        assert figure in evaluated.stdout


def test_without_a_goal_position_the_goal_is_straight_ahead() -> None:
    bundle = load_bundle("navigator")
    image = np.zeros(bundle.image_shape, np.uint8)
    turned, none = (bundle.high_level(image, goal) for goal in (np.array((np.inf, 2.0)), NO_GOAL))
    np.testing.assert_array_equal(turned.latent, none.latent)


def test_a_policy_without_goal_takes_none(cnn_bundle: Path) -> None:
    bundle = load_bundle(cnn_bundle)
    assert bundle.takes == {"image": [32, 32, 3]}
    image = np.zeros((32, 32, 3), np.uint8)
    told, free = (bundle.high_level(image, goal) for goal in (np.array((1.0, 2.0)), NO_GOAL))
    np.testing.assert_array_equal(told.latent, free.latent)
    assert told.state is None
