"""Films of a walk, from what its two processes have left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from pixelgait.robot.runtime.attention import draw_attention
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.viewing.video import FRAMES_PER_S, INSET, SceneRenderer
from pixelgait.sim.world.scene import Scene


def walked(out: Path) -> Array:
    """The trajectory while the controller decided: rows of time [s], base pose (7), joints (12)."""
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        track = np.asarray(data["path"], dtype=np.float64)
        first, last = decisions["time_s"][[0, -1]]
    return np.asarray(track[(track[:, 0] >= first) & (track[:, 0] <= last + 0.1)])


def film(
    spec: RobotSpec, scene: Scene, seed: int, track: Array, out: Path
) -> list[NDArray[np.uint8]]:
    """Frames of the walk, with what the camera saw and attended to in the corner."""
    with np.load(out / "decisions.npz") as data:
        times, images = data["time_s"], data["images"]
        attention = data["attention"] if "attention" in data else [None] * len(times)
    renderer = SceneRenderer(spec, scene, seed)
    frames = []
    for now in tqdm(np.arange(track[0, 0], track[-1, 0], 1.0 / FRAMES_PER_S), unit="frame"):
        row = track[np.searchsorted(track[:, 0], now).clip(max=len(track) - 1)]
        i = max(0, int(np.searchsorted(times, now, side="right")) - 1)
        inset = draw_attention(images[i], attention[i], INSET)
        frames.append(renderer.frame(row[1:4], row[4:8], row[8:20], inset))
    renderer.close()
    return frames
