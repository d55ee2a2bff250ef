"""Top-k selection with the same ties in torch and ONNX: the lowest index first."""

from __future__ import annotations

import torch
from torch import Tensor

# torch.library.custom_op would import torch's compiler at the first call, which takes seconds.
torch.library.define("pixelgait::first_best", "(Tensor scores, int count) -> Tensor")


@torch.library.impl("pixelgait::first_best", "CompositeExplicitAutograd")
def _(scores: Tensor, count: int) -> Tensor:
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :count].contiguous()


@torch.library.register_fake("pixelgait::first_best")  # type: ignore[untyped-decorator]
def _(scores: Tensor, count: int) -> Tensor:
    return scores.new_empty((scores.shape[0], count), dtype=torch.int64)


def first_best(scores: Tensor, count: int) -> Tensor:
    """Indices (B, count) of the highest of scores (B, L), among equals the lowest index first.

    A custom operator, since torch.topk returns ties in any order and ONNX TopK does not.
    """
    best: Tensor = torch.ops.pixelgait.first_best(scores, count)
    return best
