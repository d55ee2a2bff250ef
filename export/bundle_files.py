"""Files of a bundle: contract, metadata of graphs, and their replacement at once."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import onnx

from pixelgait.export.options import OF_LOW_LEVEL, WALKERS, ExportConfig
from pixelgait.robot.bundle import (
    CONTRACT,
    DRIVER,
    FILES,
    FIXED,
    HIGH_LEVEL,
    SCHEMA,
    START,
    Tensors,
    contract_hash,
    golden_tolerance,
    legs_contract,
    load_bundle,
)
from pixelgait.robot.cli.provenance import git_state, head, settings
from pixelgait.robot.control.controller import HIGH_LEVEL_CONTRACT
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.observation import camera_contract
from pixelgait.robot.control.policy_map import MAP_CONTRACT
from pixelgait.robot.estimation.kinematics import posed
from pixelgait.robot.files import json_bytes, read_json, write_atomic
from pixelgait.robot.safety.supervisor import sensor_timeouts_contract
from pixelgait.robot.spec import (
    AXES,
    ROBOTS,
    TRAINED_HEIGHT,
    TRAINED_PITCH,
    Legs,
    RobotSpec,
    robot_numbers,
    spec_contract,
)
from pixelgait.sim.body.camera import Sampling
from pixelgait.sim.body.interface import PHYSICS_DT_S
from pixelgait.sim.body.randomisation import Sample


def add_metadata(graph: onnx.ModelProto, name: str, spec: RobotSpec, legs: Legs) -> None:
    """Store bundle name, joint names, gains and pose in a graph, for use without its folder."""
    joints = {
        "joint_names": spec.joint_names,
        "kp_nm_per_rad": legs.kp_nm_per_rad.tolist(),
        "kd_nms_per_rad": legs.kd_nms_per_rad.tolist(),
        "default_pose_rad": legs.default_pose_rad.tolist(),
    }
    metadata = {"bundle": name, **{key: json.dumps(values) for key, values in joints.items()}}
    for key, value in metadata.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value


def write_files(out: Path, files: dict[str, bytes]) -> None:
    """Verify the bundle in a temporary folder, then replace the files at `out`, contract last.

    The hashes refuse a bundle whose replacement was interrupted.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        load_bundle(folder)
    for name in (*FILES, CONTRACT):
        write_atomic(out / name, files[name])


def write_figures(config: ExportConfig, found: Mapping[str, Any]) -> None:
    """Write the parity figures of a written bundle to `config.json`, if it names a file."""
    if config.json is None:
        return
    unused = OF_LOW_LEVEL if config.walker else ("walker", "robot", "pace", *WALKERS)
    figures = {
        **head("pixelgait-export"),
        "bundle": config.name,
        "sha256": read_json(config.out / CONTRACT)["sha256"],
        "settings": settings(config, "out", "json", *unused),
    }
    write_atomic(config.json, json_bytes({**figures, **found}))
    print(f"wrote {config.json}")


def make_contract(
    name: str,
    spec: RobotSpec,
    graphs: Mapping[str, Tensors],
    provenance: Mapping[str, Any],
    files: Mapping[str, bytes],
    legs: Legs,
    described: Mapping[str, Any],
    pace: float = 1.0,
) -> dict[str, Any]:
    """The contract as a JSON object.

    `graphs` and `files` map file names to tensors and contents; `provenance` maps a level to the
    record of its training, if any. The high level's speed is multiplied by `pace`.
    """
    standing = posed(spec, legs.default_pose_rad)
    height, width, channels = graphs[HIGH_LEVEL]["inputs"]["image"]["shape"]
    high_level, low_level = provenance.get("high_level"), provenance.get("low_level")
    content = {
        "schema": SCHEMA,
        "name": name,
        "robot": spec.name,
        **FIXED,
        "golden_tolerance": golden_tolerance(described["kind"]),
        **({} if pace == 1.0 else {"high_level": {**HIGH_LEVEL_CONTRACT, "pace": pace}}),
        "graphs": graphs,
        "spec": spec_contract(spec),
        **({} if spec.name in ROBOTS else {"robot_spec": robot_numbers(spec)}),
        "camera": {
            **camera_contract((height, width, channels)),
            "trained_latency_s": _trained(high_level, "camera_latency_s"),
            "trained_period_s": _trained(high_level, "camera_period_s"),
            TRAINED_HEIGHT: _trained(high_level, "eye_height_m"),
            "sampling": trained_sampling(high_level),
            TRAINED_PITCH: _trained(high_level, "eye_pitch_rad"),
        },
        **({"map": MAP_CONTRACT} if "map" in graphs[HIGH_LEVEL]["inputs"] else {}),
        "legs": legs_contract(legs, standing.stand_height_m),
        "low_level": {
            **described,
            "command": dict(zip(AXES, map(list, legs.command), strict=True)),
            "least_turning_speed_m_per_s": legs.least_turning_speed_m_per_s,
        },
        "motors": {
            "torque": "kp (target - q) - kd dq, within torque_limit_nm",
            "period_s": PHYSICS_DT_S,
            "trained_delay_s": _trained(low_level, "delay_s"),
            **DRIVER,
        },
        "start": {"pose_rad": standing_targets(standing).tolist(), **START},
        "sensor_timeouts": sensor_timeouts_contract(),
        "provenance": {"date": date.today().isoformat(), "export": git_state(), **provenance},
        "files": {file: hashlib.sha256(data).hexdigest() for file, data in files.items()},
    }
    contract: dict[str, Any] = json.loads(json_bytes(content))  # as a reader parses it
    contract["sha256"] = contract_hash(contract)
    return contract


def trained_sampling(high_level: Mapping[str, Any] | None) -> Sampling:
    """How the depth of a high level's training was sampled."""
    sampling: Sampling = (high_level or {}).get("config", {}).get("sampling", "centre")
    return sampling


def _trained(level: Mapping[str, Any] | None, name: str) -> list[float] | None:
    """Range of a random number in the training of a level; None: untrained, or unknown."""
    if level is None or "config" not in level:
        return None
    ranges = level["config"].get("randomisation") or {}
    ideal = getattr(Sample(), name)
    ends = ranges.get(name) or (ideal, ideal)
    return None if ends[0] is None else list(ends)
