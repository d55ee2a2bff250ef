"""Bundle folder and contract: files, keys, integrity, agreement with this runtime."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import HEADING_HOLD, HIGH_LEVEL_CONTRACT
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.low_level import LOW_LEVEL_CONTRACT
from pixelgait.robot.control.observation import IMU, camera_contract
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import file_sha256
from pixelgait.robot.interface import CONTROL_DT_S, DRIVER_TIMEOUT_S, FADE_S, STAND_S
from pixelgait.robot.safety.supervisor import (
    CAMERA,
    SENSOR_TIMEOUTS,
    TILT_LIMIT_RAD,
    SensorTimeouts,
    sensor_timeouts_of,
)
from pixelgait.robot.spec import Array, RobotSpec, spec_contract

CONTRACT, GOLDEN = "contract.json", "golden.json"
HIGH_LEVEL, LOW_LEVEL = "high_level.onnx", "low_level.onnx"
FILES = (HIGH_LEVEL, LOW_LEVEL, GOLDEN)  # those whose hashes are in the contract
SHIPPED = Path(__file__).resolve().parents[2] / "policies" / "pretrained"
LOW_LEVELS = {  # shipped bundles, by robot
    "a1": "walk",
    "go2": "walk-go2",
    "laikago": "walk-laikago",
    "mini_cheetah": "walk-mini-cheetah",
}

SCHEMA = 3
TOLERANCE = 1e-5  # largest difference between runtimes or CPUs

# Keys of a contract, some of them for other programs.
KEYS = (
    "schema", "name", "robot", "control_dt_s", "units", "quaternion", "graphs", "spec", "imu",
    "camera", "low_level", "high_level", "heading_hold", "motors", "start", "sensor_timeouts",
    "tilt_limit_rad", "golden_tolerance", "provenance", "files", "sha256",
)  # fmt: skip

# Keys whose values are JSON objects.
OBJECTS = (
    "graphs", "spec", "imu", "camera", "low_level", "high_level", "heading_hold", "motors",
    "start", "sensor_timeouts", "provenance", "files",
)  # fmt: skip

# Values of this runtime, the same in every contract.
FIXED = {
    "control_dt_s": CONTROL_DT_S,
    "units": "SI, radians",
    "quaternion": "xyzw, base in world",
    "imu": IMU,
    "low_level": LOW_LEVEL_CONTRACT,
    "high_level": HIGH_LEVEL_CONTRACT,
    "heading_hold": HEADING_HOLD,
    "tilt_limit_rad": TILT_LIMIT_RAD,
    "golden_tolerance": TOLERANCE,
}
START = {"ramp_s": STAND_S, "stiffness_ramp_s": FADE_S}
DRIVER = {"timeout_s": DRIVER_TIMEOUT_S}


class BundleError(UserError):
    """A bundle cannot be used; the message names what is wrong with it."""


def find_bundle(name: str) -> Path:
    """The folder of a bundle: a path, or the name of a shipped one.

    Raises:
        BundleError: if neither has a contract.
    """
    for folder in (Path(name), SHIPPED / name):
        if (folder / CONTRACT).is_file():
            return folder
    if (Path(name) / "config.yaml").is_file():
        raise BundleError(f"'{name}' is a training run: pixelgait-export makes a bundle of it")
    if (file := Path(name)).is_file():
        there = f", as {file.parent}" if (file.parent / CONTRACT).is_file() else ""
        raise BundleError(f"'{name}' is a file, expected a folder with {CONTRACT}{there}")
    known = ", ".join(sorted(p.parent.name for p in SHIPPED.glob(f"*/{CONTRACT}"))) or "none"
    raise BundleError(f"bundle '{name}': no {CONTRACT} in that folder, and none shipped ({known})")


def shipped_low_level(robot: str) -> Path:
    """The folder of the shipped low level of a robot.

    Raises:
        UserError: if none is shipped.
    """
    if robot not in LOW_LEVELS:
        raise UserError(f"no low level is shipped for '{robot}': train one, pixelgait-train follow")
    return SHIPPED / LOW_LEVELS[robot]


def contract_hash(contract: dict[str, Any]) -> str:
    """SHA-256 of the contract without its own hash."""
    content = {key: value for key, value in contract.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_integrity(folder: Path, contract: dict[str, Any]) -> None:
    """Check that a contract is complete, and that the folder's files match its hashes.

    Raises:
        UserError: if a key is missing or has a wrong type, or the contract was edited.
        BundleError: if a file is missing or differs.
    """
    for key in KEYS:
        if key not in contract:
            raise UserError(f"key '{key}' is missing")
        if key == "schema" and contract[key] != SCHEMA:
            raise UserError(f"schema {contract[key]}, this version reads {SCHEMA}")
    for key in OBJECTS:
        if not isinstance(contract[key], dict):
            raise UserError(f"{key} is {contract[key]!r}, expected a JSON object")
    name = contract["name"]
    if not isinstance(name, str) or not name.isprintable():  # it appears in reports and recordings
        raise UserError(f"name is {name!r}, expected text")
    if contract_hash(contract) != contract["sha256"]:
        raise UserError("content does not match its sha256, was it edited?")
    for file in FILES:
        if not (folder / file).is_file():
            raise BundleError(f"{folder / file}: file is missing")
        if file_sha256(folder / file) != contract["files"].get(file):
            raise BundleError(f"{folder / file}: content does not match the contract's sha256")


def check_agreement(
    contract: dict[str, Any], spec: RobotSpec, image_shape: tuple[int, int, int]
) -> None:
    """Check that this runtime works as a contract says, for this robot and images (H, W, C).

    Raises:
        UserError: if not; names the key.
    """
    sensor_timeouts = sensor_timeouts_of(contract)
    _check_sensor_timeouts(sensor_timeouts)
    _check_values(contract, FIXED)
    again = {"stand_after_s": sensor_timeouts[CAMERA].stale_s}  # when the controller stands
    _check_values(contract["high_level"]["look_again"], again, "high_level.look_again.")
    _check_values(contract["spec"], spec_contract(spec), "spec.")
    _check_values(contract["camera"], camera_contract(image_shape), "camera.")
    _check_values(contract["motors"], DRIVER, "motors.")
    _check_values(contract["start"], START, "start.")
    _check_pose(contract["start"]["pose_rad"], standing_targets(spec))


def _check_sensor_timeouts(sensor_timeouts: Mapping[str, SensorTimeouts]) -> None:
    """Check that no time-out exceeds this runtime's: a file must not loosen them."""
    for sensor, ages in sensor_timeouts.items():
        for name, age_s in ages._asdict().items():
            if age_s > (most_s := getattr(SENSOR_TIMEOUTS[sensor], name)):
                what = f"sensor_timeouts.{sensor}.{name} is {age_s}"
                raise UserError(f"{what}, this runtime allows {most_s} at most")


def _check_pose(pose: Any, standing: Array) -> None:
    """Check the contract's standing pose: soft legs bear weight in it by the robot's numbers."""
    same_shape = np.shape(pose) == standing.shape
    if not (same_shape and np.abs(np.asarray(pose) - standing).max() <= TOLERANCE):
        rounded = [round(angle, 4) for angle in standing.tolist()]
        raise UserError(f"start.pose_rad is {pose}, this runtime stands at {rounded}")


def _check_values(content: Any, needed: dict[str, Any], within: str = "") -> None:
    """Check that a contract has these values, key by key."""
    for key, value in needed.items():
        name = within + key
        if key not in content:
            raise UserError(f"key '{name}' is missing")
        if isinstance(value, dict):
            _check_values(content[key], value, f"{name}.")
        elif content[key] != value:
            raise UserError(f"{name} is {content[key]}, this runtime works with {value}")
