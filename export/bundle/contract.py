"""The contract of a bundle: everything needed to feed its graphs, and where they came from."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from pixelgait.robot.bundle import (
    FIXED,
    SCHEMA,
    TOLERANCE,
    contract_hash,
)
from pixelgait.robot.controller import (
    ARRIVAL_M,
    LONGEST_STEPS,
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    SHORTEST_STEPS,
)
from pixelgait.robot.files import json_bytes
from pixelgait.robot.gait import A_STANCE_RAD, PARAMETERS, TROT
from pixelgait.robot.low_level import LEAST_COMMAND, RESIDUAL_RANGE_RAD
from pixelgait.robot.observation import camera_contract
from pixelgait.robot.runtime.provenance import git_state
from pixelgait.robot.spec import RobotSpec, spec_contract
from pixelgait.robot.supervisor import patience_contract


def make_contract(
    name: str,
    spec: RobotSpec,
    inputs: dict[str, list[int]],
    provenance: dict[str, Any],
    files: dict[str, str],
) -> dict[str, Any]:
    """The contract as a JSON object.

    `inputs` are shapes of what the high level takes, `files` maps file names to their SHA-256.
    """
    height, width, channels = inputs["image"]
    content = {
        "schema": SCHEMA,
        "name": name,
        "robot": spec.name,
        "spec": spec_contract(spec),
        **FIXED,
        "camera": {
            **camera_contract((height, width, channels)),
            "frame": "base: x forward, y left, z up (REP 103)",
        },
        "low_level": {
            "imu": ["roll_rad", "pitch_rad", "roll_rate_rad_per_s", "pitch_rate_rad_per_s"],
            "joint_targets": "rad, absolute, in the order of joint_names",
            "phase": "rad in [0, 2 pi); start with 0, feed next_phase back",
            "residual_range_rad": RESIDUAL_RANGE_RAD,
            "gait_parameters": [list(row) for row in PARAMETERS],
            "leg_phase_offsets": TROT.tolist(),
            "stance_amplitude_rad": A_STANCE_RAD,
            "least_command": LEAST_COMMAND,
        },
        "high_level": {
            "inputs": inputs,
            "goal": "distance m, bearing rad, left positive; inf and 0: none, straight ahead",
            "arrival_m": ARRIVAL_M,
            "state": "start with 0, feed next_state back; anew when the goal changes",
            "latent": [
                f"speed: -1..1 is 0..{MAX_SPEED_M_PER_S} m/s",
                f"yaw rate: -1..1 is -{MAX_YAW_RATE_RAD_PER_S}..{MAX_YAW_RATE_RAD_PER_S} rad/s",
            ],
            "duration_steps": [SHORTEST_STEPS, LONGEST_STEPS],
        },
        "patience": patience_contract(),
        "golden_tolerance": TOLERANCE,
        "provenance": {"date": date.today().isoformat(), "export": git_state(), **provenance},
        "files": files,
    }
    contract: dict[str, Any] = json.loads(json_bytes(content))  # as it will be read
    contract["sha256"] = contract_hash(contract)
    return contract
