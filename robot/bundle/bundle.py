"""Policy bundle: verified on load, then run by the controller through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.bundle.contract import check_agreement, check_integrity
from pixelgait.robot.bundle.folder import CONTRACT, HIGH_LEVEL, LOW_LEVEL, BundleError, find_bundle
from pixelgait.robot.bundle.graphs import (
    DECISION,
    MEMORY,
    Graphs,
    check_golden,
    check_tensors,
    open_graphs,
)
from pixelgait.robot.control.controller import (
    LONGEST_STEPS,
    NO_STOPWATCH,
    SHORTEST_STEPS,
    Controller,
    Decision,
    HighLevel,
    MemoryState,
    Stopwatch,
)
from pixelgait.robot.control.low_level import RESULTS, SIGNATURE
from pixelgait.robot.control.observation import NO_GOAL
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.safety.supervisor import SensorTimeouts, Supervisor, sensor_timeouts_of
from pixelgait.robot.spec import Array, RobotSpec, find_robot

# Inferences of each graph before the first that counts: it takes two to three times as long, until
# memory is allocated and caches are filled. After six it no longer shows (shipped bundles); ours.
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle, ready to run. Both graphs run on one thread."""

    folder: Path
    contract: dict[str, Any]
    spec: RobotSpec
    _graphs: Graphs

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
        self, image: NDArray[np.uint8], goal: Array = NO_GOAL, state: MemoryState = None
    ) -> Decision:
        """The controller's high level: image (H, W, C) uint8, goal (2,), state (n,) to decision.

        Raises:
            UserError: it is no such image; one of 0 to 1 would look black.
        """
        shape = self.image_shape
        if getattr(image, "shape", None) != shape or image.dtype != np.uint8:
            kind = f"{getattr(image, 'dtype', image)} {getattr(image, 'shape', '')}".strip()
            raise UserError(f"an image is {kind}, expected uint8 of {shape}")
        told = {"goal": goal if np.isfinite(goal[0]) else NO_GOAL, "ahead": goal[1:]}
        inputs: dict[str, NDArray[Any]] = {"image": image, **told}
        latent, duration, attention, *memory = self._run(HIGH_LEVEL, DECISION, inputs, state)
        after = memory[0].astype(np.float64) if memory else None
        steps = int(min(max(SHORTEST_STEPS, duration[0]), LONGEST_STEPS))
        kept = latent.astype(np.float64).clip(-1.0, 1.0)  # somebody else's graph may not keep to it
        return Decision(kept, steps, attention, after)

    def low_level(
        self, latent: Array, imu: Array, joint_angles: Array, carried: Array
    ) -> tuple[Array, Array]:
        """The controller's low level."""
        values = (latent, imu, joint_angles, carried[:1])
        inputs = dict(zip(SIGNATURE, values, strict=True))
        targets, *after = self._run(LOW_LEVEL, RESULTS, inputs, carried[1:])
        return targets.astype(np.float64), np.concatenate(after, dtype=np.float64)

    def _run(
        self, file: str, gives: Iterable[str], inputs: dict[str, NDArray[Any]], state: MemoryState
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
        for _ in range(WARM_UP):
            self.high_level(np.zeros(self.image_shape, np.uint8))
            self.low_level(*(np.zeros(size) for size in SIGNATURE.values()))

    def controller(
        self,
        high_level: HighLevel | None = None,
        sensor_timeouts: Mapping[str, SensorTimeouts] | None = None,
        stopwatch: Stopwatch = NO_STOPWATCH,
    ) -> Controller:
        """A controller of this bundle, or of its low level under another high level.

        How long sensors may be silent, `patience`, is by default as the contract says.
        """
        guard = Supervisor(self.spec, sensor_timeouts or sensor_timeouts_of(self.contract))
        decides = self.high_level if high_level is None else high_level
        return Controller(decides, self.low_level, guard, stopwatch)


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
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BundleError(f"{folder / CONTRACT}: malformed ({error!r})") from None


def _load(folder: Path, spec: RobotSpec | None) -> Bundle:
    contract = read_json(folder / CONTRACT, BundleError)
    check_integrity(folder, contract)
    spec = spec or find_robot(contract["robot"])
    if contract["robot"] != spec.name:
        raise UserError(f"made for robot '{contract['robot']}', not for '{spec.name}'")
    graphs = open_graphs(folder)
    bundle = Bundle(folder, contract, spec, graphs)
    check_agreement(contract, spec, bundle.image_shape)
    check_tensors(contract["graphs"], graphs, bundle.image_shape)
    check_golden(folder, contract["graphs"], graphs)
    return bundle
