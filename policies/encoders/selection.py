"""The best of many scores, in torch as in ONNX: among equals the one that comes first."""

from __future__ import annotations

import torch
from torch import Tensor

# torch.library.custom_op would do, but imports torch's compiler at the first call: seconds.
torch.library.define("pixelgait::first_best", "(Tensor scores, int count) -> Tensor")


@torch.library.impl("pixelgait::first_best", "CompositeExplicitAutograd")
def _(scores: Tensor, count: int) -> Tensor:
    return scores.sort(dim=1, descending=True, stable=True).indices[:, :count].contiguous()


@torch.library.register_fake("pixelgait::first_best")  # type: ignore[untyped-decorator]
def _(scores: Tensor, count: int) -> Tensor:
    return scores.new_empty((scores.shape[0], count), dtype=torch.int64)


def first_best(scores: Tensor, count: int) -> Tensor:
    """Indices (B, count) of the highest of scores (B, L), among equals the lowest index first.

    An operator of its own because torch.topk takes equals in any order, and ONNX TopK does not.
    """
    best: Tensor = torch.ops.pixelgait.first_best(scores, count)
    return best
