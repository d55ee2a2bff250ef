"""The study of inputs without an order: puzzles, sensory neurons, its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from docs.figures.input_order import distillation, order
from docs.figures.input_order.order import TABLES, OrderConfig, write_tables
from docs.figures.input_order.puzzle import PATCH, Puzzle, tiles, untiled
from docs.figures.input_order.sensory_neurons import NeuronGraph, NeuronPolicy, SensoryNeurons
from docs.figures.results.figure_store import Figures, find_cell, keep_cell, read_figures
from pixelgait.export.exporter import write_bundle
from pixelgait.export.markdown_sections import markers
from pixelgait.policies.encoders.attention_neuron import AttentionNeuron
from pixelgait.policies.high_level import StraightAhead
from pixelgait.robot.bundle import TOLERANCE, load_bundle
from pixelgait.robot.control.low_level import INPUT_SIZE, OUTPUT_SIZE, act, features
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.registry import make_body
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.tasks.episode import run_episode
from pixelgait.sim.tasks.forward import Forward

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)
IMAGE = RNG.integers(1, 256, (32, 32, 3), np.uint8)


def neurons() -> SensoryNeurons:
    torch.manual_seed(0)
    return SensoryNeurons()


@pytest.mark.parametrize("inputs", [1, 2, 5, INPUT_SIZE, 257])
def test_actions_do_not_depend_on_the_order_of_inputs_however_many(inputs: int) -> None:
    values = RNG.standard_normal((50, inputs))
    order = RNG.permutation(inputs)
    one, other = NeuronPolicy(neurons()), NeuronPolicy(neurons())
    for row in values:
        action, shuffled = one(row), other(row[order])
        assert action.shape == (OUTPUT_SIZE,)
        np.testing.assert_allclose(shuffled, action, atol=1e-5)


def test_who_is_shuffled_in_the_middle_has_to_find_out_anew() -> None:
    values = RNG.standard_normal((20, INPUT_SIZE)) + np.arange(INPUT_SIZE)
    one, other = NeuronPolicy(neurons()), NeuronPolicy(neurons())
    for row in values:
        one(row), other(row)
    assert np.abs(one(values[0]) - other(values[0][::-1].copy())).max() > 1e-4


def test_what_is_felt_is_what_decides() -> None:
    policy = NeuronPolicy(neurons())
    assert np.abs(policy(np.zeros(INPUT_SIZE)) - policy(np.ones(INPUT_SIZE))).max() > 1e-3


def test_a_sequence_at_once_is_the_same_as_step_by_step() -> None:
    network, values = neurons(), RNG.standard_normal((30, INPUT_SIZE))
    policy = NeuronPolicy(network)
    actions = np.array([policy(row) for row in values])
    last = np.concatenate((np.zeros((1, OUTPUT_SIZE)), actions[:-1]))
    x, a = (torch.tensor(v[:, None], dtype=torch.float32) for v in (values, last))
    with torch.no_grad():
        together = network(x, a)[0][:, 0].clamp(-1.0, 1.0)
    np.testing.assert_allclose(together, actions, atol=1e-5)


def test_neurons_are_exported_with_what_they_remember(tmp_path: Path) -> None:
    """As low level of a bundle they do over a walk what they did in torch."""
    graph = NeuronGraph(A1, neurons())
    rows = write_bundle(tmp_path, StraightAhead(), graph, {})
    assert max(row.difference for row in rows) <= TOLERANCE
    assert {row.output for row in rows} > {"joint_targets", "next_phase", "next_state"}
    bundle = load_bundle(tmp_path)
    size = OUTPUT_SIZE + 2 * INPUT_SIZE * 24
    said = bundle.contract["graphs"]["low_level.onnx"]
    assert said["inputs"]["state"] == said["outputs"]["next_state"]
    assert said["inputs"]["state"] == {"type": "float32", "shape": [size]}
    one = other = np.zeros(1)
    policy, rng = NeuronPolicy(neurons()), np.random.default_rng(0)
    for _ in range(200):
        sensed = [rng.uniform(-0.5, 0.5, n) for n in (2, 4, 12)]
        x, phase = features(*sensed, one[:1]), one[:1]
        targets, one = bundle.low_level(*sensed, one)
        expected, other = graph.step(*sensed, other)
        assert one.shape == other.shape == (1 + size,)
        np.testing.assert_allclose(targets, expected, atol=1e-4)
        np.testing.assert_allclose(
            targets, act(A1, sensed[0], policy(x), phase, sensed[2])[0], atol=1e-4
        )
    fresh = bundle.low_level(*sensed, one[:1])[0]  # who remembers nothing does otherwise
    assert np.abs(fresh - bundle.low_level(*sensed, one)[0]).max() > 1e-3


def test_a_controller_begins_every_episode_without_memories(tmp_path: Path) -> None:
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


def test_a_student_comes_nearer_to_what_it_is_taught_whatever_the_order() -> None:
    distillation.start()
    walks = [distillation.walk((None, 0, seed))[1] for seed in range(2)]
    assert all(walk.inputs.shape == (1000, INPUT_SIZE) for walk in walks)
    assert np.array_equal(walks[0].done, walks[0].taught)  # led
    assert not np.array_equal(walks[1].done, walks[1].taught)  # led astray
    network = neurons()
    first = distillation.fit(network, walks, 2, 0)
    assert distillation.fit(network, walks, 30, 0) < 0.5 * first


def test_the_shipped_low_level_falls_when_its_inputs_change_places() -> None:
    distillation.start()
    assert not distillation.walk_linear((0, 10_000))[0].fell
    assert distillation.walk_linear((100, 10_000))[0].fell


def test_a_puzzle_has_the_same_patches_in_another_order() -> None:
    puzzled = Puzzle(100).applied(IMAGE, seed=1, time_s=0.0)
    assert not np.array_equal(puzzled, IMAGE)
    pieces, known = ({patch.tobytes() for patch in tiles(i)} for i in (puzzled, IMAGE))
    assert pieces == known
    assert np.array_equal(Puzzle(100).applied(IMAGE, seed=1, time_s=0.99), puzzled)
    assert not np.array_equal(Puzzle(100).applied(IMAGE, seed=1, time_s=1.0), puzzled)
    assert np.array_equal(untiled(tiles(IMAGE), IMAGE.shape), IMAGE)
    assert np.array_equal(Puzzle().applied(IMAGE, seed=1, time_s=0.0), IMAGE)


def test_black_patches_are_as_many_as_said_and_the_others_stay() -> None:
    seen = tiles(Puzzle(None, 0.7).applied(IMAGE, seed=1, time_s=0.0))
    black = ~seen.any((1, 2, 3))
    assert black.sum() == round(0.7 * (32 // PATCH) ** 2)
    assert np.array_equal(seen[~black], tiles(IMAGE)[~black])


def test_what_is_taken_away_counts_as_if_it_had_never_been_in_the_list() -> None:
    encoder = AttentionNeuron()
    puzzled = Puzzle(100, taken=0.75).applied(IMAGE, seed=1, time_s=0.0)
    left = {patch.tobytes() for patch in tiles(puzzled)}
    assert len(left) == 4
    assert left < {patch.tobytes() for patch in tiles(IMAGE)}
    kept = np.array([np.frombuffer(patch, np.uint8) for patch in left]) / np.float32(255.0)
    with torch.no_grad():
        alone = encoder.code(torch.tensor(kept[None]))[0].flatten(1)
        torch.testing.assert_close(encoder(torch.tensor(puzzled[None]))[0], alone)


def empty_page(folder: Path) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(line for part in TABLES for line in markers(part, "order")))
    return page


def test_the_tables_are_those_of_the_figures_beside_them(tmp_path: Path) -> None:
    page, kept = tmp_path / "studies.md", tmp_path / "order.json"
    page.write_text((ROOT / "docs/studies.md").read_text())
    kept.write_bytes((ROOT / "docs/order.json").read_bytes())
    write_tables(OrderConfig(page=page, figures=kept, tables=()))
    assert page.read_text() == (ROOT / "docs/studies.md").read_text()


@pytest.mark.long
def test_a_student_is_taught_and_measured_once(tmp_path: Path) -> None:
    page, kept = empty_page(tmp_path), tmp_path / "order.json"
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
    assert rows[0]["fall_rate"] == 0.0
    assert "| walk (linear) | 399 | shuffled every 100 steps | 100 % |" in page.read_text()
    before = kept.read_bytes()
    provenance = load_bundle(tmp_path / "bundle").contract["provenance"]["low_level"]
    assert provenance["config"]["hidden"] == 2
    write_tables(config)
    assert kept.read_bytes() == before


def test_figures_of_a_cell_that_was_defined_otherwise_are_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither shown nor left as they are: they would pass for what the cell is now."""
    kept = tmp_path / "order.json"
    kept.write_bytes((ROOT / "docs/order.json").read_bytes())
    known = OrderConfig(page=empty_page(tmp_path), figures=kept, tables=())
    write_tables(known)
    page = known.page.read_text()
    assert "| `vit` | 100 % | 36 % | 0 % | 0 % | 34 % |" in page
    assert page.count("| sensory neurons | 6739 |") == 3
    monkeypatch.setitem(order.PUZZLES, "70 % black", Puzzle(None, 0.69))
    write_tables(replace(known, rounds=7))
    page = known.page.read_text()
    assert "| `vit` | 100 % | 36 % | - | 0 % | 34 % |" in page
    assert page.count("| walk (linear) | 399 |") == 3
    assert "sensory neurons" not in page
    write_tables(replace(known, episodes=51))
    assert "%" not in known.page.read_text().replace("70 %", "").replace("75 %", "")


