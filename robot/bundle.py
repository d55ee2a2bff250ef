"""The policy bundle: two ONNX graphs, their contract and a golden vector, read and verified.

A bundle is a folder:

    contract.json     how to feed the graphs: joints, gains, limits, rates, camera, units, hashes
    high_level.onnx   image uint8 [H, W, C], goal [2], state [n]
                      -> latent [2], duration_steps [1], attention [H', W'], next_state [n]
    low_level.onnx    latent [2], imu [4], joint_angles [12], phase [1]
                      -> joint_targets [12], next_phase [1]
    golden.json       inputs and outputs of both graphs, re-checked on the CPU that loads them

A high level that is not told where to go has no goal, and one without memory no states.

What does not fit is refused with a `BundleError` that names it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from pixelgait.robot.controller import (
    HEADING_HOLD,
    NO_STOPWATCH,
    Controller,
    Decision,
    HighLevel,
    State,
    Stopwatch,
)
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.low_level import CONTROL_DT_S, SIGNATURE
from pixelgait.robot.observation import ENCODINGS, NO_GOAL, camera_contract
from pixelgait.robot.spec import ROBOTS, Array, RobotSpec, spec_contract
from pixelgait.robot.supervisor import Patience, Supervisor, patience_of

SCHEMA = 2
CONTRACT, GOLDEN = "contract.json", "golden.json"
HIGH_LEVEL, LOW_LEVEL = "high_level.onnx", "low_level.onnx"
FILES = (HIGH_LEVEL, LOW_LEVEL, GOLDEN)
WARM_UP = 20  # inferences
TOLERANCE = 1e-5  # largest difference between runtimes or CPUs
SHIPPED = Path(__file__).resolve().parent.parent / "policies" / "pretrained"

# What a contract must say, beside what comes from the robot's specification.
KEYS = (
    "schema", "name", "robot", "spec", "control_dt_s", "camera", "low_level", "high_level",
    "units", "quaternion", "heading_hold", "provenance", "files", "sha256",
)  # fmt: skip

# Conventions of this runtime that a policy must have been trained with.
CONVENTIONS = {"units": "SI, radians", "quaternion": "xyzw, base in world"}
FIXED = {"control_dt_s": CONTROL_DT_S, "heading_hold": HEADING_HOLD, **CONVENTIONS}


class BundleError(UserError):
    """The bundle cannot be used; the message names what is wrong with it."""


def contract_hash(contract: dict[str, Any]) -> str:
    """SHA-256 of the contract without its own hash."""
    content = {key: value for key, value in contract.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def find_bundle(name: str) -> Path:
    """The folder of a bundle: a path, or the name of a shipped one."""
    for folder in (Path(name), SHIPPED / name):
        if (folder / CONTRACT).is_file():
            return folder
    if (Path(name) / "config.json").is_file():
        raise BundleError(f"'{name}' is a training run: pixelgait-export makes a bundle of it")
    shipped = sorted(p.parent.name for p in SHIPPED.glob(f"*/{CONTRACT}"))
    known = ", ".join(shipped) or "none"
    raise BundleError(f"bundle '{name}': no {CONTRACT} in that folder, and none shipped ({known})")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle, ready to run. Both graphs run on one thread."""

    folder: Path
    contract: dict[str, Any]
    spec: RobotSpec
    _high_level: ort.InferenceSession
    _low_level: ort.InferenceSession

    @property
    def control_dt_s(self) -> float:
        """Length of a control step [s]."""
        return float(self.contract["control_dt_s"])

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the camera image."""
        camera = self.contract["camera"]
        return camera["height"], camera["width"], camera["channels"]

    @property
    def takes(self) -> dict[str, list[int]]:
        """What the high level is given, by name, with shapes."""
        inputs: dict[str, list[int]] = self.contract["high_level"]["inputs"]
        return inputs

    def high_level(
        self, image: NDArray[np.uint8], goal: Array = NO_GOAL, state: State = None
    ) -> Decision:
        """The controller's high level: image (H, W, C), goal (2,) and state (n,) to decision."""
        inputs: dict[str, NDArray[Any]] = {"image": image}
        if "goal" in self.takes:
            inputs["goal"] = goal.astype(np.float32)
        if "state" in self.takes:
            remembered = np.zeros(self.takes["state"]) if state is None else state
            inputs["state"] = remembered.astype(np.float32)
        latent, duration, attention, *memory = self._high_level.run(None, inputs)
        after = memory[0].astype(np.float64) if memory else None
        return Decision(latent.astype(np.float64), int(duration[0]), attention, after)

    def low_level(
        self, latent: Array, imu: Array, joint_angles: Array, phase: Array
    ) -> tuple[Array, Array]:
        """The controller's low level, see `LinearLowLevel`."""
        values = (latent, imu, joint_angles, phase)
        inputs = {n: v.astype(np.float32) for n, v in zip(SIGNATURE, values, strict=True)}
        targets, phase = self._low_level.run(None, inputs)
        return targets.astype(np.float64), phase.astype(np.float64)

    def warm_up(self) -> None:
        """Run both graphs a few times: the first inferences are slow."""
        image = np.zeros(self.image_shape, np.uint8)
        for _ in range(WARM_UP):
            self.high_level(image)
            self.low_level(*(np.zeros(size) for size in SIGNATURE.values()))

    def controller(
        self,
        high_level: HighLevel | None = None,
        patience: Mapping[str, Patience] | None = None,
        stopwatch: Stopwatch = NO_STOPWATCH,
    ) -> Controller:
        """A controller of this bundle, or of its low level under another high level.

        How long sensors may be silent, `patience`, is by default as the contract says.
        """
        supervisor = Supervisor(self.spec, patience or patience_of(self.contract))
        return Controller(high_level or self.high_level, self.low_level, supervisor, stopwatch)


