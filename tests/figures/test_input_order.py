"""Policies that do not know the order of their inputs: sensory neurons and puzzles of patches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from docs.figures.input_order import distillation
from docs.figures.input_order.order import TABLES, OrderConfig, write_tables
from docs.figures.input_order.puzzle import Puzzle, tiles, untiled
from docs.figures.input_order.sensory_neurons import NeuronGraph, NeuronPolicy, SensoryNeurons
from pixelgait.export.exporter import write_bundle
from pixelgait.export.markdown_sections import markers
from pixelgait.policies.high_level import StraightAhead
from pixelgait.robot.bundle import TOLERANCE, load_bundle
from pixelgait.robot.control.low_level import INPUT_SIZE, OUTPUT_SIZE, act, felt
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.navigate import Forward
from tests.helpers import felt_by

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(1, 256, (32, 32, 3), np.uint8)


def neurons() -> SensoryNeurons:
    torch.manual_seed(0)
    return SensoryNeurons()


def test_actions_do_not_depend_on_the_order_of_inputs() -> None:
    for inputs in (1, INPUT_SIZE, 257):
        order = RNG.permutation(inputs)
        one, other = NeuronPolicy(neurons()), NeuronPolicy(neurons())
        for row in RNG.standard_normal((50, inputs)):
            action, shuffled = one(row), other(row[order])
            np.testing.assert_allclose(shuffled, action, atol=1e-5)


def test_a_sequence_at_once_equals_its_steps() -> None:
    network, values = neurons(), RNG.standard_normal((30, INPUT_SIZE))
    policy = NeuronPolicy(network)
    actions = np.array([policy(row) for row in values])
    last = np.concatenate((np.zeros((1, OUTPUT_SIZE)), actions[:-1]))
    x, a = (torch.tensor(v[:, None], dtype=torch.float32) for v in (values, last))
    with torch.no_grad():
        together = network(x, a)[0][:, 0].clamp(-1.0, 1.0)
    np.testing.assert_allclose(together, actions, atol=1e-5)


@pytest.mark.long
def test_a_low_level_with_memory_is_exported_with_its_state(tmp_path: Path) -> None:
    graph = NeuronGraph(A1, neurons())
    rows = write_bundle(tmp_path, StraightAhead(), graph, {})
    assert max(row.difference for row in rows) <= TOLERANCE
    assert {row.output for row in rows} > {"joint_targets", "next_phase", "next_state"}
    bundle = load_bundle(tmp_path)
    size = OUTPUT_SIZE + 2 * INPUT_SIZE * 24
    stated = bundle.contract["graphs"]["low_level.onnx"]
    assert stated["inputs"]["state"] == stated["outputs"]["next_state"]
    assert stated["inputs"]["state"] == {"type": "float32", "shape": [size]}
    one = other = np.zeros(1)
    policy, rng = NeuronPolicy(neurons()), np.random.default_rng(0)
    for _ in range(200):
        latent, reading = rng.uniform(-0.5, 0.5, 2), felt_by(rng)
        x, phase = felt(latent, reading, one[:1]), one[:1]
        targets, one = bundle.low_level(latent, reading, one)
        expected, other = graph.step(latent, reading, other)
        assert one.shape == other.shape == (1 + size,)
        np.testing.assert_allclose(targets, expected, atol=1e-4)
        np.testing.assert_allclose(
            targets, act(A1, latent, policy(x), phase, reading.joint_angles)[0], atol=1e-4
        )
    fresh = bundle.low_level(latent, reading, one[:1])[0]  # without memory
    assert np.abs(fresh - bundle.low_level(latent, reading, one)[0]).max() > 1e-3


def test_a_controller_begins_every_episode_without_memory(tmp_path: Path) -> None:
    write_bundle(tmp_path, StraightAhead(), NeuronGraph(A1, neurons()), {})
    controller = load_bundle(tmp_path).controller()
    body = make_body("pybullet", A1, FlatGround())
    first, again = (run_episode(controller, body, Forward(50), 3) for _ in range(2))
    body.close()
    assert controller.carried.size > 1
    assert first.distance_m == again.distance_m
    assert first.return_m == again.return_m
    controller.reset()
    assert controller.carried.tolist() == [0.0]


@pytest.mark.long
def test_a_student_approaches_its_teacher() -> None:
    distillation.start()
    walks = [distillation.walk((None, 0, seed))[1] for seed in range(2)]
    network = neurons()
    first = distillation.fit(network, walks, 2, 0)
    assert distillation.fit(network, walks, 30, 0) < 0.5 * first


def test_a_puzzle_shuffles_patches_and_blackens_some() -> None:
    puzzled = Puzzle(100).applied(IMAGE, seed=1, time_s=0.0)
    assert not np.array_equal(puzzled, IMAGE)
    assert {patch.tobytes() for patch in tiles(puzzled)} == {p.tobytes() for p in tiles(IMAGE)}
    assert not np.array_equal(Puzzle(100).applied(IMAGE, seed=1, time_s=1.0), puzzled)
    assert np.array_equal(untiled(tiles(IMAGE), IMAGE.shape), IMAGE)
    assert np.array_equal(Puzzle().applied(IMAGE, seed=1, time_s=0.0), IMAGE)
    seen = tiles(Puzzle(None, 0.7).applied(IMAGE, seed=1, time_s=0.0))
    black = ~seen.any((1, 2, 3))
    assert black.sum() == round(0.7 * len(seen))
    assert np.array_equal(seen[~black], tiles(IMAGE)[~black])


@pytest.mark.long
def test_a_student_is_taught_and_measured_once(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "order.json"
    page.write_text("\n".join(line for part in TABLES for line in markers(part, "order")))
    config = OrderConfig(
        **{"page": page, "figures": kept, "out": tmp_path, "tables": ("order-low",)},
        **{"rounds": 1, "steps": 1, "hidden": 2, "episodes": 1},
    )
    write_tables(config)
    rows = json.loads(kept.read_text())
    assert [(row["name"], row["shuffle_steps"]) for row in rows] == [
        *(("walk (linear)", 0), ("walk (linear)", 100), ("walk (linear)", 1)),
        *(("sensory neurons", 0), ("sensory neurons", 100), ("sensory neurons", 1)),
    ]
    assert "| walk (linear) | 399 | shuffled every 100 steps | 100 % |" in page.read_text()
    before = kept.read_bytes()
    write_tables(config)
    assert kept.read_bytes() == before
