"""What a teacher has shown: decisions of episodes, one file for each round of an imitation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.policies.runs.run import checked_figures, reading_arrays, write_arrays
from pixelgait.policies.training.rollouts.validation import Figures
from pixelgait.robot.files import Readable
from pixelgait.robot.spec import Array

SHOWN = "the demonstrations of a round"


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Decisions of one or many episodes: what was seen, and what the teacher decided there."""

    starts: NDArray[np.bool_]  # (n,) where an episode begins
    images: NDArray[np.uint8]  # (n, H, W, C)
    goals: Array  # (n, 2)
    latents: Array  # (n, 2)

    def save(self, path: Path, figures: Figures) -> None:
        """Write them, with the figures of the episodes."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        write_arrays(path, **columns, figures=json.dumps(figures))

    @classmethod
    def load(cls, file: Readable) -> Demonstrations:
        """Raises UserError if the file holds none."""
        with reading_arrays(file, SHOWN) as data:
            shown = cls(**{each.name: data[each.name] for each in fields(cls)})
            shown.check()
        return shown

    def check(self) -> None:
        """Raises ValueError if its arrays cannot be those of decisions."""
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
        """All of them, one after another."""
        columns = ([getattr(part, each.name) for part in parts] for each in fields(cls))
        return cls(*(np.concatenate(column) for column in columns))


def figures_of_round(file: Path) -> Figures | None:
    """Those of a round whose demonstrations are there already."""
    figures = None
    if file.exists():
        with reading_arrays(file, SHOWN) as data:
            figures = checked_figures(json.loads(str(data["figures"])))
    return figures


@cache
def load_once(file: Readable) -> Demonstrations:
    """Of a file that many students are fitted to."""
    return Demonstrations.load(file)
