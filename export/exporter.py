"""Exporter of bundles from training runs: graphs, parity with torch, golden vector, contract."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import onnx
import torch

from pixelgait.export import parity
from pixelgait.export.onnx_graphs import HighLevelGraph, high_level_graph, low_level_graph
from pixelgait.export.options import ExportConfig, check
from pixelgait.policies.high_level import Decider, HighLevelNetwork, StraightAhead
from pixelgait.policies.low_level import LinearGraph, LowLevelGraph
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
    DRIVER,
    FILES,
    FIXED,
    GOLDEN,
    HIGH_LEVEL,
    LOW_LEVEL,
    SCHEMA,
    START,
    Tensors,
    contract_hash,
    load_bundle,
    single_thread_session,
    tensors_of,
)
from pixelgait.robot.cli.provenance import git_state, head, settings
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.observation import camera_contract
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import json_bytes, read_json, write_atomic
from pixelgait.robot.safety.supervisor import sensor_timeouts_contract
from pixelgait.robot.spec import ROBOTS, RobotSpec, mounted, robot_numbers, spec_contract
from pixelgait.sim.body.interface import PHYSICS_DT_S
from pixelgait.sim.body.randomisation import Sample
from pixelgait.sim.world.seeds import VALIDATION


def export(config: ExportConfig) -> list[parity.Parity]:
    """Write and verify the bundle; returns the parity figures.

    Raises:
        UserError: as `check`, or if ONNX differs from torch.
    """
    low_level_run, high_level_run = check(config)
    legs = trained_low_level(low_level_run)
    usual = trained_mount(high_level_run, legs.spec) if high_level_run else legs.spec.camera
    robot = mounted(legs.spec, config.mount(usual))
    low_level = LinearGraph(replace(legs, spec=robot))
    high_level = high_level_of(config, high_level_run)
    provenance = {
        "low_level": provenance_of(low_level_run),
        "high_level": high_level_run and provenance_of(high_level_run),
    }
    rows = write_bundle(config.out, high_level, low_level, provenance, config.name, config.seed)
    if config.json is not None:
        write_atomic(config.json, json_bytes(_figures(config, rows)))
        print(f"wrote {config.json}")
    return rows


def trial_of_bundle(config: ExportConfig) -> str:
    """Command line that evaluates the bundle in the scene of its training."""
    if config.encoder:
        return trial_line(config.out)
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
    observations = parity.record(high_level, low_level, seed)
    rows, golden = [], {}
    for file, graph in graphs.items():
        samples = parity.samples_of(observations, file)
        rows += parity.compare(file, graph, modules[file], samples)
        golden[file] = _golden(graph, samples)
        _add_metadata(graph, name, low_level.spec)
    print(parity.format_table(rows))
    parity.check(rows)
    content = {file: graph.SerializeToString() for file, graph in graphs.items()}
    content[GOLDEN] = json_bytes(golden)
    hashes = {file: hashlib.sha256(data).hexdigest() for file, data in content.items()}
    tensors = {f: tensors_of(single_thread_session(content[f])) for f in graphs}
    contract = make_contract(name, low_level.spec, tensors, provenance, hashes)
    _replace(out, {**content, CONTRACT: json_bytes(contract)})
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


def _add_metadata(graph: onnx.ModelProto, name: str, spec: RobotSpec) -> None:
    """Store bundle name, joint names, gains and pose in a graph, for use without its folder."""
    joints = {
        "joint_names": spec.joint_names,
        "kp_nm_per_rad": spec.kp_nm_per_rad.tolist(),
        "kd_nms_per_rad": spec.kd_nms_per_rad.tolist(),
        "default_pose_rad": spec.default_pose_rad.tolist(),
    }
    metadata = {"bundle": name, **{key: json.dumps(values) for key, values in joints.items()}}
    for key, value in metadata.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value


def _replace(out: Path, files: dict[str, bytes]) -> None:
    """Verify the bundle in a temporary folder, then replace the files at `out`, contract last.

    The hashes refuse a bundle whose replacement was interrupted.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        load_bundle(folder)
    for name in (*FILES, CONTRACT):
        write_atomic(out / name, files[name])


def _figures(config: ExportConfig, rows: list[parity.Parity]) -> dict[str, Any]:
    """Parity figures for JSON."""
    return {
        **head("pixelgait-export"),
        "bundle": config.name,
        "sha256": read_json(config.out / CONTRACT)["sha256"],
        "settings": settings(config, "out", "json"),
        "rows": [
            {
                "graph": row.graph,
                "output": row.output,
                "samples": row.samples,
                "max_abs_difference": row.difference,
            }
            for row in rows
        ],
    }


def make_contract(
    name: str,
    spec: RobotSpec,
    graphs: Mapping[str, Tensors],
    provenance: Mapping[str, Any],
    files: Mapping[str, str],
) -> dict[str, Any]:
    """The contract as a JSON object.

    `graphs` and `files` map file names to tensors and SHA-256; `provenance` maps a level to the
    record of its training, if any.
    """
    height, width, channels = graphs[HIGH_LEVEL]["inputs"]["image"]["shape"]
    high_level, low_level = provenance.get("high_level"), provenance.get("low_level")
    content = {
        "schema": SCHEMA,
        "name": name,
        "robot": spec.name,
        **FIXED,
        "graphs": graphs,
        "spec": spec_contract(spec),
        **({} if spec.name in ROBOTS else {"robot_spec": robot_numbers(spec)}),
        "camera": {
            **camera_contract((height, width, channels)),
            "trained_latency_s": _trained(high_level, "camera_latency_s"),
            "trained_period_s": _trained(high_level, "camera_period_s"),
        },
        "motors": {
            "torque": "kp (target - q) - kd dq, within torque_limit_nm",
            "period_s": PHYSICS_DT_S,
            "trained_delay_s": _trained(low_level, "delay_s"),
            **DRIVER,
        },
        "start": {"pose_rad": standing_targets(spec).tolist(), **START},
        "sensor_timeouts": sensor_timeouts_contract(),
        "provenance": {"date": date.today().isoformat(), "export": git_state(), **provenance},
        "files": files,
    }
    contract: dict[str, Any] = json.loads(json_bytes(content))  # as a reader parses it
    contract["sha256"] = contract_hash(contract)
    return contract


def _trained(level: Mapping[str, Any] | None, name: str) -> list[float] | None:
    """Range of a delay or period in the training of a level; None: untrained."""
    if level is None:
        return None
    ranges = level.get("config", {}).get("randomisation") or {}
    ideal = getattr(Sample(), name)
    return list(ranges.get(name, (ideal, ideal)))
