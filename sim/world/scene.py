"""Scenes: where a robot can be, described once and built by every simulator in its own way.

A new one is a file with a class like FlatGround: docs/scenes.md shows how.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.texture import Colour, Texture

FRICTION = 1.0
APPEARANCE_SEEDS = 2**31  # of a set


@dataclass(frozen=True, slots=True)
class Pose:
    """Somewhere upright: position [m] and heading [rad]."""

    x: float
    y: float
    z: float
    yaw: float = 0.0

    def points(self, local: Array) -> Array:
        """Points (n, 2) [m] of this pose's frame in the world."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        return np.asarray(local @ np.array(((cos, sin), (-sin, cos))) + (self.x, self.y))


def corners(pose: Pose, half_m: Array) -> Array:
    """Corners (4, 2) [m] of a rectangle with half length and half width (2,)."""
    return pose.points(np.array(((-1, -1), (1, -1), (1, 1), (-1, 1))) * half_m)


@dataclass(frozen=True, slots=True)
class Box:
    """A box with its centre at `pose`."""

    pose: Pose
    half_m: tuple[float, float, float]
    colour: Colour
    friction: float = FRICTION
    texture: Texture | None = None  # instead of the colour
    visible: bool = True


@dataclass(frozen=True, slots=True)
class Plane:
    """The endless horizontal plane z = 0, drawn in PyBullet's chequers."""

    friction: float = FRICTION


ORIGIN = Pose(0.0, 0.0, 0.0)
STORE = Pose(0.0, 0.0, -10.0)  # out of sight and reach: for movable shapes an episode does not use
AWAY = Pose(0.0, 0.0, -100.0)  # further than cameras see: for whole grounds it does not use


@dataclass(frozen=True, slots=True, eq=False)
class HeightField:
    """Uneven ground, its middle and height 0 at `pose`.

    `heights_m` (n, m) are those of points `cell_m` apart, n along x and m along y.
    """

    heights_m: Array
    cell_m: float
    colour: Colour
    friction: float = FRICTION
    pose: Pose = ORIGIN


@dataclass(frozen=True, slots=True)
class Mesh:
    """Triangles from OBJ files in metres, z up; concave ones too.

    Who cannot collide with such triangles collides with invisible boxes instead, their poses in the
    world.
    """

    visual: Path
    collision: Path
    texture: Path | None  # None: white
    boxes: Sequence[Box]
    friction: float = FRICTION


Shape = Box | Plane | HeightField | Mesh


@dataclass(frozen=True, slots=True)
class Swing:
    """A movable shape that goes to and fro, `reach_m` along x, y and z either way of its pose."""

    shape: int  # which of the movable ones
    reach_m: tuple[float, float, float]
    period_s: float

    def pose(self, middle: Pose, time_s: float) -> Pose:
        """Where it is so long after the reset."""
        share = math.sin(2.0 * math.pi * time_s / self.period_s)
        x, y, z = (share * reach for reach in self.reach_m)
        return Pose(middle.x + x, middle.y + y, middle.z + z, middle.yaw)


@dataclass(frozen=True, slots=True)
class Layout:
    """What is different in every episode."""

    start: Pose  # of the robot: the ground below it
    movable: Sequence[Pose] = ()  # where the scene's movable shapes are
    swings: Sequence[Swing] = ()
    appearance: AppearanceSeed | None = None  # None: plain, as the scene says


def interpolate(grid: Array, row: float, column: float) -> float:
    """Bilinear value of a grid (n, m) at a point within it, in units of its indices."""
    i, j = min(int(row), grid.shape[0] - 2), min(int(column), grid.shape[1] - 2)
    u, v = row - i, column - j
    a, b, c, d = grid[i : i + 2, j : j + 2].ravel().tolist()
    return float((1 - u) * ((1 - v) * a + v * b) + u * ((1 - v) * c + v * d))


class Scene(ABC):
    """Surroundings of one robot. Built once per body, laid out anew at every reset.

    What a scene does not say of itself is that of level ground at z = 0, walked along x without
    an end. Goal, progress, destination and ground are those of the last layout.
    """

    name: str
    goal_m: float = math.inf  # the progress that is a success
    fixed: Sequence[Shape] = ()  # what is the same in every episode
    movable: Sequence[Box | HeightField] = ()  # what a layout places; their own poses do not count
    has_goal_position: bool = False  # whether every layout has one
    goal_position: Array | None = None  # (2,) x, y [m]: where the robot is told to go

    @abstractmethod
    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw an episode's layout."""

    def progress_m(self, x: float, y: float) -> float:
        """How far (x, y) is on the way to the goal, from an origin of the scene's choice."""
        return x

    def path_length_m(self, x: float, y: float) -> float:
        """How long the shortest way to the destination is [m]; progress may be rougher."""
        return -self.progress_m(x, y)

    def ground_m(self, x: float, y: float) -> float | None:
        """Height of the ground at (x, y), whatever stands on it; None: nothing to walk on."""
        return 0.0


class SceneWrapper(Scene):
    """A scene around another one, `scene`, which says what is where."""

    scene: Scene

    def _laid_out(self, rng: np.random.Generator) -> Layout:
        """Its layout; goal and destination are those of that from then on."""
        layout = self.scene.layout(rng)
        self.goal_m, self.goal_position = self.scene.goal_m, self.scene.goal_position
        return layout

    def progress_m(self, x: float, y: float) -> float:
        return self.scene.progress_m(x, y)

    def path_length_m(self, x: float, y: float) -> float:
        return self.scene.path_length_m(x, y)

    def ground_m(self, x: float, y: float) -> float | None:
        return self.scene.ground_m(x, y)


class WithAppearance(SceneWrapper):
    """A scene whose layouts have an appearance each; all else is the scene's own."""

    def __init__(self, scene: Scene, appearance: AppearanceSet, moving: bool = False) -> None:
        self.scene, self.appearance, self.moving = scene, appearance, moving
        self.name, self.goal_m = scene.name, scene.goal_m
        self.fixed, self.movable = scene.fixed, scene.movable
        self.has_goal_position = scene.has_goal_position

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own layout; the appearance is drawn after it."""
        layout = self._laid_out(rng)
        seed = AppearanceSeed(self.appearance, int(rng.integers(APPEARANCE_SEEDS)), self.moving)
        return replace(layout, appearance=seed)


def require_difficulty(difficulty: float) -> None:
    """Raises UserError if a difficulty is not in [0, 1]."""
    if not isinstance(difficulty, Real) or not 0.0 <= difficulty <= 1.0:
        raise UserError(f"difficulty is {difficulty!r}, expected 0 to 1")
