"""Registry of the scenes by name."""

from __future__ import annotations

import importlib.util
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


def make_scene(name: str, difficulty: float = 0.5, distractors: Split | None = None) -> Scene:
    """A scene by name; `gibson:FOLDER` is a scanned house, `FILE.py` a scene of the user's own.

    With `distractors` it is seen under those of the training or the test set.

    Raises:
        UserError: there is no such scene, it cannot be read, or the difficulty is not in [0, 1].
    """
    require_difficulty(difficulty)
    if distractors is not None:
        return Distracted(make_scene(name, difficulty), distractors)
    if name.startswith(f"{Gibson.name}:"):
        return Gibson(Path(name.removeprefix(f"{Gibson.name}:")))
    if name.endswith(".py"):
        return _own_scene(Path(name), difficulty)
    if name not in SCENES:
        known = f"{', '.join(SCENES)}, {Gibson.name}:FOLDER or FILE.py"
        raise UserError(f"unknown scene '{name}', choose from {known}")
    return SCENES[name](difficulty)


def _own_scene(path: Path, difficulty: float) -> Scene:
    """The one scene that a Python file defines."""
    if not path.exists():
        raise UserError(f"scene {path} is missing")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"scene {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Scene)]
        own = [scene for scene in found if scene.__module__ == path.stem]
        if len(own) != 1:
            raise UserError(f"scene {path} defines {len(own)} classes of scenes, expected one")
        scene: Callable[[float], Scene] = own[0]
        return scene(difficulty)
    except Exception as error:  # whatever is wrong in a user's file
        if isinstance(error, UserError):
            raise
        raise UserError(f"scene {path}: {type(error).__name__}: {error}") from error
