"""The network of a walking policy: ONNX, or TorchScript, which becomes ONNX."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter

from pixelgait.robot.bundle import single_thread_session
from pixelgait.robot.cli.options import require_libraries
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array

OLDEST_OPSET, NEWEST_OPSET = 13, 21  # 21 is the newest of onnxruntime 1.18, see `onnx_graphs`
IR_VERSION = 10  # of opset 21
ACTIONS = 12


def read_network(path: Path, inputs: int | None = None) -> onnx.ModelProto:
    """The network of a file; a TorchScript file does not say its number of `inputs`.

    Raises:
        UserError: if it cannot be read, or is no network from one observation to 12 actions.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.suffix in (".pt", ".pth", ".jit"):
        return checked(path, _traced(path, inputs))
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf's have no common base class
        raise UserError(f"{path}: neither ONNX nor TorchScript ({error})") from None
    return checked(path, model)


def checked(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with one input and one output that count, in a known opset."""
    inputs = _inputs(model)
    if len(inputs) != 1:
        extra = ", ".join(f"'{each.name}'" for each in inputs[1:]) or "none"
        raise UserError(
            f"{path}: takes {extra} besides an observation: recurrent networks are not read"
        )
    shape = [dim.dim_value for dim in inputs[0].type.tensor_type.shape.dim]
    if inputs[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT or not shape or not shape[-1]:
        raise UserError(f"{path}: input '{inputs[0].name}' is {shape}, expected float32 [1, n]")
    (opset,) = (each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    if opset > NEWEST_OPSET:
        raise UserError(f"{path}: opset {opset}, expected {NEWEST_OPSET} at most: export it anew")
    if opset < OLDEST_OPSET:
        model = onnx.version_converter.convert_version(model, OLDEST_OPSET)
    return onnx.inliner.inline_local_functions(model)


def input_size(model: onnx.ModelProto) -> int:
    """Number of values in an observation."""
    return int(network_input(model).type.tensor_type.shape.dim[-1].dim_value)


def network_input(model: onnx.ModelProto) -> Any:
    """The input that is no weight."""
    return _inputs(model)[0]


def _inputs(model: onnx.ModelProto) -> list[Any]:
    given = {tensor.name for tensor in model.graph.initializer}
    return [each for each in model.graph.input if each.name not in given]


def runner(model: onnx.ModelProto) -> Callable[[Array], Array]:
    """The network as a function from an observation (n,) to an action (12,).

    Raises:
        UserError: if its first output has not 12 values.
    """
    session = single_thread_session(model.SerializeToString())
    name, rank = session.get_inputs()[0].name, len(session.get_inputs()[0].shape)
    output = session.get_outputs()[0].name

    def run(observation: Array) -> Array:
        given = observation.astype(np.float32).reshape((1,) * (rank - 1) + (-1,))
        return np.asarray(session.run([output], {name: given})[0], dtype=np.float64).ravel()

    found = run(np.zeros(input_size(model))).size
    if found != ACTIONS:
        raise UserError(f"the policy gives {found} actions, expected {ACTIONS}: one a joint")
    return run


def _traced(path: Path, inputs: int | None) -> onnx.ModelProto:
    require_libraries("torch")
    import torch

    try:
        module = torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise UserError(f"{path}: no TorchScript ({line}); export it as torch.jit.script") from None
    if inputs is None:
        raise UserError(f"{path}: TorchScript does not say its input's size: give its --config")
    torch.set_num_threads(1)
    data = io.BytesIO()
    given = (torch.zeros(1, inputs),)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript has no other exporter than the old one
            torch.onnx.export(
                module,
                given,
                data,  # type: ignore[arg-type]  # the exporter of TorchScript writes to memory, too
                input_names=["obs"],
                output_names=["actions"],
                opset_version=17,
                dynamo=False,
            )
    except Exception as error:  # torch's have no common base class
        line = str(error).splitlines()[0]
        raise UserError(f"{path}: does not run on {inputs} observations ({line})") from None
    return onnx.load_from_string(data.getvalue())
