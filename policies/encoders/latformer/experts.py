"""Lattice mask experts: attention masks out of gates (LatFormer, section 4.1, figures 3b and 6).

Frozen transformations follow one another, each weighted by its gate. With gates of 0 and 1 a mask
is exactly that of the transformation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pixelgait.policies.encoders.latformer.lattice import (
    product,
    reflected,
    rotated,
    translated,
    upscaled,
)

EXPERTS = ("translation", "reflection", "scaling", "rotation")
SCALES = (2, 3, 4, 5)  # factors of the paper's synthetic tasks (appendix B.1)
TURNS = 3  # by 90 degrees


@dataclass(frozen=True, slots=True)
class Lattice:
    """A grid of cells and its transformations."""

    rows: int
    columns: int
    experts: tuple[str, ...]  # of EXPERTS
    powers: int  # number of translations, by 1, 2, 4, ... cells


class Chain(nn.Module):
    """M <- a_l P_l M + (1 - a_l) M for l = 1, ..., L (section 4.1)."""

    sources: Tensor

    def __init__(self, transformations: list[Tensor]) -> None:
        super().__init__()
        self.length = len(transformations)
        self.register_buffer("sources", torch.stack(transformations), persistent=False)

    def forward(self, mask: Tensor, gates: Tensor) -> Tensor:
        """Masks (B, n, n) and gates (B, L) in [0, 1] to masks (B, n, n)."""
        for source, gate in zip(self.sources, gates[:, :, None, None].unbind(1), strict=True):
            mask = gate * mask[:, source] + (1.0 - gate) * mask
        return mask


class AxisMask(nn.Module):
    """Masks along one axis: translation, then reflection, then scaling, each if it is an expert.

    Down-scaling is up-scaling transposed, with its own gate. It leaves rows without any 1.
    """

    identity: Tensor

    def __init__(self, size: int, lattice: Lattice) -> None:
        super().__init__()
        motions = []
        if "translation" in lattice.experts:
            motions += [translated(size, 2**power) for power in range(lattice.powers)]
        if "reflection" in lattice.experts:
            motions += [reflected(size)]
        scales = [upscaled(size, by) for by in SCALES] if "scaling" in lattice.experts else []
        self.motion = Chain(motions) if motions else None
        self.scale = Chain(scales) if scales else None
        self.gates = len(motions) + len(scales) + bool(scales)
        self.register_buffer("identity", torch.eye(size)[None], persistent=False)

    def forward(self, gates: Tensor) -> Tensor:
        """Gates (B, L) in [0, 1] to masks (B, n, n)."""
        mask = self.identity.expand(len(gates), -1, -1)
        if self.motion is not None:
            mask = self.motion(mask, gates[:, : self.motion.length])
        if self.scale is not None:
            down = gates[:, -1:, None]
            scale = self.scale(self.identity, gates[:, -1 - self.scale.length : -1])
            mask = (down * scale.transpose(1, 2) + (1.0 - down) * scale) @ mask
        return mask


class MaskExpert(nn.Module):
    """Masks of a lattice: the product of those along both axes, then rotations.

    Raises:
        ValueError: if an expert does not exist, or the lattice to rotate is not square.
    """

    def __init__(self, lattice: Lattice) -> None:
        super().__init__()
        for name in lattice.experts:
            if name not in EXPERTS:
                raise ValueError(f"unknown expert '{name}', choose from {', '.join(EXPERTS)}")
        if len(set(lattice.experts)) < len(lattice.experts):
            raise ValueError(f"experts are {'+'.join(lattice.experts)}, expected each once")
        rows, columns = lattice.rows, lattice.columns
        self.lattice = lattice
        self.rows, self.columns = AxisMask(rows, lattice), AxisMask(columns, lattice)
        self.rotation = None
        if "rotation" in lattice.experts:
            if rows != columns:
                raise ValueError(f"rotation needs a square lattice, not {rows} x {columns}")
            self.rotation = Chain([rotated(rows, columns)] * TURNS)
        self.gates = self.rows.gates + self.columns.gates + TURNS * bool(self.rotation)

    def forward(self, gates: Tensor) -> Tensor:
        """Gates (B, L) in [0, 1] to masks (B, n, n) of the n = rows * columns cells."""
        along_rows, rest = gates[:, : self.rows.gates], gates[:, self.rows.gates :]
        mask = product(self.rows(along_rows), self.columns(rest[:, : self.columns.gates]))
        if self.rotation is not None:
            mask = self.rotation(mask, rest[:, self.columns.gates :])
        return mask
