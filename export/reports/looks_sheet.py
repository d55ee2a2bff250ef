"""docs/looks.png: scenes in looks of the training and of the test set, and every kind of pattern.

Of each look the robot from behind, and what its camera sees.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.export.reports.contact_sheet import SEED, labelled, view
from pixelgait.sim.scenes.registry import make_scene
from pixelgait.sim.world.appearance import Looks
from pixelgait.sim.world.looks.materials import PATTERNS, draw_pattern

SHOWN = ("obstacle-course", "clutter", "rooms")
SEEDS = range(SEED, SEED + 4)
PATTERN_PX = 100


def write_looks_sheet(path: Path) -> None:
    """Rows of scenes, then of patterns, for either set."""
    rows = []
    for looks in get_args(Looks):
        for name in SHOWN:
            scene = make_scene(name, looks=looks)
            rows.append(np.hstack([view(f"{name}, {looks}", scene, seed) for seed in SEEDS]))
        rows.append(_patterns(looks, rows[-1].shape[1]))
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.vstack(rows)[:, :, ::-1])


def _patterns(looks: Looks, width: int) -> NDArray[np.uint8]:
    """Every kind of a set once, in rows of this width."""
    rng = np.random.default_rng(0)
    tiles = []
    for pattern in PATTERNS[looks]:
        colours = np.array(((0.30, 0.36, 0.45), (0.78, 0.74, 0.66), (0.55, 0.25, 0.18)))
        drawn = (255.0 * draw_pattern(rng, pattern, colours)).astype(np.uint8)
        large = cv2.resize(drawn[::-1], (PATTERN_PX, PATTERN_PX), interpolation=cv2.INTER_NEAREST)
        tiles.append(labelled(np.asarray(large, np.uint8), pattern.__name__))
    each = width // tiles[0].shape[1]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % each)
    rows = [np.hstack(tiles[i : i + each]) for i in range(0, len(tiles), each)]
    rest = width - rows[0].shape[1]
    return np.pad(np.vstack(rows), ((0, 0), (0, rest), (0, 0)), constant_values=255)


if __name__ == "__main__":
    write_looks_sheet(Path("docs/looks.png"))
