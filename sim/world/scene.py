"""Scenes: surroundings of a robot, described once and built by every simulator in its own way.

A new scene is a file with a class like FlatGround: see docs/scenes.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.world.appearance import AppearanceSeed, AppearanceSet
from pixelgait.sim.world.ground import LEVEL, Ground, height_m
from pixelgait.sim.world.texture import Colour, Texture

FRICTION = 1.0
APPEARANCE_SEEDS = 2**31  # of a set


@dataclass(frozen=True, slots=True)
class Pose:
    """An upright pose: position [m] and heading [rad]."""

    x: float
    y: float
    z: float
    yaw: float = 0.0

    def points(self, local: Array) -> Array:
        """Points (n, 2) [m] from this pose's frame to the world's."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        return np.asarray(local @ np.array(((cos, sin), (-sin, cos))) + (self.x, self.y))


def corners(poses: Sequence[Pose], half_m: Array) -> Array:
    """Corners (n, 4, 2) [m] of rectangles with half lengths and half widths (n, 2)."""
    turns = [(math.cos(pose.yaw), math.sin(pose.yaw)) for pose in poses]
    rotations = np.array([((cos, sin), (-sin, cos)) for cos, sin in turns]).reshape(-1, 2, 2)
    middles = np.array([(pose.x, pose.y) for pose in poses]).reshape(-1, 1, 2)
    local = np.array(((-1, -1), (1, -1), (1, 1), (-1, 1))) * np.reshape(half_m, (-1, 1, 2))
    return np.asarray(local @ rotations + middles)


@dataclass(frozen=True, slots=True)
class Box:
    """A box with its centre at `pose`."""

    pose: Pose
    half_m: tuple[float, float, float]
    colour: Colour
    friction: float = FRICTION
    texture: Texture | None = None  # instead of the colour
    visible: bool = True
    push_n: float | None = None  # greatest force of its motion [N]; None: nothing stops it


@dataclass(frozen=True, slots=True)
class Plane:
    """The endless plane z = 0, drawn in PyBullet's chequers."""

    friction: float = FRICTION


ORIGIN = Pose(0.0, 0.0, 0.0)
STORE = Pose(0.0, 0.0, -10.0)  # out of sight and reach: of movable shapes not in use
AWAY = Pose(0.0, 0.0, -100.0)  # beyond the cameras' range: of whole grounds not in use


def is_in_use(pose: Pose) -> bool:
    """Whether a layout places a movable shape with this pose in the scene."""
    return pose not in (STORE, AWAY)


@dataclass(frozen=True, slots=True, eq=False)
class HeightField:
    """Uneven ground, its middle and height 0 at `pose`.

    `heights_m` (n, m) belong to points `cell_m` apart, n along x and m along y.
    """

    heights_m: Array
    cell_m: float
    colour: Colour
    friction: float = FRICTION
    pose: Pose = ORIGIN


@dataclass(frozen=True, slots=True)
class Mesh:
    """Triangles from files, also concave.

    OBJ, STL and PLY files are in metres, z up; glTF and COLLADA say their own frame. An OBJ file of
    several materials without a texture, and files of other formats, bring their own colours; see
    `pixelgait.sim.world.triangles`. MuJoCo and gliding robots collide with invisible `boxes`
    instead, with poses in the world.
    """

    visual: Path
    collision: Path
    texture: Path | None  # None: the file's own colours; white in an OBJ file of one material
    boxes: Sequence[Box]
    friction: float = FRICTION


Shape = Box | Plane | HeightField | Mesh


def push_limit_n(shape: Shape) -> float | None:
    """Greatest force [N] of a shape's motion; None: nothing stops it."""
    return shape.push_n if isinstance(shape, Box) else None


@dataclass(frozen=True, slots=True)
class Waypoint:
    """Where a path is at a time after the reset."""

    time_s: float
    x: float
    y: float
    yaw: float = 0.0  # [rad], not wrapped
    swung_s: float = 0.0  # time for which what moves along the path has swung until then


@dataclass(frozen=True, slots=True)
class Motion:
    """Motion of a movable shape: to and fro about its pose, and along a path.

    The pose in the layout and `reach_m` are in the frame of the path, without one in the world's.
    Between two waypoints a path is linear; before the first and after the last it stands.
    """

    shape: int  # index into the movable shapes
    reach_m: tuple[float, float, float] = (0.0, 0.0, 0.0)  # along x, y and z, either way
    period_s: float = 1.0  # to and fro
    path: Sequence[Waypoint] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The part of a scene that is drawn anew in every episode."""

    start: Pose  # the ground below the robot
    movable: Sequence[Pose] = ()  # of the scene's movable shapes
    motions: Sequence[Motion] = ()
    appearance: AppearanceSeed | None = None  # None: the shapes' own colours
    # Boxes in place of movable shapes, by their index, in this episode: other sizes and colours.
    # Their poses are those of `movable`.
    boxes: Mapping[int, Box] = field(default_factory=dict)

    def shapes(self, scene: Scene) -> list[Box | HeightField]:
        """The scene's movable shapes as they are in this episode, whatever their own poses."""
        shapes = list(scene.movable)
        for i, box in self.boxes.items():
            shapes[i] = box
        return shapes


