"""The graphs in onnxruntime: opened, and checked against what their contract says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from pixelgait.robot.bundle.contract import TOLERANCE
from pixelgait.robot.bundle.folder import GOLDEN, HIGH_LEVEL, LOW_LEVEL, BundleError
from pixelgait.robot.control.low_level import LATENT_SIZE, RESULTS, SIGNATURE
from pixelgait.robot.control.observation import NO_GOAL
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json

Graphs = dict[str, ort.InferenceSession]  # by file
Tensors = dict[str, dict[str, Any]]  # of a graph: by side and name, with type and shape

TOLD = {"goal": NO_GOAL.shape, "ahead": NO_GOAL[1:].shape}
DECISION, MEMORY = ("latent", "duration_steps", "attention"), "next_state"
TYPES = {"tensor(float)": "float32", "tensor(uint8)": "uint8"}  # as onnxruntime calls them


def single_thread_session(model: bytes) -> ort.InferenceSession:
    """A graph in onnxruntime on one thread: idle ones of its pool would spin on a core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def open_graphs(folder: Path) -> Graphs:
    """Both graphs of a bundle.

    Raises:
        BundleError: onnxruntime cannot load one.
    """
    return {name: _open(folder / name) for name in (HIGH_LEVEL, LOW_LEVEL)}


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


def _tensors_used(
    said: Mapping[str, Tensors], image_shape: tuple[int, int, int]
) -> dict[str, Tensors]:
    """What this runtime gives and takes, of a policy with the goal and memory its contract says."""
    attention = said[HIGH_LEVEL]["outputs"].get("attention", {}).get("shape", ("H'", "W'"))
    image = {"image": _tensor(image_shape, "uint8")}
    decision = dict(zip(DECISION, map(_tensor, ((LATENT_SIZE,), (1,), attention)), strict=True))
    takes = said[HIGH_LEVEL]["inputs"]
    image |= {name: _tensor(shape) for name, shape in TOLD.items() if name in takes}
    given, got = ({n: _tensor((size,)) for n, size in low.items()} for low in (SIGNATURE, RESULTS))
    graphs = {HIGH_LEVEL: (image, decision), LOW_LEVEL: (given, got)}
    for file, (inputs, outputs) in graphs.items():
        if "state" in said[file]["inputs"]:
            inputs["state"] = outputs[MEMORY] = _tensor(said[file]["inputs"]["state"]["shape"])
    return {file: {"inputs": i, "outputs": o} for file, (i, o) in graphs.items()}


def check_tensors(
    said: Mapping[str, Tensors], graphs: Graphs, image_shape: tuple[int, int, int]
) -> None:
    """Whether contract (its key `graphs`), graphs and runtime agree on every input and output.

    Raises:
        UserError: they do not; names the tensor.
    """
    for file, used in _tensors_used(said, image_shape).items():
        for where, there in (("graph", tensors_of(graphs[file])), ("runtime", used)):
            for side, tensors in there.items():
                for name in sorted({*said[file][side], *tensors}):
                    one, two = (_told(each.get(name)) for each in (said[file][side], tensors))
                    if one != two:
                        what = f"{file}: {side[:-1]} '{name}' is {one} here, {two} in this {where}"
                        raise UserError(what)


def _told(tensor: dict[str, Any] | None) -> str:
    return f"{tensor['type']} {tensor['shape']}" if tensor else "missing"


def check_golden(folder: Path, said: Mapping[str, Tensors], graphs: Graphs) -> None:
    """Whether graphs compute on this CPU what the bundle's golden vector says.

    Raises:
        BundleError: they do not, or it does not fit to what the contract says of them, `said`.
    """
    golden = read_json(folder / GOLDEN, BundleError)
    for file, graph in graphs.items():
        try:
            tensors, told = said[file], golden[file]
            given = {
                n: np.array(v, tensors["inputs"][n]["type"]) for n, v in told["inputs"].items()
            }
            found = zip(tensors["outputs"], graph.run([*tensors["outputs"]], given), strict=True)
            off = {n: float(np.abs(v - np.array(told["outputs"][n])).max()) for n, v in found}
        except Exception as error:  # numpy's and onnxruntime's: other shapes, or no numbers
            raise BundleError(f"{folder / GOLDEN}: malformed ({error!r})") from None
        for name, difference in off.items():
            if not difference <= TOLERANCE:
                raise BundleError(
                    f"{folder / file}: golden output '{name}' is off by {difference:.2g} "
                    f"on this CPU, at most {TOLERANCE} is allowed"
                )