def test_figures_of_a_cell_take_the_place_of_those_of_its_former_definition(tmp_path: Path) -> None:
    kept: list[Figures] = []
    names = {"table": "order-high", "name": "cnn", "seen": "70 % black", "episodes": 1}
    for hidden in (0.6, 0.7):
        cell = {**names, "defined": {"hidden": hidden}}
        assert find_cell(kept, cell) is None
        keep_cell(tmp_path / "kept.json", kept, cell, {"success_rate": hidden})
    assert [each["success_rate"] for each in read_figures(tmp_path / "kept.json")] == [0.7]
    assert find_cell(kept, cell) == kept[0]


def test_a_student_of_another_size_or_a_damaged_one_is_a_line(tmp_path: Path) -> None:
    config = OrderConfig(
        **{"page": empty_page(tmp_path), "figures": tmp_path / "f.json", "out": tmp_path},
        **{"tables": ("order-low",), "episodes": 1, "workers": 1, "hidden": 3},
    )
    student = {name: getattr(config, name) for name in ("rounds", "steps", "hidden", "seed")}
    for taught, words in (
        ({**student, "rounds": 5}, "was taught with {'rounds': 5, 'steps': 1000"),
        (student, "no student with --hidden 3"),
    ):
        weights = SensoryNeurons(2).state_dict()
        torch.save({"taught": taught, "weights": weights}, tmp_path / "neurons.pt")
        with pytest.raises(UserError, match=words) as refused:
            write_tables(config)
        assert "\n" not in str(refused.value)
    (tmp_path / "neurons.pt").write_text("cut")
    with pytest.raises(UserError, match="no student with --hidden 3"):
        write_tables(config)


def test_no_student_is_taught_on_other_seeds_than_those_of_training(tmp_path: Path) -> None:
    config = OrderConfig(
        **{"page": empty_page(tmp_path), "figures": tmp_path / "f.json", "out": tmp_path},
        **{"tables": ("order-low",), "rounds": 6, "seed": 8937},
    )
    with pytest.raises(UserError, match="the last walk has 9000, training ends with 8999"):
        write_tables(config)


def test_eyes_that_nobody_has_trained_are_named(tmp_path: Path) -> None:
    config = OrderConfig(
        page=empty_page(tmp_path), figures=tmp_path / "f.json", learned=tmp_path / "none"
    )
    with pytest.raises(UserError, match="encoders-attention-neuron-0: no such run, make learning"):
        write_tables(OrderConfig(**{**vars(config), "tables": ("order-high",)}))
