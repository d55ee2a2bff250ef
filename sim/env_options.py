"""What every Gymnasium environment here can be asked for."""

from __future__ import annotations

import math
from typing import TypedDict

from pixelgait.robot.errors import UserError
from pixelgait.sim.body.camera import CHANNELS, Kind
from pixelgait.sim.scenes.distractors import Split
from pixelgait.sim.world.appearance import LooksOption


class EnvOptions(TypedDict, total=False):
    """What every environment can be asked for beside its scene; see `PixelGaitEnv` in envs.py."""

    robot: str
    render_mode: str | None
    distractors: Split | None
    looks: LooksOption
    camera: Kind
    body: str
    randomise: bool
    faults: tuple[str, ...]
    field_of_view_rad: float | None
    goal: bool


def check_eyes(
    image_size: tuple[int, int] | None, camera: Kind, field_of_view_rad: float | None
) -> None:
    """Raises UserError if there is no such camera."""
    if camera not in CHANNELS:
        raise UserError(f"unknown camera '{camera}', choose from {', '.join(CHANNELS)}")
    if image_size is not None and (len(image_size) != 2 or min(image_size) < 1):
        raise UserError(f"image_size is {image_size}, needs (height, width), each at least 1")
    if field_of_view_rad is not None and not 0.0 < field_of_view_rad < math.pi:
        raise UserError(
            f"field_of_view_rad is {field_of_view_rad}, needs more than 0, less than pi"
        )
