"""Images of a simulated robot in shared memory, for processes without ROS 2.

One process writes, others read. A reader asks for colour, depth or both; what was asked for within
the last second is rendered.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import CameraMount

FOLDER = Path("/dev/shm")
WANTED_S = 1.0
KINDS = ("depth", "colour")
MILLIMETRES = 1000.0  # z16: 16 bits, as of a RealSense
HEADER = np.dtype(
    [
        ("number", "i8"),  # of images, odd while one is written
        ("time_ns", "i8"),
        ("focal", "f8", len(KINDS)),  # [pixels]
        ("size", "i8", (len(KINDS), 2)),  # height and width [pixels]
        ("wanted_ns", "i8", len(KINDS)),  # monotonic, when a reader last asked for this kind
    ]
)


def path_of(domain: str) -> Path:
    """The memory of the simulated robot in a DDS domain."""
    return FOLDER / f"pixelgait-camera-{domain}"


def _layout(depth: tuple[int, int], colour: tuple[int, int]) -> np.dtype[np.void]:
    """The memory for images of these heights and widths."""
    return np.dtype(
        [
            ("header", HEADER),
            ("depth", "u2", depth),
            ("colour", "u1", (*colour, 3)),
        ]
    )


class CameraWriter:
    """Writes images of a camera with this mount, of two sizes (H, W); there is one for a domain."""

    def __init__(
        self, domain: str, depth: tuple[int, int], colour: tuple[int, int], mount: CameraMount
    ) -> None:
        self._path = path_of(domain)
        self._path.unlink(missing_ok=True)  # of a process that was killed
        self._memory = np.memmap(self._path, _layout(depth, colour), "w+", shape=(1,))[0]
        self._header = self._memory["header"]
        self._header["size"] = depth, colour
        half = math.tan(mount.vertical_fov_rad / 2.0)
        self._header["focal"] = depth[0] / 2.0 / half, colour[0] / 2.0 / half

    def wanted(self) -> tuple[bool, bool]:
        """Whether depth and colour have a reader."""
        ages_s = (time.monotonic_ns() - self._header["wanted_ns"]) / 1e9
        depth, colour = (ages_s < WANTED_S).tolist()
        return depth, colour

    def write(
        self, time_ns: int, metres: NDArray[np.float32] | None, pixels: NDArray[np.uint8] | None
    ) -> None:
        """Write depth [m] and colours of one instant, whichever there are."""
        self._header["number"] += 1
        self._header["time_ns"] = time_ns
        if metres is not None:
            self._memory["depth"] = np.round(metres * MILLIMETRES)
        if pixels is not None:
            self._memory["colour"] = pixels
        self._header["number"] += 1

    def close(self) -> None:
        """Remove the memory; readers keep what they see."""
        self._path.unlink(missing_ok=True)


class CameraReader:
    """Reads the newest images.

    Raises:
        FileNotFoundError: no robot is simulated in this domain.
    """

    def __init__(self, domain: str) -> None:
        header = np.memmap(path_of(domain), HEADER, "r", shape=(1,))[0]
        layout = _layout(*map(tuple, header["size"].tolist()))
        self._memory = np.memmap(path_of(domain), layout, "r+", shape=(1,))[0]
        self.header = self._memory["header"]

    def ask(self, kinds: tuple[str, ...]) -> None:
        """Ask for these kinds of images for another second."""
        now_ns = time.monotonic_ns()
        for kind in kinds:
            self.header["wanted_ns"][KINDS.index(kind)] = now_ns

    def read(self, kind: str) -> NDArray[np.generic]:
        """A copy of the newest image of a kind."""
        return np.array(self._memory[kind])
