"""IAP, Implicit Attention for Pixels (arXiv 2102.04353, sections 3 and 4)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pixelgait.policies.encoders.checks import require_positive
from pixelgait.policies.encoders.iap.kernels import (
    KERNELS,
    RANDOM_KERNELS,
    RELU_EPSILON,
    SIGNED_KERNELS,
    ReLUKernel,
    SoftmaxKernel,
)
from pixelgait.policies.encoders.iap.patches import PatchSelector

RANDOM = {"m": 10, "r": 5, "seed": 0}  # options of random features, and their defaults
UNUSED = {"relu": ("m", "r", "seed"), "favor": ("r",), "trig": ("r",)}  # options, by kernel


class IAPEncoder(PatchSelector):
    """Selects the l patches that all patches attend to most and returns their centres.

    Scores are r^T Q' (K')^T (eq. 3): queries are summed first, so the L x L attention matrix never
    exists. r weights queries by their place, not keys: equal patches are equally important.

    Args:
        height, width, channels, patch, stride, dim, selected, values, placed, gated, sparse,
            straight, stem: see `PatchSelector`.
        kernel: "relu" (deterministic), "favor" (eq. 6), "trig" or "hybrid" (eq. 8); the last three
            estimate softmax attention with random features.
        m: Gaussian vectors of the softmax kernel; not for "relu".
        r: Gaussian vectors of the angle, for "hybrid".
        same_length: scale queries and keys to one length (eq. 5), not by d^(-1/4) (eq. 4).
        seed: of the random features, which are constants: not learned, not in checkpoints. Not for
            "relu".
        weighted: learn r (eq. 1), one weight for each of the L patches; otherwise r is 1.

    Raises:
        ValueError: if options do not fit each other.
    """

    def __init__(
        self,
        height: int = 32,
        width: int = 32,
        channels: int = 3,
        patch: int = 1,
        stride: int = 1,
        dim: int = 8,
        selected: int = 64,
        values: int = 0,
        placed: bool = False,
        gated: bool = False,
        sparse: bool = False,
        straight: bool = False,
        stem: int = 0,
        kernel: str = "relu",
        m: int = RANDOM["m"],
        r: int = RANDOM["r"],
        same_length: bool = False,
        seed: int = RANDOM["seed"],
        weighted: bool = False,
    ) -> None:
        size = (height, width, channels, patch, stride)
        super().__init__(*size, dim, selected, values, placed, gated, sparse, straight, stem)
        require_positive(m=m, r=r)
        if kernel not in KERNELS:
            raise ValueError(f"unknown kernel '{kernel}', choose from {', '.join(KERNELS)}")
        _require_used(kernel, m=m, r=r, seed=seed)
        shared = {"gated": gated, "sparse": sparse, "straight": straight}
        if (weighed := next(filter(shared.get, shared), "")) and kernel in SIGNED_KERNELS:
            # A share needs importance above 0, which the estimates of these kernels may violate.
            raise ValueError(f"kernel '{kernel}' is not for {weighed}, choose relu or favor")
        if kernel in RANDOM_KERNELS:
            self.kernel: ReLUKernel | SoftmaxKernel = SoftmaxKernel(
                kernel, dim, m, r, same_length, seed
            )
        elif same_length:
            raise ValueError("kernel 'relu' does not scale: same_length is True, expected False")
        else:
            self.kernel = ReLUKernel()
        self.kernel_name = kernel
        self.weights = nn.Parameter(torch.ones(self.count)) if weighted else None

    def features_of_many(self, images: NDArray[np.uint8], mirror: bool) -> list[Tensor] | None:
        """Features (n, F) of images (n, H, W, C), and with `mirror` of their mirror images.

        Those of `forward` within rounding, in a tenth of its time; None where options need it.
        """
        whole = self.patch == self.stride == 1 and self.stem is None and self.weights is None
        if not whole or self.value is not None or self.straight or self.kernel_name != "relu":
            return None
        from pixelgait.policies.encoders.iap.selection_kernels import select

        rows = [np.zeros((n, self.selected), np.int64) for n in (len(images), mirror * len(images))]
        query, key = (
            torch.cat([each.weight, each.bias[:, None]], 1).detach().numpy()
            for each in (self.query, self.key)
        )
        select(images, query, key, np.float32(RELU_EPSILON), *rows)
        return [self.centres[torch.from_numpy(each)].flatten(1) for each in rows[: 1 + mirror]]

    def rate(self, x: Tensor) -> Tensor:
        """Importance (B, L) of the first L = `count` of patches (B, c, L or more)."""
        importance: Tensor = self.kernel(x, self.query, self.key, self.count, self.weights)
        return importance


def _require_used(kernel: str, **given: int) -> None:
    """Raises ValueError for an option of random features that the kernel does not use."""
    for name in UNUSED.get(kernel, ()):
        if given[name] != RANDOM[name]:
            raise ValueError(f"kernel '{kernel}' has no {name}, which is {given[name]}")
