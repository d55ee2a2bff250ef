"""What a contract says, and whether it is what this runtime does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pixelgait.robot.bundle.folder import FILES, BundleError
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

SCHEMA = 3
TOLERANCE = 1e-5  # largest difference between runtimes or CPUs

# What a contract says, some of it for other programs.
KEYS = (
    "schema", "name", "robot", "control_dt_s", "units", "quaternion", "graphs", "spec", "imu",
    "camera", "low_level", "high_level", "heading_hold", "motors", "start", "sensor_timeouts",
    "tilt_limit_rad", "golden_tolerance", "provenance", "files", "sha256",
)  # fmt: skip

# Which of it are objects, whatever they hold.
OBJECTS = (
    "graphs", "spec", "imu", "camera", "low_level", "high_level", "heading_hold", "motors",
    "start", "sensor_timeouts", "provenance", "files",
)  # fmt: skip

# How this runtime feeds every policy, as it stands in contracts.
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


def contract_hash(contract: dict[str, Any]) -> str:
    """SHA-256 of the contract without its own hash."""
    content = {key: value for key, value in contract.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_integrity(folder: Path, contract: dict[str, Any]) -> None:
    """Whether a contract is whole, and the files in its folder are those it was written for.

    Raises:
        UserError: a key is missing or holds something else than it should, or it was edited.
        BundleError: a file is missing or another one.
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
    if not isinstance(name, str) or not name.isprintable():  # it stands in reports and recordings
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
    """Whether this runtime does what a contract says, for this robot and images (H, W, C).

    Raises:
        UserError: it does not; names the key.
    """
    sensor_timeouts = sensor_timeouts_of(contract)
    _check_sensor_timeouts(sensor_timeouts)
    _check_values(contract, FIXED)
    again = {"stand_after_s": sensor_timeouts[CAMERA].stale_s}  # by which the controller stands
    _check_values(contract["high_level"]["look_again"], again, "high_level.look_again.")
    _check_values(contract["spec"], spec_contract(spec), "spec.")
    _check_values(contract["camera"], camera_contract(image_shape), "camera.")
    _check_values(contract["motors"], DRIVER, "motors.")
    _check_values(contract["start"], START, "start.")
    _check_pose(contract["start"]["pose_rad"], standing_targets(spec))


def _check_sensor_timeouts(sensor_timeouts: Mapping[str, SensorTimeouts]) -> None:
    """Whether no sensor may be older than this runtime lets it be: a file must not loosen that."""
    for sensor, ages in sensor_timeouts.items():
        for name, age_s in ages._asdict().items():
            if age_s > (most_s := getattr(SENSOR_TIMEOUTS[sensor], name)):
                what = f"sensor_timeouts.{sensor}.{name} is {age_s}"
                raise UserError(f"{what}, this runtime allows {most_s} at most")


def _check_pose(said: Any, stands: Array) -> None:
    """Whether the robot stands up into the pose that a contract says: soft legs bear weight there
    with what the policy knows of it."""
    alike = np.shape(said) == stands.shape and np.abs(np.asarray(said) - stands).max() <= TOLERANCE
    if not alike:
        pose = [round(each, 4) for each in stands.tolist()]
        raise UserError(f"start.pose_rad is {said}, this runtime stands at {pose}")


def _check_values(said: Any, needed: dict[str, Any], within: str = "") -> None:
    """Whether a contract says what this runtime does, key by key."""
    for key, value in needed.items():
        name = within + key
        if key not in said:
            raise UserError(f"key '{name}' is missing")
        if isinstance(value, dict):
            _check_values(said[key], value, f"{name}.")
        elif said[key] != value:
            raise UserError(f"{name} is {said[key]}, this runtime works with {value}")
