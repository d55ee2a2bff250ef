"""Exported graphs: small files, and parity with torch within tolerances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from pixelgait.export.onnx_graphs import OPSET, without_copies
from pixelgait.export.parity import check, compare
from pixelgait.robot.bundle import single_thread_session
from pixelgait.robot.errors import UserError


@pytest.mark.parametrize("once", [(1, 1, 64), (1, 16, 64), (64, 1, 1)])
def test_a_repeated_constant_is_stored_once(tmp_path: Path, once: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    spread = np.broadcast_to(rng.integers(0, 99, once), (64, 16, 64)).copy()
    number = onnx.TensorProto.INT64
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "spread"], ["y"])],
        "sum",
        [onnx.helper.make_tensor_value_info("x", number, [])],
        [onnx.helper.make_tensor_value_info("y", number, spread.shape)],
        [onnx.numpy_helper.from_array(spread, "spread")],
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = without_copies(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10))
    assert model.ByteSize() < spread.nbytes / 10
    onnx.checker.check_model(model, full_check=True)
    (tmp_path / "sum.onnx").write_bytes(model.SerializeToString())
    (y,) = single_thread_session(tmp_path / "sum.onnx").run(None, {"x": np.array(2)})
    np.testing.assert_array_equal(y, spread + 2)


def test_nan_is_no_parity() -> None:
    """A NaN difference persists over the following samples."""
    sizes = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    root = onnx.helper.make_graph(
        [onnx.helper.make_node("Sqrt", ["x"], ["y"])], "root", sizes[:1], sizes[1:]
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(root, opset_imports=opset, ir_version=10)

    class Root(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (torch.sqrt(torch.clip(x, 0.0)),)

    samples = [{"x": np.array([x], np.float32)} for x in (4.0, -1.0, 9.0)]
    check(compare("root", model, Root(), samples[::2]))
    with pytest.raises(UserError, match="'y' of ONNX differs from torch by nan"):
        check(compare("root", model, Root(), samples))


@pytest.mark.parametrize(
    ("rounds", "commands", "output"),
    [(1e-6, 0.0, None), (5e-6, 0.0, "next_state"), (1e-6, 5e-5, "latent")],
)
def test_a_recurrent_state_may_differ_by_the_rounding_of_many_images(
    rounds: float, commands: float, output: str | None
) -> None:
    """A state that sums errors of `rounds`, and a command with an error of `commands`."""
    number = onnx.TensorProto.FLOAT
    state, off, latent, after = (
        onnx.helper.make_tensor_value_info(name, number, [1])
        for name in ("state", "off", "latent", "next_state")
    )
    values = {"step": 1e-3 + rounds, "error": commands}
    root = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Add", ["off", "error"], ["latent"]),
            onnx.helper.make_node("Add", ["state", "step"], ["next_state"]),
        ],
        "sum",
        [state, off],
        [latent, after],
        [onnx.numpy_helper.from_array(np.array([v], np.float32), n) for n, v in values.items()],
    )
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(root, opset_imports=opset, ir_version=10)

    class Sum(torch.nn.Module):
        def forward(self, state: torch.Tensor, off: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return off, state + 1e-3

    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    samples = [{"state": zero, "off": one}, *([{"state": one, "off": one}] * 49)]
    rows = compare("sum", model, Sum(), samples)
    if output is None:
        check(rows)
    else:
        with pytest.raises(UserError, match=f"output '{output}' of ONNX differs"):
            check(rows)


@pytest.mark.parametrize(
    ("samples", "off", "equal"), [(50, 1.0, True), (50, 2.0, False), (49, 1.0, False)]
)
def test_a_duration_may_rarely_be_rounded_the_other_way(
    samples: int, off: float, equal: bool
) -> None:
    """Half-way between two steps both are right; one step in 50 may differ, not more."""
    sizes = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1])
        for name in ("x", "duration_steps")
    ]
    node = onnx.helper.make_node("Round", ["x"], ["duration_steps"])
    opset = [onnx.helper.make_opsetid("", OPSET)]
    root = onnx.helper.make_graph([node], "rounded", sizes[:1], sizes[1:])

    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (torch.round(x) + off * (x == 7.0),)

    rows = compare(
        "rounded",
        onnx.helper.make_model(root, opset_imports=opset, ir_version=10),
        Rounded(),
        [{"x": np.array([x], np.float32)} for x in range(samples)],
    )
    assert (rows[0].difference == 0.0) == equal
