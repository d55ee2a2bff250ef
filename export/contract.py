"""Contract of a bundle: inputs and outputs of its graphs, robot, camera, motors, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from pixelgait.robot.bundle import (
    DRIVER,
    FIXED,
    HIGH_LEVEL,
    SCHEMA,
    START,
    Tensors,
    contract_hash,
)
from pixelgait.robot.cli.provenance import git_state
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.observation import camera_contract
from pixelgait.robot.files import json_bytes
from pixelgait.robot.safety.supervisor import sensor_timeouts_contract
from pixelgait.robot.spec import RobotSpec, spec_contract
from pixelgait.sim.body.interface import PHYSICS_DT_S
from pixelgait.sim.body.randomisation import Sample


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
