"""Policy bundle: two ONNX graphs and a contract, verified when loaded, run in ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle.low_level_graph import CARRIED, FEEDS, TARGETS, fed, outputs
from pixelgait.robot.control.controller import (
    HEADING_HOLD,
    HIGH_LEVEL_CONTRACT,
    LONGEST_STEPS,
    NO_STOPWATCH,
    SHORTEST_STEPS,
    STAND,
    Controller,
    Decision,
    HighLevel,
    MemoryState,
    Stopwatch,
    gait_legs,
)
from pixelgait.robot.control.gait import standing_targets
from pixelgait.robot.control.low_level import CONTRACTS, LATENT_SIZE
from pixelgait.robot.control.observation import IMU, NO_GOAL, camera_contract
from pixelgait.robot.control.policy_map import HERE, MAP_CONTRACT, PolicyMap
from pixelgait.robot.control.policy_map import ROWS as MAP_ROWS
from pixelgait.robot.control.velocity import Response, VelocityController
from pixelgait.robot.errors import UserError
from pixelgait.robot.estimation.kinematics import posed
from pixelgait.robot.estimation.leg_odometry import LegOdometry
from pixelgait.robot.files import file_sha256, read_json
from pixelgait.robot.interface import (
    CONTROL_DT_S,
    DRIVER_TIMEOUT_S,
    FADE_S,
    STAND_S,
    Image,
    Reading,
)
from pixelgait.robot.mapping.height_scan import POINTS
from pixelgait.robot.safety.supervisor import (
    CAMERA,
    SENSOR_TIMEOUTS,
    TILT_LIMIT_RAD,
    SensorTimeouts,
    Supervisor,
    sensor_timeouts_of,
)
from pixelgait.robot.safety.velocity import VelocitySupervisor
from pixelgait.robot.spec import (
    AXES,
    ROBOTS,
    Array,
    Legs,
    RobotSpec,
    TrainedMounts,
    find_robot,
    mount_in,
    mounted,
    robot_from_numbers,
    robot_numbers,
    spec_contract,
    trained_mounts,
)

if TYPE_CHECKING:
    import onnxruntime as ort
Graphs = dict[str, "ort.InferenceSession"]  # by file
Tensors = dict[str, dict[str, Any]]  # of a graph: by side and name, with type and shape

GOAL_INPUTS = {"goal": NO_GOAL.shape, "ahead": NO_GOAL[1:].shape}
DECISION, MEMORY = ("latent", "duration_steps", "attention"), "next_state"
TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}  # as onnxruntime calls them
# Assumption: inferences of each graph at start. The first ones take two to three times as long,
# until memory is allocated and caches are filled; with shipped bundles the first six.
WARM_UP = 20
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

WALKER = "walker"  # kind of low level: a third-party policy
# Largest gains and velocities of a walker; assumptions, beyond any that was published.
MOST_KP, MOST_KD, FASTEST = 1000.0, 100.0, 5.0
FASTEST_PACE = 4.0  # assumption
HAVE = {"phase": (LOW_LEVEL,), "state": (HIGH_LEVEL, LOW_LEVEL)}  # graphs with that state

SCHEMA = 5
TOLERANCE = 1e-5  # largest difference between runtimes or CPUs
# The same of a walker: sums over hundreds of values, and actions of several units in its state.
WALKER_TOLERANCE = 1e-4

# Keys of a contract, some of them for other programs.
KEYS = (
    "schema", "name", "robot", "control_dt_s", "units", "quaternion", "graphs", "spec", "imu",
    "camera", "legs", "low_level", "high_level", "heading_hold", "motors", "start",
    "sensor_timeouts", "tilt_limit_rad", "golden_tolerance", "provenance", "files", "sha256",
)  # fmt: skip

# Keys whose values are JSON objects.
OBJECTS = (
    "graphs", "spec", "imu", "camera", "legs", "low_level", "high_level", "heading_hold", "motors",
    "start", "sensor_timeouts", "provenance", "files",
)  # fmt: skip

# Values of this runtime, the same in every contract.
FIXED = {
    "control_dt_s": CONTROL_DT_S,
    "units": "SI, radians",
    "quaternion": "xyzw, base in world",
    "imu": IMU,
    "high_level": HIGH_LEVEL_CONTRACT,
    "heading_hold": HEADING_HOLD,
    "tilt_limit_rad": TILT_LIMIT_RAD,
}
START = {"ramp_s": STAND_S, "stiffness_ramp_s": FADE_S}
DRIVER = {"timeout_s": DRIVER_TIMEOUT_S}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle, ready to run. Both graphs run on one thread."""

    folder: Path
    contract: dict[str, Any]
    spec: RobotSpec  # in the default pose of the legs
    legs: Legs
    _graphs: Graphs

    @property
    def control_dt_s(self) -> float:
        """Length of a control step [s]."""
        return float(self.contract["control_dt_s"])

    @property
    def pace(self) -> float:
        """Factor on the high level's speed, for a walker that is faster than its training."""
        return float(self.contract["high_level"].get("pace", 1.0))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the camera image."""
        camera = self.contract["camera"]
        return camera["height"], camera["width"], camera["channels"]

    @property
    def trained_mounts(self) -> TrainedMounts:
        """Mounts of the camera that the policy knows."""
        return trained_mounts(self.contract["camera"], self.spec.camera, self.spec.stand_height_m)

    @property
    def takes(self) -> dict[str, list[int]]:
        """Inputs of the high level, by name, with shapes."""
        inputs = self.contract["graphs"][HIGH_LEVEL]["inputs"]
        return {name: tensor["shape"] for name, tensor in inputs.items()}

    def high_level(
        self,
        image: NDArray[np.uint8],
        goal: Array = NO_GOAL,
        state: MemoryState = None,
        around: NDArray[np.uint8] | None = None,
    ) -> Decision:
        """The high level: from image (H, W, C) uint8, goal (2,), state (n,) and map (32, W) uint8
        to a decision; without a map one that has seen nothing.

        Raises:
            UserError: if the image has another type or shape (floats 0 to 1 would look black).
        """
        shape = self.image_shape
        if getattr(image, "shape", None) != shape or image.dtype != np.uint8:
            kind = f"{getattr(image, 'dtype', image)} {getattr(image, 'shape', '')}".strip()
            raise UserError(f"an image is {kind}, expected uint8 of {shape}")
        goals = {"goal": goal if np.isfinite(goal[0]) else NO_GOAL, "ahead": goal[1:]}
        inputs: dict[str, NDArray[Any]] = {"image": image, **goals}
        if cells := self.takes.get("map"):
            inputs["map"] = np.full(cells, HERE, np.uint8) if around is None else around
        latent, duration, attention, *memory = self._run(HIGH_LEVEL, DECISION, inputs, state)
        after = memory[0].astype(np.float64) if memory else None
        steps = int(min(max(SHORTEST_STEPS, duration[0]), LONGEST_STEPS))
        clipped = latent.astype(np.float64).clip(-1.0, 1.0)  # foreign graphs may exceed the range
        clipped[0] = (clipped[0] + 1.0) * self.pace - 1.0 if self.pace != 1.0 else clipped[0]
        return Decision(clipped, steps, attention, after)

    def low_level(self, latent: Array, reading: Reading, carried: Array) -> tuple[Array, Array]:
        """The low level, see `controller.LowLevel`."""
        inputs = self.contract["graphs"][LOW_LEVEL]["inputs"]
        given = fed(inputs, self.legs, latent, reading, carried)
        targets, *after = self._graphs[LOW_LEVEL].run(outputs(inputs), given)
        carried = np.concatenate(after, dtype=np.float64) if after else carried
        return targets.astype(np.float64), carried

    def _run(
        self, file: str, outputs: Iterable[str], inputs: dict[str, NDArray[Any]], state: MemoryState
    ) -> list[NDArray[Any]]:
        """Run a graph on those inputs that it takes; its next state, if any, comes last."""
        takes = self.contract["graphs"][file]["inputs"]
        if cell := takes.get("state"):
            inputs["state"] = np.zeros(cell["shape"]) if state is None or not state.size else state
            outputs = (*outputs, MEMORY)
        given = {name: inputs[name].astype(takes[name]["type"], copy=False) for name in takes}
        return list(self._graphs[file].run([*outputs], given))

    def warm_up(self) -> None:
        """Run both graphs a few times: the first inferences are slow."""
        level = Reading(
            0.0,
            self.spec.default_pose_rad,
            np.zeros(12),
            np.array((0.0, 0.0, 0.0, 1.0)),
            np.zeros(3),
            lambda: Image(np.zeros(self.image_shape, np.uint8), 0.0),
            linear_velocity=np.zeros(3),
            height_scan=np.full(len(POINTS), self.spec.stand_height_m),
        )
        for _ in range(WARM_UP):
            self.high_level(np.zeros(self.image_shape, np.uint8))
            self.low_level(STAND, level, np.zeros(1))

    def controller(
        self,
        high_level: HighLevel | None = None,
        sensor_timeouts: Mapping[str, SensorTimeouts] | None = None,
        stopwatch: Stopwatch = NO_STOPWATCH,
    ) -> Controller:
        """A controller of this bundle, or of its low level with another high level.

        `sensor_timeouts` are by default those of the contract.
        """
        timeouts = sensor_timeouts or sensor_timeouts_of(self.contract)
        guard = Supervisor(self.spec, timeouts, self.legs)
        decides = self.high_level if high_level is None else high_level
        senses = self.odometry(), self.map()
        return Controller(decides, self.low_level, guard, stopwatch, *senses)

    def map(self) -> PolicyMap | None:
        """A fresh map for a high level that takes one."""
        return PolicyMap(self.spec, *self.image_shape[:2]) if "map" in self.takes else None

    def observes(self, name: str) -> bool:
        """Whether the low level takes this of `FEEDS`."""
        return name in self.contract["graphs"][LOW_LEVEL]["inputs"]

    def odometry(self) -> LegOdometry | None:
        """Leg odometry of a low level that observes the base's velocity; None: it does not."""
        return LegOdometry(self.spec) if self.observes("linear_velocity") else None

    def velocity_controller(
        self,
        response: Response,
        sensor_timeouts: Mapping[str, SensorTimeouts] | None = None,
        stopwatch: Stopwatch = NO_STOPWATCH,
    ) -> VelocityController:
        """A controller of the high level alone, for a robot with its own gait and this response."""
        guard = VelocitySupervisor(self.spec, sensor_timeouts or sensor_timeouts_of(self.contract))
        return VelocityController(self.high_level, guard, response, stopwatch, self.map())


