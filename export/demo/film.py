"""Films of a walk, from what its two processes have left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.viewing.video import Track, counted, draw_inset, render_track
from pixelgait.sim.world.scene import Scene


def walked(out: Path) -> Track:
    """Where the robot was while the controller decided."""
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        path, simulated_s = data["path"], data["simulated_s"]
        first, last = decisions["time_s"][[0, -1]]
    walking = (path[:, 0] >= first) & (path[:, 0] <= last + 0.1)
    return Track(path[walking], simulated_s[walking])


def film(
    spec: RobotSpec, scene: Scene, seed: int, track: Track, out: Path
) -> list[NDArray[np.uint8]]:
    """Frames of the walk, with what the camera saw and attended to in the corner."""
    with np.load(out / "decisions.npz") as data:
        times, images = data["time_s"], data["images"]
        attention = data["attention"] if "attention" in data else [None] * len(times)

    def seen(now: float) -> NDArray[np.uint8]:
        i = max(0, int(np.searchsorted(times, now, side="right")) - 1)
        return draw_inset(images[i], attention[i])

    taken = track.frame_times()
    return [*counted(render_track(spec, scene, seed, track, taken, seen), len(taken))]