def load_bundle(name: str | Path, spec: RobotSpec | None = None) -> Bundle:
    """Read and verify a bundle.

    Args:
        name: a folder, or the name of a shipped bundle.
        spec: the robot it shall run on; by default the one the contract names.

    Raises:
        BundleError: anything in the folder that does not fit, by name.
    """
    folder = find_bundle(str(name))
    try:
        return _load(folder, spec)
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{folder / CONTRACT}: malformed ({error!r})") from None


def _load(folder: Path, spec: RobotSpec | None) -> Bundle:
    contract = read_json(folder / CONTRACT, BundleError)
    _check_contract(folder, contract)
    _check_camera(folder, contract["camera"])
    patience_of(contract)
    spec = spec or _robot_of(folder, contract)
    _check_robot(folder, contract, spec)
    high_level, low_level = (_open(folder / name) for name in (HIGH_LEVEL, LOW_LEVEL))
    bundle = Bundle(folder, contract, spec, high_level, low_level)
    _check_shapes(bundle)
    _check_golden(bundle)
    return bundle


def _check_contract(folder: Path, contract: dict[str, Any]) -> None:
    for key in KEYS:
        if key not in contract:
            raise BundleError(f"{folder / CONTRACT}: key '{key}' is missing")
    if contract["schema"] != SCHEMA:
        raise BundleError(
            f"{folder / CONTRACT}: schema {contract['schema']}, this version reads {SCHEMA}"
        )
    for key, value in FIXED.items():
        if contract[key] != value:
            raise BundleError(
                f"{folder / CONTRACT}: {key} is {contract[key]}, this runtime works with {value}"
            )
    if contract_hash(contract) != contract["sha256"]:
        raise BundleError(f"{folder / CONTRACT}: content does not match its sha256, was it edited?")
    for file in FILES:
        if not (folder / file).is_file():
            raise BundleError(f"{folder / file}: file is missing")
        digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        if digest != contract["files"].get(file):
            raise BundleError(f"{folder / file}: content does not match the contract's sha256")


def _robot_of(folder: Path, contract: dict[str, Any]) -> RobotSpec:
    name = contract["robot"]
    if name not in ROBOTS:
        raise BundleError(
            f"{folder / CONTRACT}: unknown robot '{name}', known are {', '.join(ROBOTS)}"
        )
    return ROBOTS[name]


def _check_robot(folder: Path, contract: dict[str, Any], spec: RobotSpec) -> None:
    if contract["robot"] != spec.name:
        raise BundleError(
            f"{folder / CONTRACT}: made for robot '{contract['robot']}', not for '{spec.name}'"
        )
    for key, value in spec_contract(spec).items():
        if contract["spec"].get(key) != value:
            raise BundleError(
                f"{folder / CONTRACT}: {key} differs from robot '{spec.name}': "
                f"{contract['spec'].get(key)} instead of {value}"
            )


def single_thread_session(model: bytes) -> ort.InferenceSession:
    """A graph in onnxruntime on one thread: idle ones of its pool would spin on a core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open(path: Path) -> ort.InferenceSession:
    try:
        return single_thread_session(path.read_bytes())
    except Exception as error:  # onnxruntime raises a family of its own without a common base
        raise BundleError(f"{path}: onnxruntime cannot load it ({error})") from None


def _check_camera(folder: Path, camera: dict[str, Any]) -> None:
    if (channels := camera["channels"]) not in ENCODINGS:
        known = ", ".join(f"{count} ({name})" for count, name in ENCODINGS.items())
        raise BundleError(
            f"{folder / CONTRACT}: camera with {channels} channels, this runtime feeds {known}"
        )
    for key, value in camera_contract((camera["height"], camera["width"], channels)).items():
        if camera.get(key) != value:
            raise BundleError(
                f"{folder / CONTRACT}: camera with {channels} channels and {key} "
                f"{camera.get(key)}, this runtime feeds {value}"
            )


def _check_shapes(bundle: Bundle) -> None:
    expected: dict[str, Any] = {
        HIGH_LEVEL: {**bundle.takes, "image": list(bundle.image_shape)},
        LOW_LEVEL: {name: [size] for name, size in SIGNATURE.items()},
    }
    sessions = {HIGH_LEVEL: bundle._high_level, LOW_LEVEL: bundle._low_level}
    for file, inputs in expected.items():
        found = {node.name: node.shape for node in sessions[file].get_inputs()}
        if found != inputs:
            raise BundleError(
                f"{bundle.folder / file}: inputs {found} of the graph, {inputs} in the contract"
            )


def _check_golden(bundle: Bundle) -> None:
    golden = read_json(bundle.folder / GOLDEN, BundleError)
    for file, session in ((HIGH_LEVEL, bundle._high_level), (LOW_LEVEL, bundle._low_level)):
        types = {node.name: node.type for node in session.get_inputs()}
        inputs = {
            name: np.array(value, np.uint8 if types[name] == "tensor(uint8)" else np.float32)
            for name, value in golden[file]["inputs"].items()
        }
        names = [node.name for node in session.get_outputs()]
        for name, value in zip(names, session.run(None, inputs), strict=True):
            difference = np.max(np.abs(value - np.array(golden[file]["outputs"][name])))
            if not difference <= TOLERANCE:
                raise BundleError(
                    f"{bundle.folder / file}: golden output '{name}' is off by {difference:.2g} "
                    f"on this CPU, at most {TOLERANCE} is allowed"
                )
