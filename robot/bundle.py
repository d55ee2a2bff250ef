"""The policy bundle: two ONNX graphs, their contract and a golden vector, read and verified.

A bundle is a folder:

    contract.json     how to feed the graphs: tensors, joints, gains, limits, rates, units, hashes
    high_level.onnx   image uint8 [H, W, C], goal [2] or ahead [1], state [n]
                      -> latent [2], duration_steps [1], attention [H', W'], next_state [n]
    low_level.onnx    latent [2], imu [4], joint_angles [12], phase [1], state [n]
                      -> joint_targets [12], next_phase [1], next_state [n]
    golden.json       inputs and outputs of both graphs, re-checked on the CPU that loads them

A high level takes what it is told, a goal, where ahead is, or neither; without memory no state.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from pixelgait.robot import controller as levels
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.low_level import CONTROL_DT_S, HEADING_HOLD, LATENT_SIZE, RESULTS, SIGNATURE
from pixelgait.robot.observation import IMU, NO_GOAL, camera_contract
from pixelgait.robot.spec import Array, RobotSpec, find_robot, spec_contract
from pixelgait.robot.supervisor import TILT_LIMIT_RAD, Patience, Supervisor, patience_of

Tensors = dict[str, dict[str, Any]]  # of a graph: by side and name, with type and shape

SCHEMA = 3
CONTRACT, GOLDEN = "contract.json", "golden.json"
HIGH_LEVEL, LOW_LEVEL = "high_level.onnx", "low_level.onnx"
FILES = (HIGH_LEVEL, LOW_LEVEL, GOLDEN)
TOLERANCE = 1e-5  # largest difference between runtimes or CPUs
SHIPPED = Path(__file__).resolve().parent.parent / "policies" / "pretrained"

# What a contract says, some of it for other programs.
KEYS = (
    "schema", "name", "robot", "control_dt_s", "units", "quaternion", "graphs", "spec", "imu",
    "camera", "low_level", "high_level", "heading_hold", "motors", "start", "patience",
    "tilt_limit_rad", "golden_tolerance", "provenance", "files", "sha256",
)  # fmt: skip

# How this runtime feeds every policy, as it stands in contracts.
FIXED = {
    "control_dt_s": CONTROL_DT_S,
    "units": "SI, radians",
    "quaternion": "xyzw, base in world",
    "imu": IMU,
    "high_level": levels.HIGH_LEVEL_CONTRACT,
    "heading_hold": HEADING_HOLD,
    "tilt_limit_rad": TILT_LIMIT_RAD,
    "golden_tolerance": TOLERANCE,
}
TOLD = {"goal": NO_GOAL.shape, "ahead": NO_GOAL[1:].shape}
DECISION, MEMORY = ("latent", "duration_steps", "attention"), "next_state"
TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}  # as onnxruntime calls them


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
    known = ", ".join(sorted(p.parent.name for p in SHIPPED.glob(f"*/{CONTRACT}"))) or "none"
    raise BundleError(f"bundle '{name}': no {CONTRACT} in that folder, and none shipped ({known})")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle, ready to run. Both graphs run on one thread."""

    folder: Path
    contract: dict[str, Any]
    spec: RobotSpec
    _graphs: dict[str, ort.InferenceSession]  # by file

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
        inputs = self.contract["graphs"][HIGH_LEVEL]["inputs"]
        return {name: tensor["shape"] for name, tensor in inputs.items()}

    def high_level(
        self, image: NDArray[np.uint8], goal: Array = NO_GOAL, state: levels.State = None
    ) -> levels.Decision:
        """The controller's high level: image (H, W, C), goal (2,) and state (n,) to decision."""
        told = {"goal": goal if np.isfinite(goal[0]) else NO_GOAL, "ahead": goal[1:]}
        inputs: dict[str, NDArray[Any]] = {"image": image, **told}
        latent, duration, attention, *memory = self._run(HIGH_LEVEL, DECISION, inputs, state)
        after = memory[0].astype(np.float64) if memory else None
        steps = int(min(max(levels.SHORTEST_STEPS, duration[0]), levels.LONGEST_STEPS))
        return levels.Decision(latent.astype(np.float64), steps, attention, after)

    def low_level(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        """The controller's low level."""
        values = (latent, imu, joint_angles, carried[:1])
        inputs = dict(zip(SIGNATURE, values, strict=True))
        targets, *after = self._run(LOW_LEVEL, RESULTS, inputs, carried[1:])
        return targets.astype(np.float64), np.concatenate(after, dtype=np.float64)

    def _run(
        self, file: str, gives: Iterable[str], inputs: dict[str, NDArray[Any]], state: levels.State
    ) -> list[NDArray[Any]]:
        """These outputs of a graph for what it takes of the inputs, then its next state if any."""
        takes = self.contract["graphs"][file]["inputs"]
        if cell := takes.get("state"):
            inputs["state"] = np.zeros(cell["shape"]) if state is None or not state.size else state
            gives = (*gives, MEMORY)
        given = {name: inputs[name].astype(takes[name]["type"], copy=False) for name in takes}
        return list(self._graphs[file].run([*gives], given))

    def warm_up(self) -> None:
        """Run both graphs a few times: the first inferences are slow."""
        for _ in range(20):
            self.high_level(np.zeros(self.image_shape, np.uint8))
            self.low_level(*(np.zeros(size) for size in SIGNATURE.values()))

    def controller(
        self,
        high_level: levels.HighLevel | None = None,
        patience: Mapping[str, Patience] | None = None,
        stopwatch: levels.Stopwatch = levels.NO_STOPWATCH,
    ) -> levels.Controller:
        """A controller of this bundle, or of its low level under another high level.

        How long sensors may be silent, `patience`, is by default as the contract says.
        """
        guard = Supervisor(self.spec, patience or patience_of(self.contract))
        return levels.Controller(high_level or self.high_level, self.low_level, guard, stopwatch)


def load_bundle(name: str | Path, spec: RobotSpec | None = None) -> Bundle:
    """Read and verify a bundle: a folder, or the name of a shipped one.

    It shall run on the robot `spec`, by default the one that the contract names.

    Raises:
        BundleError: anything in the folder that does not fit, by name.
    """
    folder = find_bundle(str(name))
    try:
        return _load(folder, spec)
    except BundleError:
        raise
    except UserError as error:  # of what the contract says
        raise BundleError(f"{folder / CONTRACT}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{folder / CONTRACT}: malformed ({error!r})") from None


def _load(folder: Path, spec: RobotSpec | None) -> Bundle:
    contract = read_json(folder / CONTRACT, BundleError)
    _check_contract(folder, contract)
    spec = spec or find_robot(contract["robot"])
    if contract["robot"] != spec.name:
        raise UserError(f"made for robot '{contract['robot']}', not for '{spec.name}'")
    graphs = {name: _open(folder / name) for name in (HIGH_LEVEL, LOW_LEVEL)}
    bundle = Bundle(folder, contract, spec, graphs)
    patience_of(contract)
    _check_values(contract, FIXED)
    _check_values(contract["spec"], spec_contract(spec), "spec.")
    _check_values(contract["camera"], camera_contract(bundle.image_shape), "camera.")
    _check_graphs(bundle)
    _check_golden(bundle)
    return bundle


def _check_contract(folder: Path, contract: dict[str, Any]) -> None:
    for key in KEYS:
        if key not in contract:
            raise UserError(f"key '{key}' is missing")
        if key == "schema" and contract[key] != SCHEMA:
            raise UserError(f"schema {contract[key]}, this version reads {SCHEMA}")
    if contract_hash(contract) != contract["sha256"]:
        raise UserError("content does not match its sha256, was it edited?")
    for file in FILES:
        if not (folder / file).is_file():
            raise BundleError(f"{folder / file}: file is missing")
        if hashlib.sha256((folder / file).read_bytes()).hexdigest() != contract["files"].get(file):
            raise BundleError(f"{folder / file}: content does not match the contract's sha256")


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


def tensors_of(graph: ort.InferenceSession) -> Tensors:
    """A graph's inputs and outputs by name, each with type and shape, as contracts have them."""
    nodes = {"inputs": graph.get_inputs(), "outputs": graph.get_outputs()}
    return {s: {n.name: _tensor(n.shape, n.type) for n in nodes[s]} for s in nodes}


def _tensor(shape: Sequence[Any], kind: str = "float32") -> dict[str, Any]:
    return {"type": TYPES.get(kind, kind), "shape": list(shape)}


def _tensors_used(bundle: Bundle) -> dict[str, Tensors]:
    """What this runtime gives and takes, of a policy with the goal and memory its contract says."""
    said = bundle.contract["graphs"]
    attention = said[HIGH_LEVEL]["outputs"].get("attention", {}).get("shape", ("H'", "W'"))
    image = {"image": _tensor(bundle.image_shape, "uint8")}
    decision = dict(zip(DECISION, map(_tensor, ((LATENT_SIZE,), (1,), attention)), strict=True))
    image |= {name: _tensor(shape) for name, shape in TOLD.items() if name in bundle.takes}
    given, got = ({n: _tensor((size,)) for n, size in low.items()} for low in (SIGNATURE, RESULTS))
    graphs = {HIGH_LEVEL: (image, decision), LOW_LEVEL: (given, got)}
    for file, (inputs, outputs) in graphs.items():
        if "state" in said[file]["inputs"]:
            inputs["state"] = outputs[MEMORY] = _tensor(said[file]["inputs"]["state"]["shape"])
    return {file: {"inputs": i, "outputs": o} for file, (i, o) in graphs.items()}


def _check_graphs(bundle: Bundle) -> None:
    for file, used in _tensors_used(bundle).items():
        said = bundle.contract["graphs"][file]
        for where, there in (("graph", tensors_of(bundle._graphs[file])), ("runtime", used)):
            for side, tensors in there.items():
                for name in sorted({*said[side], *tensors}):
                    one, two = (_told(each.get(name)) for each in (said[side], tensors))
                    if one != two:
                        what = f"{file}: {side[:-1]} '{name}' is {one} here, {two} in this {where}"
                        raise UserError(what)


def _told(tensor: dict[str, Any] | None) -> str:
    return f"{tensor['type']} {tensor['shape']}" if tensor else "missing"


def _check_golden(bundle: Bundle) -> None:
    golden = read_json(bundle.folder / GOLDEN, BundleError)
    for file, graph in bundle._graphs.items():
        try:
            said, told = bundle.contract["graphs"][file], golden[file]
            given = {n: np.array(v, said["inputs"][n]["type"]) for n, v in told["inputs"].items()}
            found = zip(said["outputs"], graph.run([*said["outputs"]], given), strict=True)
            off = {n: float(np.abs(v - np.array(told["outputs"][n])).max()) for n, v in found}
        except Exception as error:  # numpy's and onnxruntime's: other shapes, or no numbers
            raise BundleError(f"{bundle.folder / GOLDEN}: malformed ({error!r})") from None
        for name, difference in off.items():
            if not difference <= TOLERANCE:
                raise BundleError(
                    f"{bundle.folder / file}: golden output '{name}' is off by {difference:.2g} "
                    f"on this CPU, at most {TOLERANCE} is allowed"
                )
