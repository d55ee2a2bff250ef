"""Demonstrations: what the camera saw and what the teacher decided, in files that stay on disk.

A round is an archive without compression. Its images are mapped into memory, not read: a fit takes
from the disk's cache what a batch needs, however many rounds there are.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixelgait.policies.runs.run import reading_arrays, write_arrays
from pixelgait.policies.training.rollouts import Figures
from pixelgait.robot.files import Readable
from pixelgait.robot.spec import Array

ROUND_FILE = "the demonstrations of a round"


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Decisions of one or many episodes: what the camera saw, and what the teacher decided."""

    starts: NDArray[np.bool_]  # (n,) where an episode begins
    images: NDArray[np.uint8]  # (n, H, W, C)
    goals: Array  # (n, 2)
    latents: Array  # (n, 2)

    def save(self, path: Path, figures: Figures) -> None:
        """Write them, with the figures of the episodes."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        write_arrays(path, compressed=False, **columns, figures=json.dumps(figures))

    @classmethod
    def load(cls, file: Readable) -> Demonstrations:
        """A file's demonstrations, checked; the images of a file on disk are mapped.

        Raises:
            UserError: if the file holds no demonstrations.
        """
        with reading_arrays(file, ROUND_FILE) as data:
            shown = cls(**{each.name: data[each.name] for each in fields(cls)})
            shown.check()
            images = mapped(file, "images") if isinstance(file, Path) else None
        return shown if images is None else replace(shown, images=images)

    def check(self) -> None:
        """Raises ValueError if the arrays do not fit each other."""
        n, pixels = len(self.starts), self.images.shape[-3:]
        shapes = [getattr(self, each.name).shape for each in fields(self)]
        if shapes != [(n,), (n, *pixels), (n, 2), (n, 2)]:
            raise ValueError(f"arrays of shapes {shapes} are not of as many decisions")
        if [self.starts.dtype, self.images.dtype] != [bool, np.uint8]:
            raise ValueError("its images are not of bytes, or its starts not true or false")
        if not np.isfinite(self.latents).all():
            raise ValueError("its latents are not finite numbers")

    @classmethod
    def joined(cls, parts: Sequence[Demonstrations]) -> Demonstrations:
        """All parts, one after another, in memory."""
        columns = ([getattr(part, each.name) for part in parts] for each in fields(cls))
        return cls(*(np.concatenate(column) for column in columns))


load_once = cache(Demonstrations.load)  # mapped images take no memory, and are checked once


def mapped(path: Path, name: str) -> NDArray[np.uint8] | None:
    """An array of an archive, mapped into memory; None if it is compressed, or empty."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        with archive.open(member) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            header = file.tell()
    with path.open("rb") as whole:
        whole.seek(member.header_offset + 26)
        lengths = np.frombuffer(whole.read(4), "<u2")  # of the name and of the extra field
    offset = member.header_offset + 30 + int(lengths.sum()) + header
    return np.memmap(path, dtype, "c", offset, shape) if np.prod(shape) else None


class Frames:
    """Images (n, H, W, C) uint8 of many rounds, each where it is; gathered by index."""

    dtype = torch.uint8

    def __init__(self, parts: Sequence[NDArray[np.uint8]]) -> None:
        """One or more parts, which are not copied."""
        self._parts = [torch.from_numpy(part) for part in parts]
        self._ends = torch.tensor([len(part) for part in parts]).cumsum(0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, which: Tensor) -> Tensor:
        """Images (..., H, W, C) by index (...)."""
        flat = which.flatten()
        part_of = torch.bucketize(flat, self._ends, right=True)
        shape = len(flat), *self._parts[0].shape[1:]
        images = torch.empty(shape, dtype=torch.uint8, device="cpu")
        for i in part_of.unique().tolist():
            rows = (part_of == i).nonzero()[:, 0]
            part = self._parts[i]
            images[rows] = part[flat[rows] - (self._ends[i] - len(part))]
        return images.reshape(*which.shape, *images.shape[1:])

    @property
    def nbytes(self) -> int:
        """Size of all images."""
        return sum(part.nbytes for part in self._parts)

    def to(self, device: torch.device) -> Tensor:
        """A copy on a device (n, H, W, C)."""
        return torch.cat([part.to(device) for part in self._parts])
