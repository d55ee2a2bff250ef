"""Film files: frames as MP4, GIF, or a strip of a few of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.files import write_atomic

FRAMES_PER_S = 10
STRIP = (2, 4)  # rows and columns of a strip of frames

Frame = NDArray[np.uint8]  # (H, W, 3)


def write_film(path: Path, frames: Iterable[Frame]) -> None:
    """Write frames as .mp4 or .gif, or a few of them as a strip (.png), atomically."""
    import imageio.v2 as imageio  # of another extra than recordings

    if path.suffix == ".png":
        write_atomic(path, _strip([*frames]))
        return
    with tempfile.TemporaryDirectory() as aside:
        film = Path(aside) / f"film{path.suffix}"
        if path.suffix == ".gif":
            imageio.mimsave(film, [*frames], duration=1000 / FRAMES_PER_S, loop=0)
        else:
            writer: Any = imageio.get_writer(film, fps=FRAMES_PER_S, macro_block_size=8)
            with writer:
                for frame in frames:
                    writer.append_data(frame)
        write_atomic(path, film.read_bytes())


def _strip(frames: list[Frame]) -> bytes:
    """Evenly spread frames of a film, as one PNG."""
    rows, columns = STRIP
    chosen = [frames[i] for i in evenly(len(frames))]
    lines = [np.hstack(chosen[r * columns : (r + 1) * columns]) for r in range(rows)]
    _, data = cv2.imencode(".png", np.vstack(lines)[:, :, ::-1])
    return data.tobytes()


def evenly(frames: int) -> NDArray[np.int64]:
    """Indices of a strip's frames among all."""
    return np.linspace(0, frames - 1, STRIP[0] * STRIP[1]).astype(np.int64)