def controller_of(
    bundle: Bundle,
    response: Response | None,
    timeouts: Mapping[str, SensorTimeouts],
    stopwatch: Stopwatch = NO_STOPWATCH,
) -> Controller:
    """The controller of a robot that walks by the bundle's legs, or with this response by its own
    gait.
    """
    if response is not None:
        return bundle.velocity_controller(response, timeouts, stopwatch)
    return bundle.controller(sensor_timeouts=timeouts, stopwatch=stopwatch)


def load_bundle(name: str | Path, spec: RobotSpec | None = None) -> Bundle:
    """Read and verify a bundle: a folder, or the name of a shipped one.

    `spec` is the robot to run on, by default the one that the contract names. Its camera is
    mounted as the contract says.

    Raises:
        BundleError: if something in the folder does not fit; names it.
    """
    folder = find_bundle(str(name))
    try:
        return _load(folder, spec)
    except BundleError:
        raise
    except UserError as error:  # about the contract
        raise BundleError(f"{folder / CONTRACT}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BundleError(f"{folder / CONTRACT}: malformed ({error!r})") from None


def _load(folder: Path, spec: RobotSpec | None) -> Bundle:
    contract = read_json(folder / CONTRACT, BundleError)
    check_integrity(folder, contract)
    own = stated_robot(contract)
    if spec is not None and own is not None:
        same = {name: each for name, each in robot_numbers(spec).items() if name != "camera"}
        _check_values(contract["robot_spec"], same, "robot_spec.")
    spec = spec or own or find_robot(contract["robot"])
    if contract["robot"] != spec.name:
        raise UserError(f"made for robot '{contract['robot']}', not for '{spec.name}'")
    spec = mounted(spec, mount_in(contract["spec"]))
    legs = legs_in(contract, spec)
    graphs = {name: _open(folder / name) for name in (HIGH_LEVEL, LOW_LEVEL)}
    bundle = Bundle(folder, contract, posed(spec, legs.default_pose_rad), legs, graphs)
    check_agreement(contract, spec, bundle.image_shape)
    check_stand(contract, bundle.spec)
    check_tensors(contract["graphs"], graphs, bundle.image_shape)
    check_golden(folder, contract, graphs)
    return bundle


def stated_robot(contract: dict[str, Any]) -> RobotSpec | None:
    """The specification in the contract of a robot that is none of this package's, or None.

    Raises:
        UserError: if it is none.
    """
    if "robot_spec" not in contract or contract["robot"] in ROBOTS:
        return None
    return robot_from_numbers(contract["robot_spec"])


def single_thread_session(model: bytes) -> ort.InferenceSession:
    """An onnxruntime session on one thread: idle threads of its pool would spin on a core."""
    import onnxruntime as ort  # 0.1 s, which a command line that is refused does not need

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open(path: Path) -> ort.InferenceSession:
    import onnxruntime  # noqa: F401  an interrupt meanwhile is no fault of the graph

    try:
        return single_thread_session(path.read_bytes())
    except Exception as error:  # onnxruntime's exceptions have no common base class
        raise BundleError(f"{path}: onnxruntime cannot load it ({error})") from None


def tensors_of(graph: ort.InferenceSession) -> Tensors:
    """A graph's inputs and outputs by name, each with type and shape, as in a contract."""
    nodes = {"inputs": graph.get_inputs(), "outputs": graph.get_outputs()}
    return {s: {n.name: _tensor(n.shape, n.type) for n in nodes[s]} for s in nodes}


def _tensor(shape: Sequence[Any], kind: str = "float32") -> dict[str, Any]:
    return {"type": TYPES.get(kind, kind), "shape": list(shape)}


def _tensors_used(
    contract_graphs: Mapping[str, Tensors], image_shape: tuple[int, int, int]
) -> dict[str, Tensors]:
    """Tensors that this runtime uses, for a policy with the goal and state of its contract."""
    high = contract_graphs[HIGH_LEVEL]
    attention = high["outputs"].get("attention", {}).get("shape", ("H'", "W'"))
    image = {"image": _tensor(image_shape, "uint8")}
    if "map" in high["inputs"]:
        image["map"] = _tensor((MAP_ROWS, image_shape[1]), "uint8")
    decision = dict(zip(DECISION, map(_tensor, ((LATENT_SIZE,), (1,), attention)), strict=True))
    image |= {n: _tensor(shape) for n, shape in GOAL_INPUTS.items() if n in high["inputs"]}
    low = contract_graphs[LOW_LEVEL]["inputs"]
    sensed = {name: _tensor((size,)) for name, (size, _) in FEEDS.items() if name in low}
    graphs = {HIGH_LEVEL: (image, decision), LOW_LEVEL: (sensed, {TARGETS: _tensor((12,))})}
    for file, (inputs, results) in graphs.items():
        for name, after in CARRIED.items():
            if (cell := contract_graphs[file]["inputs"].get(name)) and file in HAVE[name]:
                inputs[name] = results[after] = _tensor(cell["shape"])
    return {file: {"inputs": i, "outputs": o} for file, (i, o) in graphs.items()}


def check_tensors(
    contract_graphs: Mapping[str, Tensors], graphs: Graphs, image_shape: tuple[int, int, int]
) -> None:
    """Check that contract (its key `graphs`), graphs and runtime agree on all inputs and outputs.

    Raises:
        UserError: if not; names the tensor.
    """
    for file, used in _tensors_used(contract_graphs, image_shape).items():
        for where, there in (("graph", tensors_of(graphs[file])), ("runtime", used)):
            for side, tensors in there.items():
                stated = contract_graphs[file][side]
                for name in sorted({*stated, *tensors}):
                    one, two = (_described(each.get(name)) for each in (stated, tensors))
                    if one != two:
                        what = f"{file}: {side[:-1]} '{name}' is {one} here, {two} in this {where}"
                        raise UserError(what)


def _described(tensor: dict[str, Any] | None) -> str:
    return f"{tensor['type']} {tensor['shape']}" if tensor else "missing"


def golden_tolerance(kind: str) -> float:
    """Largest difference of a golden output, by the kind of low level."""
    return WALKER_TOLERANCE if kind == WALKER else TOLERANCE


def check_golden(folder: Path, contract: Mapping[str, Any], graphs: Graphs) -> None:
    """Check that the graphs reproduce the bundle's golden vector on this CPU.

    Raises:
        BundleError: if not, or if the golden vector does not fit the tensors of the contract.
    """
    golden, contract_graphs = read_json(folder / GOLDEN, BundleError), contract["graphs"]
    tolerance = contract["golden_tolerance"]
    for file, graph in graphs.items():
        try:
            tensors, vector = contract_graphs[file], golden[file]
            given = {
                n: np.array(v, tensors["inputs"][n]["type"]) for n, v in vector["inputs"].items()
            }
            found = zip(tensors["outputs"], graph.run([*tensors["outputs"]], given), strict=True)
            off = {n: float(np.abs(v - np.array(vector["outputs"][n])).max()) for n, v in found}
        except Exception as error:  # from numpy or onnxruntime: other shapes, or no numbers
            raise BundleError(f"{folder / GOLDEN}: malformed ({error!r})") from None
        for name, difference in off.items():
            if not difference <= tolerance:
                raise BundleError(
                    f"{folder / file}: golden output '{name}' is off by {difference:.2g} "
                    f"on this CPU, at most {tolerance} is allowed"
                )


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
    known = ", ".join(shipped_names()) or "none"
    raise BundleError(f"bundle '{name}': no {CONTRACT} in that folder, and none shipped ({known})")


def shipped_names(part: str = CONTRACT) -> list[str]:
    """Names of the shipped bundles that have this file or folder."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{part}"))


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


def legs_in(contract: dict[str, Any], spec: RobotSpec) -> Legs:
    """The legs of a contract: those of the gait generator, or of a third-party walker.

    Raises:
        UserError: if a number is impossible, or a gait is not this runtime's.
    """
    low_level, numbers = contract["low_level"], contract["legs"]
    command = tuple(_range(low_level["command"], axis) for axis in AXES)
    if (kind := low_level["kind"]) in CONTRACTS:
        _check_values(low_level, CONTRACTS[kind], "low_level.")
        legs = replace(gait_legs(spec, kind), command=command)
        _check_values(numbers, legs_contract(legs, numbers["stand_height_m"]), "legs.")
        return legs
    if kind != WALKER:
        raise UserError(f"low_level.kind is {kind}, expected {', '.join(CONTRACTS)} or {WALKER}")
    lower, upper = spec.joint_lower_rad, spec.joint_upper_rad
    least = low_level["least_turning_speed_m_per_s"]
    if not 0.0 <= least <= max(command[0][1], 0.0):
        raise UserError(f"low_level.least_turning_speed_m_per_s is {least}: outside its command")
    return Legs(
        _bounded(numbers, "kp_nm_per_rad", 1e-3, MOST_KP),
        _bounded(numbers, "kd_nms_per_rad", 0.0, MOST_KD),
        _bounded(numbers, "default_pose_rad", lower, upper),
        command,
        float(least),
        gait=False,
    )


def legs_contract(legs: Legs, stand_height_m: float) -> dict[str, Any]:
    """Gains and pose as they stand in a contract."""
    return {
        "kp_nm_per_rad": legs.kp_nm_per_rad.tolist(),
        "kd_nms_per_rad": legs.kd_nms_per_rad.tolist(),
        "default_pose_rad": legs.default_pose_rad.tolist(),
        "stand_height_m": stand_height_m,
    }


def _range(command: Any, axis: str) -> tuple[float, float]:
    """The range of an axis of velocity commands; a stand is within it."""
    least, most = command[axis]
    if not -FASTEST <= least <= 0.0 <= most <= FASTEST:
        raise UserError(f"low_level.command.{axis} is {[least, most]}, expected a range around 0")
    return float(least), float(most)


def _bounded(numbers: Any, name: str, least: Any, most: Any) -> Array:
    """Numbers (12,) of a contract's `legs`."""
    values = np.array(numbers[name], dtype=np.float64)
    if values.shape != (12,) or not ((least <= values) & (values <= most)).all():
        raise UserError(f"legs.{name} is {numbers[name]}, expected 12 numbers within the robot's")
    return values


def check_agreement(
    contract: dict[str, Any], spec: RobotSpec, image_shape: tuple[int, int, int]
) -> None:
    """Check that this runtime works as a contract says, for this robot and images (H, W, C).

    Raises:
        UserError: if not; names the key.
    """
    sensor_timeouts = sensor_timeouts_of(contract)
    _check_sensor_timeouts(sensor_timeouts)
    kind = contract["low_level"]["kind"]
    _check_values(contract, {**FIXED, "golden_tolerance": golden_tolerance(kind)})
    again = {"stand_after_s": sensor_timeouts[CAMERA].stale_s}  # when the controller stands
    _check_values(contract["high_level"]["look_again"], again, "high_level.look_again.")
    _check_values(contract["spec"], spec_contract(spec), "spec.")
    _check_pace(contract)
    _check_values(contract["camera"], camera_contract(image_shape), "camera.")
    if "map" in contract["graphs"][HIGH_LEVEL]["inputs"]:
        _check_values(contract["map"], MAP_CONTRACT, "map.")
    trained_mounts(contract["camera"], spec.camera, spec.stand_height_m)
    _check_values(contract["motors"], DRIVER, "motors.")
    _check_values(contract["start"], START, "start.")


def check_stand(contract: dict[str, Any], spec: RobotSpec) -> None:
    """Check that a robot in the default pose of its legs stands as a contract says.

    Raises:
        UserError: if not.
    """
    _check_pose(contract["start"]["pose_rad"], standing_targets(spec))
    stated, height_m = contract["legs"]["stand_height_m"], spec.stand_height_m
    if not abs(stated - height_m) <= TOLERANCE:
        raise UserError(f"legs.stand_height_m is {stated}, in that pose it is {height_m:.4f}")


def _check_pace(contract: dict[str, Any]) -> None:
    """Check the factor on the high level's speed: the gait generator was trained up to 1."""
    pace = contract["high_level"].get("pace", 1.0)
    most = FASTEST_PACE if contract["low_level"]["kind"] == WALKER else 1.0
    if not 0.0 < pace <= most:
        raise UserError(f"high_level.pace is {pace}, expected above 0, at most {most:g}")


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
