"""Study of input order (`make order`): policies without it while their inputs are shuffled.

AttentionNeuron (arXiv 2109.02869) as a low level over 20 numbers, distilled here from the shipped
one, and as an encoder over patches, from `make learning`. Figures: docs/order.json; tables:
docs/studies.md.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from docs.figures.input_order import distillation, puzzle
from docs.figures.input_order.distillation import SHUFFLE_STEPS, Walk
from docs.figures.input_order.puzzle import Puzzle
from docs.figures.input_order.sensory_neurons import NeuronGraph, SensoryNeurons
from docs.figures.results.figure_store import DEFINED, Figures, find_cell, keep_cell, read_figures
from pixelgait.export.exporter import write_bundle
from pixelgait.export.markdown_sections import (
    require_markers,
    table_head,
    table_line,
    write_between,
)
from pixelgait.policies.evaluation.evaluate import as_bundle
from pixelgait.policies.high_level import StraightAhead
from pixelgait.robot.bundle import CONTRACT, load_bundle
from pixelgait.robot.cli.options import Count, Range, Workers, parse
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import require_writable, write_atomic
from pixelgait.robot.spec import A1
from pixelgait.sim.tasks.episode import Episode
from pixelgait.sim.workers.process_pool import Pool, WorkerPool
from pixelgait.sim.world.seeds import FIRST_EVALUATION_SEED, TRAINING

FIRST_WALKS, WALKS = 16, 8  # of the first round, and of every further one
SHUFFLES = {
    0: "as always",
    SHUFFLE_STEPS: f"shuffled every {SHUFFLE_STEPS} steps",
    1: "shuffled every step",
}
LINEAR, NEURONS = "walk (linear)", "sensory neurons"
STUDENT, BUNDLE = "neurons.pt", "bundle"
PUZZLES = {
    "as it is": Puzzle(),
    "patches shuffled": Puzzle(SHUFFLE_STEPS),
    "70 % black": Puzzle(None, 0.7),
    "70 % black, shuffled": Puzzle(SHUFFLE_STEPS, 0.7),
    "75 % taken away, shuffled": Puzzle(SHUFFLE_STEPS, taken=0.75),
}
COMPARED = ("attention-neuron", "vit", "cnn")
TABLES = LOW, HIGH = "order-low", "order-high"


@dataclass(frozen=True)
class OrderConfig:
    """Distil a low level whose inputs have no order, measure, and write the tables."""

    page: Path = Path("docs/studies.md")
    """Gets the tables, each between its two markers."""
    figures: Path = Path("docs/order.json")
    """Everything that was measured."""
    learned: Path = Path("runs/learning")
    """Folder of the training runs of make learning."""
    out: Path = Path("runs/order")
    """Folder of the distilled low level and of its bundle; existing files stay."""
    rounds: Count = 6
    """Rounds of DAgger."""
    steps: Count = 1000
    """Steps of gradient descent in a round."""
    hidden: Annotated[int, Range(1, 256)] = 24
    """Units of a sensory neuron's cell."""
    workers: Workers = 2
    """Worker processes."""
    episodes: Count = 50
    """Episodes of a cell of the tables."""
    seed: Annotated[int, Range(0, len(TRAINING) - 1)] = 0
    """Seed of the first training walk; evaluations begin at seed 10000."""
    tables: tuple[str, ...] = TABLES
    """Tables to measure: order-low, order-high, or none; the others show what is known."""


def main() -> None:
    """Command line."""
    run_command(lambda: write_tables(parse(OrderConfig, "make order")))


