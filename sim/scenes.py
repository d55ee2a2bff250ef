"""Scenes: where a robot can be, described once and built by every simulator in its own way.

A new one is a file with a class like FlatGround, and a name in `scene_list`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pixelgait.robot.spec import Array

FRICTION = 1.0

Colour = tuple[float, float, float]  # RGB, 0 to 1


@dataclass(frozen=True, slots=True)
class Pose:
    """Somewhere upright: position [m] and heading [rad]."""

    x: float
    y: float
    z: float
    yaw: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A box with its centre at `pose`."""

    pose: Pose
    half_m: tuple[float, float, float]
    colour: Colour
    friction: float = FRICTION


@dataclass(frozen=True, slots=True)
class Plane:
    """The endless horizontal plane z = 0; every simulator draws it in its own pattern."""

    friction: float = FRICTION


ORIGIN = Pose(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class HeightField:
    """Uneven ground, its middle and height 0 at `pose`.

    `heights_m` (n, m) are those of points `cell_m` apart, n along x and m along y; not all equal.
    """

    heights_m: Array
    cell_m: float
    colour: Colour
    friction: float = FRICTION
    pose: Pose = ORIGIN


Shape = Box | Plane | HeightField


@dataclass(frozen=True, slots=True)
class Layout:
    """What is different in every episode."""

    start: Pose  # of the robot: the ground below it
    movable: Sequence[Pose] = ()  # where the scene's movable shapes are


class Scene(Protocol):
    """Surroundings of one robot. Built once per body, laid out anew at every reset."""

    name: str
    goal_x_m: float  # reached: success

    @property
    def fixed(self) -> Sequence[Shape]:
        """What is the same in every episode."""

    @property
    def movable(self) -> Sequence[Box | HeightField]:
        """What a layout places; the shapes' own poses do not count."""

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw an episode's layout."""

    def supports(self, x: float, y: float) -> bool:
        """Whether there is ground to walk on at (x, y)."""


class FlatGround:
    """An endless flat floor."""

    name = "flat"
    goal_x_m = np.inf
    fixed = (Plane(),)
    movable = ()

    def __init__(self, difficulty: float = 0.0) -> None:
        del difficulty  # flat is flat

    def layout(self, rng: np.random.Generator) -> Layout:
        return Layout(ORIGIN)

    def supports(self, x: float, y: float) -> bool:
        return True
