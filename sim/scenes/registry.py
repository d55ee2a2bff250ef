"""Registry of the scenes by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pixelgait.robot.errors import UserError
from pixelgait.sim.scenes.clutter import Clutter
from pixelgait.sim.scenes.distractors import Distracted, Split
from pixelgait.sim.scenes.flat import FlatGround
from pixelgait.sim.scenes.gibson import Gibson
from pixelgait.sim.scenes.obstacle_course import ObstacleCourse
from pixelgait.sim.scenes.rooms import Rooms
from pixelgait.sim.scenes.rough import Rough
from pixelgait.sim.scenes.slalom import Slalom
from pixelgait.sim.scenes.ups_and_downs import Ramps, Steps
from pixelgait.sim.world.appearance import LooksOption
from pixelgait.sim.world.looks.dressed import Dressed
from pixelgait.sim.world.own_scene import load_own_scene
from pixelgait.sim.world.scene import Scene, require_difficulty

SCENES: dict[str, Callable[[float], Scene]] = {
    FlatGround.name: FlatGround,
    ObstacleCourse.name: ObstacleCourse,
    Slalom.name: Slalom,
    Clutter.name: Clutter,
    Rough.name: Rough,
    Ramps.name: Ramps,
    Steps.name: Steps,
    Rooms.name: Rooms,
}


def make_scene(
    name: str,
    difficulty: float = 0.5,
    distractors: Split | None = None,
    looks: LooksOption = "plain",
) -> Scene:
    """A scene by name; `gibson:FOLDER` is a scanned house, `FILE.py` a scene of the user's own.

    With `distractors` it is seen under those of the training or the test set, with `looks` in one
    of that set.

    Raises:
        UserError: there is no such scene, it cannot be read, the difficulty is not in [0, 1], or
            both distractors and looks are asked for.
    """
    require_difficulty(difficulty)
    if looks != "plain":
        if distractors is not None:
            raise UserError("looks and distractors exclude each other: both change every surface")
        return Dressed(make_scene(name, difficulty), looks)
    if distractors is not None:
        return Distracted(make_scene(name, difficulty), distractors)
    if name.startswith(f"{Gibson.name}:"):
        return Gibson(Path(name.removeprefix(f"{Gibson.name}:")))
    if name.endswith(".py"):
        return load_own_scene(Path(name), difficulty)
    if name not in SCENES:
        known = f"{', '.join(SCENES)}, {Gibson.name}:FOLDER or FILE.py"
        raise UserError(f"unknown scene '{name}', choose from {known}")
    return SCENES[name](difficulty)