def write_tables(config: OrderConfig) -> None:
    """Measure what is missing and write what is known between the page's markers.

    Raises:
        UserError: if the page has no markers, the file holds other figures, a run of make learning
            is missing, or there are too few training seeds.
    """
    last = config.seed + FIRST_WALKS + config.rounds * WALKS - 1
    if last not in TRAINING:
        raise UserError(
            f"--seed {config.seed}: in {config.rounds} rounds the last walk has {last}, training "
            f"ends with {TRAINING[-1]}"
        )
    for table in TABLES:
        require_markers(config.page, table, "order")
    if not set(config.tables) <= set(TABLES):
        raise UserError(f"--tables: choose from {', '.join(TABLES)}")
    require_writable(config.figures)
    kept = read_figures(config.figures) if config.figures.exists() else []
    if LOW in config.tables:
        _measure_low_levels(config, kept)
        _export(config)
    if HIGH in config.tables:
        _measure_encoders(config, kept)
    for name, lines in ((LOW, low_level_table(config, kept)), (HIGH, encoder_table(config, kept))):
        print("\n".join(lines))
        write_between(config.page, name, "order", lines)


def teach(config: OrderConfig, pool: Pool) -> SensoryNeurons:
    """Distil a student in rounds of DAgger, or load the existing one."""
    file = config.out / STUDENT
    if file.exists():
        return _load(config)
    torch.manual_seed(config.seed)
    network = SensoryNeurons(config.hidden)
    seeds = itertools.count(config.seed)  # of training
    walks = _walks(pool, [(None, 0, next(seeds)) for _ in range(FIRST_WALKS)])[1]
    for number in range(config.rounds):
        loss = distillation.fit(network, walks, config.steps, number)
        jobs = [(network, SHUFFLE_STEPS * (i % 2), next(seeds)) for i in range(WALKS)]
        episodes, more = _walks(pool, jobs)
        walks += more
        returns = np.mean([episode.return_m for episode in episodes])
        print(f"round {number + 1}: loss {loss:.4f}, return {returns:.2f}", flush=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save({"taught": _taught(config), "weights": network.state_dict()}, buffer)
    write_atomic(file, buffer.getvalue())
    return network


def _export(config: OrderConfig) -> None:
    """Write the bundle of the student, which walks straight ahead, unless it exists."""
    if (config.out / BUNDLE / CONTRACT).exists() or not (config.out / STUDENT).exists():
        return
    taught = {"task": "order", **_taught(config)}
    provenance = {"low_level": {"config": taught, "git": git_state()}, "high_level": None}
    graph = NeuronGraph(A1, _load(config))
    write_bundle(config.out / BUNDLE, StraightAhead(), graph, provenance, name="neurons")
    print(f"next: pixelgait-eval {config.out / BUNDLE} --task follow --scene flat")


def _load(config: OrderConfig) -> SensoryNeurons:
    """Load the existing student.

    Raises:
        UserError: if the file is damaged, or was taught with other options.
    """
    network, file = SensoryNeurons(config.hidden), config.out / STUDENT
    try:
        student = torch.load(file, weights_only=True)
        taught = student["taught"]
        if taught == _taught(config):
            network.load_state_dict(student["weights"])
    except Exception as error:  # torch raises many kinds for a damaged file
        why = str(error).strip().splitlines()[-1:]
        raise UserError(
            f"{file}: no student with --hidden {config.hidden} ({' '.join(why).strip()})"
        ) from None
    if taught != _taught(config):
        raise UserError(f"{file} was taught with {taught}, not {_taught(config)}: see --out")
    return network


def _taught(config: OrderConfig) -> dict[str, int]:
    """Options that define a student."""
    return {name: getattr(config, name) for name in ("rounds", "steps", "hidden", "seed")}


def _walks(pool: Pool, jobs: Sequence[Any]) -> tuple[list[Episode], list[Walk]]:
    episodes, walks = zip(*pool.map(distillation.walk, jobs, "walks"), strict=True)
    return list(episodes), list(walks)


def _measure_low_levels(config: OrderConfig, kept: list[Figures]) -> None:
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + config.episodes)
    with WorkerPool(config.workers, distillation.start) as pool:
        for name in (LINEAR, NEURONS):
            for shuffle in SHUFFLES:
                cell = _low_cell(config, name, shuffle)
                if find_cell(kept, cell):
                    continue
                network = teach(config, pool) if name == NEURONS else None
                if network is None:
                    done = pool.map(distillation.walk_linear, [(shuffle, s) for s in seeds], name)
                    weights = LOW_LEVEL_WEIGHTS
                else:
                    done = pool.map(distillation.walk, [(network, shuffle, s) for s in seeds], name)
                    weights = sum(parameter.numel() for parameter in network.parameters())
                figures = {"weights": weights, **_followed([each for each, _ in done])}
                keep_cell(config.figures, kept, cell, figures)


