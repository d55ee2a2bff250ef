"""Films of a walk and where it ended, from what its two processes have left behind."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array, RobotSpec
from pixelgait.sim.tasks.navigate import STOPPED_STEPS
from pixelgait.sim.viewing.video import Track, counted, draw_inset, render_track
from pixelgait.sim.world.scene import Scene


def walked(out: Path) -> Track:
    """Where the robot was while the controller decided."""
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        path, simulated_s = data["path"], data["simulated_s"]
        first, last = decisions["time_s"][[0, -1]]
    walking = (path[:, 0] >= first) & (path[:, 0] <= last + 0.1)
    return Track(path[walking], simulated_s[walking])


def ended(out: Path, walk_s: float) -> tuple[Array, float]:
    """Where the robot really was (2,) [m] when so long a walk was over, and whether it stood.

    The latter as how far it had come in the half second before [m].
    """
    with np.load(out / "trajectory.npz") as data, np.load(out / "decisions.npz") as decisions:
        path, began_s = data["path"], decisions["time_s"][0]
    moments = began_s + walk_s - np.array((0.0, STOPPED_STEPS * CONTROL_DT_S))
    after = np.searchsorted(path[:, 0], moments, side="right")
    place, before = path[np.maximum(after - 1, 0), 1:3]
    return place, math.dist(place, before)


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
