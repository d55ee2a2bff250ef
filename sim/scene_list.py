"""The scenes by name."""

from __future__ import annotations

from collections.abc import Callable

from pixelgait.robot.errors import UserError
from pixelgait.sim.clutter import Clutter
from pixelgait.sim.obstacle_course import ObstacleCourse
from pixelgait.sim.rooms import Rooms
from pixelgait.sim.rough import Rough
from pixelgait.sim.scenes import FlatGround, Scene
from pixelgait.sim.slalom import Slalom

SCENES: dict[str, Callable[[float], Scene]] = {
    FlatGround.name: FlatGround,
    ObstacleCourse.name: ObstacleCourse,
    Slalom.name: Slalom,
    Clutter.name: Clutter,
    Rough.name: Rough,
    Rooms.name: Rooms,
}


def make_scene(name: str, difficulty: float = 0.5) -> Scene:
    """A scene by name.

    Raises:
        UserError: there is no such scene, or the difficulty is not in [0, 1].
    """
    if name not in SCENES:
        raise UserError(f"unknown scene '{name}', choose from {', '.join(SCENES)}")
    if not 0.0 <= difficulty <= 1.0:
        raise UserError(f"difficulty is {difficulty}, expected 0 to 1")
    return SCENES[name](difficulty)
