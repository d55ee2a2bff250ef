"""Exporter of bundles from training runs: graphs, parity with torch, golden vector, contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

from pixelgait.export import parity
from pixelgait.export.bundle_files import (
    add_metadata,
    make_contract,
    trained_sampling,
    write_figures,
    write_files,
)
from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph, low_level_graph
from pixelgait.export.options import ExportConfig, check
from pixelgait.policies.high_level import Decider, HighLevelNetwork, StraightAhead
from pixelgait.policies.low_level import LowLevelGraph, graph_of
from pixelgait.policies.runs.run import find_run
from pixelgait.policies.runs.trained import (
    provenance_of,
    trained_high_level,
    trained_low_level,
    trained_mount,
    trial_line,
    trial_of,
)
from pixelgait.robot.bundle import (
    CONTRACT,
    GOLDEN,
    HIGH_LEVEL,
    LOW_LEVEL,
    single_thread_session,
    tensors_of,
)
from pixelgait.robot.control.controller import gait_legs
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes
from pixelgait.robot.spec import mounted
from pixelgait.sim.world.seeds import VALIDATION


def export(config: ExportConfig) -> list[parity.Parity]:
    """Write and verify the bundle; returns the parity figures.

    Raises:
        UserError: as `check`, or if ONNX differs from torch.
    """
    low_level_run, high_level_run = check(config)
    assert low_level_run is not None
    legs = trained_low_level(low_level_run)
    usual = trained_mount(high_level_run, legs.spec) if high_level_run else legs.spec.camera
    robot = mounted(legs.spec, config.mount(usual))
    low_level = graph_of(replace(legs, spec=robot))
    high_level = high_level_of(config, high_level_run)
    provenance = {
        "low_level": provenance_of(low_level_run),
        "high_level": high_level_run and provenance_of(high_level_run),
    }
    rows = write_bundle(config.out, high_level, low_level, provenance, config.name, config.seed)
    write_figures(config, {"rows": _figures(rows)})
    return rows


def trial_of_bundle(config: ExportConfig) -> str:
    """Command line that evaluates the bundle in the scene of its training."""
    if config.encoder:
        return trial_line(config.out)
    assert config.low_level is not None
    low_level = find_run(config.low_level, "low_level")
    high_level = config.high_level and find_run(config.high_level, "high_level")
    return trial_line(config.out, trial_of(low_level, high_level))


def write_bundle(
    out: Path,
    high_level: Decider,
    low_level: LowLevelGraph,
    provenance: dict[str, Any],
    name: str = "policy",
    seed: int = VALIDATION.start,
) -> list[parity.Parity]:
    """Write and verify the bundle of two networks.

    Args:
        out: folder of the bundle.
        high_level: network that decides.
        low_level: network that moves the legs.
        provenance: record of the training, by level.
        name: name of the bundle in its contract.
        seed: course of the recorded observations.

    Returns:
        The parity figures.

    Raises:
        UserError: if ONNX differs from torch.
    """
    modules = {HIGH_LEVEL: HighLevelGraph(high_level), LOW_LEVEL: low_level}
    graphs = {HIGH_LEVEL: high_level_graph(high_level), LOW_LEVEL: low_level_graph(low_level)}
    observations = parity.record(
        high_level, low_level, seed, trained_sampling(provenance.get("high_level"))
    )
    described = low_level.contract
    legs = gait_legs(low_level.spec, str(described["kind"]))
    rows, golden = [], {}
    for file, graph in graphs.items():
        samples = parity.samples_of(observations, file)
        rows += parity.compare(file, graph, modules[file], samples)
        golden[file] = _golden(graph, samples)
        add_metadata(graph, name, low_level.spec, legs)
    print(parity.format_table(rows))
    parity.check(rows)
    content = {file: graph.SerializeToString() for file, graph in graphs.items()}
    content[GOLDEN] = json_bytes(golden)
    tensors = {f: tensors_of(single_thread_session(content[f])) for f in graphs}
    contract = make_contract(name, low_level.spec, tensors, provenance, content, legs, described)
    write_files(out, {**content, CONTRACT: json_bytes(contract)})
    print(f"wrote the bundle {out}")
    return rows


def high_level_of(config: ExportConfig, run: Path | None) -> Decider:
    """The trained high level of a run, an untrained one, or one that walks straight ahead.

    Raises:
        UserError: if the run folder or the encoder cannot be used.
    """
    if run is not None:
        return trained_high_level(run)
    if not config.encoder:
        return StraightAhead()
    torch.manual_seed(config.seed)
    try:
        return HighLevelNetwork(config.encoder)
    except ValueError as error:
        raise UserError(f"--encoder: {error}") from None


def _golden(graph: onnx.ModelProto, samples: Sequence[parity.Tensors]) -> dict[str, Any]:
    """Inputs and outputs from the middle of the observations, while the robot walks."""
    sample = samples[len(samples) // 2]
    output = parity.run_onnx(graph, [sample])[0]
    return {
        "inputs": {name: value.tolist() for name, value in sample.items()},
        "outputs": {name: value.tolist() for name, value in output.items()},
    }


def _figures(rows: list[parity.Parity]) -> list[dict[str, Any]]:
    """Parity figures for JSON."""
    return [
        {
            "graph": row.graph,
            "output": row.output,
            "samples": row.samples,
            "max_abs_difference": row.difference,
        }
        for row in rows
    ]