def interpolate(grid: Array, row: float, column: float) -> float:
    """Bilinear value of a grid (n, m) at a point within it, in units of its indices."""
    i, j = min(int(row), grid.shape[0] - 2), min(int(column), grid.shape[1] - 2)
    u, v = row - i, column - j
    a, b, c, d = grid[i : i + 2, j : j + 2].ravel().tolist()
    return float((1 - u) * ((1 - v) * a + v * b) + u * ((1 - v) * c + v * d))


class Scene(ABC):
    """Surroundings of one robot, built once per body and laid out anew at every reset.

    The defaults describe level ground at z = 0, walked along x without an end. Goal, progress and
    ground are those of the last layout.
    """

    name: str
    goal_m: float = math.inf  # progress of a success
    fixed: Sequence[Shape] = ()  # the same in every episode
    movable: Sequence[Box | HeightField] = ()  # placed by layouts, whatever their own poses
    draws_boxes: bool = False  # whether layouts have `boxes`
    has_goal_position: bool = False  # whether every layout sets it
    draws_reachable_goals: bool = False  # so that no map has to be searched for a path
    goal_position: Array | None = None  # (2,) x, y [m]
    _ground: Ground = LEVEL  # in the last layout

    def __init_subclass__(cls) -> None:
        """A subclass with a `ground_m` of its own, and no `ground`, has no ground as data."""
        if "ground_m" in vars(cls) and "ground" not in vars(cls):
            cls.ground = _unknown_ground  # type: ignore[assignment]

    @abstractmethod
    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw an episode's layout."""

    def progress_m(self, x: float, y: float) -> float:
        """Progress towards the goal at (x, y) [m], from an origin of the scene's choice."""
        return x

    def progresses_m(self, places: Array) -> Array:
        """Progress (n,) at places (n, 2) [m]."""
        if type(self).progress_m is Scene.progress_m:
            return np.asarray(places[:, 0])
        return np.array([self.progress_m(x, y) for x, y in places.tolist()])

    def path_length_m(self, x: float, y: float) -> float:
        """Length of the shortest path from (x, y) to the goal [m]; progress may be rougher."""
        return -self.progress_m(x, y)

    def ground(self) -> Ground | None:
        """Ground of the last layout, without obstacles; None: `ground_m` has to be asked."""
        return self._ground

    def ground_m(self, x: float, y: float) -> float | None:
        """Height of the ground at (x, y) [m], without obstacles; None: no ground."""
        ground = self.ground()
        return None if ground is None else height_m(ground, x, y)

    def grounds_m(self, places: Array) -> Array:
        """Heights (n,) of the ground at places (n, 2) [m]; NaN: no ground."""
        if (ground := self.ground()) is not None:
            from pixelgait.sim.world.ground_kernels import grounds_m

            return grounds_m(ground, places)
        found = [self.ground_m(x, y) for x, y in places.tolist()]
        return np.array([math.nan if height is None else height for height in found])


def _unknown_ground(scene: Scene) -> None:
    """No data: the scene only answers for a point."""


class SceneWrapper(Scene):
    """A scene with the geometry of another one, `scene`."""

    scene: Scene

    def _laid_out(self, rng: np.random.Generator) -> Layout:
        """Layout of the wrapped scene, whose goal becomes this one's."""
        layout = self.scene.layout(rng)
        self.goal_m, self.goal_position = self.scene.goal_m, self.scene.goal_position
        return layout

    def progress_m(self, x: float, y: float) -> float:
        return self.scene.progress_m(x, y)

    def progresses_m(self, places: Array) -> Array:
        return self.scene.progresses_m(places)

    def path_length_m(self, x: float, y: float) -> float:
        return self.scene.path_length_m(x, y)

    def ground(self) -> Ground | None:
        return self.scene.ground()

    def ground_m(self, x: float, y: float) -> float | None:
        return self.scene.ground_m(x, y)


class WithAppearance(SceneWrapper):
    """A scene whose layouts have an appearance each; all else is the scene's own."""

    def __init__(self, scene: Scene, appearance: AppearanceSet, moving: bool = False) -> None:
        self.scene, self.appearance, self.moving = scene, appearance, moving
        self.name, self.goal_m = scene.name, scene.goal_m
        self.fixed, self.movable = scene.fixed, scene.movable
        self.draws_boxes = scene.draws_boxes
        self.has_goal_position = scene.has_goal_position
        self.draws_reachable_goals = scene.draws_reachable_goals

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own layout; the appearance is drawn after it."""
        layout = self._laid_out(rng)
        seed = AppearanceSeed(self.appearance, int(rng.integers(APPEARANCE_SEEDS)), self.moving)
        return replace(layout, appearance=seed)


def require_difficulty(difficulty: float) -> None:
    """Raises UserError if a difficulty is not a number from 0 to 1."""
    if not isinstance(difficulty, Real) or not 0.0 <= difficulty <= 1.0:
        raise UserError(f"difficulty is {difficulty!r}, expected 0 to 1")