def _measure_encoders(config: OrderConfig, kept: list[Figures]) -> None:
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + config.episodes)
    for name in COMPARED:
        missing = [p for p in PUZZLES if not find_cell(kept, _high_cell(config, name, p))]
        if not missing:
            continue
        run = config.learned / f"encoders-{name}-0"
        if not run.is_dir():
            raise UserError(f"{run}: no such run, make learning trains it")
        with (
            as_bundle(str(run)) as bundle,
            WorkerPool(config.workers, puzzle.start, bundle) as pool,
        ):
            for seen in missing:
                jobs = [(PUZZLES[seen], seed) for seed in seeds]
                episodes = pool.map(puzzle.walk, jobs, f"{name}, {seen}")
                figures = {
                    "success_rate": float(np.mean([each.success for each in episodes])),
                    "distance_m": float(np.mean([each.distance_m for each in episodes])),
                }
                keep_cell(config.figures, kept, _high_cell(config, name, seen), figures)


def _followed(episodes: Sequence[Episode]) -> Figures:
    """Figures of following commands; errors of episodes that did not fall at once."""
    errors = [each.metrics for each in episodes if each.metrics]
    names = ("speed_error", "yaw_rate_error")
    return {
        "fall_rate": float(np.mean([each.fell for each in episodes])),
        "return": float(np.mean([each.return_m for each in episodes])),
        **{n: float(np.mean([each[n] for each in errors])) if errors else None for n in names},
    }


def _low_cell(config: OrderConfig, name: str, shuffle: int) -> Figures:
    """A cell of the first table."""
    named = {"table": LOW, "name": name, "shuffle_steps": shuffle, "episodes": config.episodes}
    walk = {"walk_sha256": load_bundle("walk").contract["sha256"]}
    return {**named, DEFINED: {**walk, **(_taught(config) if name == NEURONS else {})}}


def _high_cell(config: OrderConfig, name: str, seen: str) -> Figures:
    """A cell of the second table, defined by its puzzle."""
    named = {"table": HIGH, "name": name, "seen": seen, "episodes": config.episodes}
    return {**named, DEFINED: asdict(PUZZLES[seen])}


def low_level_table(config: OrderConfig, kept: Sequence[Figures]) -> list[str]:
    """Falls, errors and return of low levels, inputs in their order and shuffled."""
    head = ("low level", "weights", "inputs", "falls", "speed error", "yaw-rate error", "return")
    lines = table_head(head)
    cells = [(name, shuffle) for name in (LINEAR, NEURONS) for shuffle in SHUFFLES]
    for name, shuffle in cells:
        if each := find_cell(kept, _low_cell(config, name, shuffle)):
            columns = [
                name,
                str(each["weights"]),
                SHUFFLES[shuffle],
                f"{100.0 * each['fall_rate']:.0f} %",
                _error(each["speed_error"], "m/s"),
                _error(each["yaw_rate_error"], "rad/s"),
                f"{each['return']:.2f}",
            ]
            lines.append(table_line(columns))
    return lines


def _error(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f} {unit}"


def encoder_table(config: OrderConfig, kept: Sequence[Figures]) -> list[str]:
    """Success of encoders on courses that they see as puzzles."""
    lines = table_head(("encoder", *PUZZLES))
    for name in COMPARED:
        cells = [find_cell(kept, _high_cell(config, name, seen)) for seen in PUZZLES]
        if any(cells):
            rates = [f"{100.0 * each['success_rate']:.0f} %" if each else "-" for each in cells]
            lines.append(table_line([f"`{name}`", *rates]))
    return lines


if __name__ == "__main__":
    main()
