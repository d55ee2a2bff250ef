"""ONNX graphs of high and low level, exported from torch."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxscript import opset21 as op
from torch import Tensor, nn

from pixelgait.policies.high_level import Decider
from pixelgait.policies.low_level import LowLevelGraph
from pixelgait.robot.bundle import DECISION, MEMORY
from pixelgait.robot.cli.processes import interrupt_later
from pixelgait.robot.control.low_level import RESULTS
from pixelgait.robot.control.policy_map import ROWS as MAP_ROWS

LEAST_SAVING_BYTES = 1 << 12
OPSET = 21  # the newest of onnxruntime 1.18, which robots have at least


class HighLevelGraph(nn.Module):
    """A high level for one image, without a batch axis.

    Its `inputs` are those that it uses, in this order: image, map, goal or bearing of ahead, state.
    """

    def __init__(self, high_level: Decider) -> None:
        super().__init__()
        self.high_level = high_level
        self.inputs = {"image": list(high_level.camera_shape)}
        if high_level.sees_map:
            self.inputs["map"] = [MAP_ROWS, high_level.image_shape[1]]
        self.outputs = [*DECISION]
        if high_level.sees_goal:
            self.inputs["goal"] = [2]
        if high_level.sees_ahead:
            self.inputs["ahead"] = [1]
        if high_level.state_size:
            self.inputs["state"] = [high_level.state_size]
            self.outputs.append(MEMORY)

    def forward(self, image: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """Image (H, W, C) uint8, map (32, W) uint8, goal (2,) or ahead (1,), state (n,) to latent
        (2,), duration (1,), attention (H', W'), next state (n,)."""
        given = dict(zip(list(self.inputs)[1:], rest, strict=True))
        if (around := given.get("map")) is not None:
            image = torch.cat([image, around.unsqueeze(2).expand(-1, -1, image.shape[2])])
        ahead = torch.cat([torch.zeros(1), given.get("ahead", torch.zeros(1))])
        goal, state = given.get("goal", ahead), given.get("state", torch.zeros(0))
        outputs = self.high_level(image.unsqueeze(0), goal.unsqueeze(0), state.unsqueeze(0))
        return tuple(each.squeeze(0) for each in outputs[: len(self.outputs)])


def high_level_graph(high_level: Decider) -> onnx.ModelProto:
    """The high level as ONNX; the exporter folds normalisation constants into it."""
    module = HighLevelGraph(high_level)
    inputs = {name: torch.zeros(shape) for name, shape in module.inputs.items()}
    for name in {"image", "map"} & inputs.keys():
        inputs[name] = inputs[name].to(torch.uint8)
    return _export(module, inputs, module.outputs)


def low_level_graph(low_level: LowLevelGraph) -> onnx.ModelProto:
    """The low level with its gait generator as ONNX."""
    inputs = {name: torch.zeros(size) for name, size in low_level.signature.items()}
    outputs = list(RESULTS)
    if low_level.state_size:
        inputs["state"] = torch.zeros(low_level.state_size)
        outputs.append(MEMORY)
    return _export(low_level, inputs, outputs)


def _export(module: nn.Module, inputs: dict[str, Tensor], outputs: list[str]) -> onnx.ModelProto:
    with (
        interrupt_later(),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)  # the exporter lists every operator of torchvision
        try:
            program = torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=outputs,
                opset_version=OPSET,
                dynamo=True,
                custom_translation_table={torch.ops.pixelgait.first_best.default: _first_best},
                verbose=False,
            )
        finally:
            logging.disable(logging.NOTSET)
    assert program is not None
    model = without_copies(without_traces(program.model_proto))
    onnx.checker.check_model(model, full_check=True)
    return model


def without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph without the exporter's stack traces, which are several times its size."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info):
        del part.metadata_props[:]
        part.doc_string = ""
    for tensor in graph.initializer:
        del tensor.metadata_props[:]
    return model


def without_copies(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with constants that repeat along an axis stored once, and expanded on loading.

    The exporter folds the expansion of an index to every window and head, which takes megabytes.
    """
    for tensor in list(model.graph.initializer):
        whole = onnx.numpy_helper.to_array(tensor)
        once = _once(whole)
        if whole.nbytes - once.nbytes < LEAST_SAVING_BYTES:
            continue
        parts = {f"{tensor.name}_once": once, f"{tensor.name}_shape": np.array(whole.shape)}
        node = onnx.helper.make_node("Expand", list(parts), [tensor.name])
        model.graph.initializer.remove(tensor)
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(part, name) for name, part in parts.items()
        )
        model.graph.node.insert(0, node)
    return model


def _once(array: NDArray[Any]) -> NDArray[Any]:
    """The array with a single entry along every axis with equal entries."""
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if array.shape[axis] > 1 and (array == first).all():
            array = first
    return array


def _first_best(scores: Any, count: int) -> Any:
    """Operator of the patch selection: ONNX TopK takes the lowest index first among equals."""
    number: Any = op.Constant(value_ints=[count])
    _, indices = op.TopK(scores, number, axis=1, largest=1, sorted=1)
    return indices
