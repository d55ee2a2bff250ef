"""Rooms: a new floor plan in every episode, from wall elements; and a chain of rooms in a row."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.world.floor_plan import (
    DOOR_M,
    FURNITURE_COUNTS,
    MARGIN_M,
    SIZE_M,
    WALL_M,
    FloorPlan,
    draw_plan,
)
from pixelgait.sim.world.ground import make_ground, open_rectangle
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose, Scene
from pixelgait.sim.world.texture import Texture
from pixelgait.sim.world.traversability import TraversabilityMap

START_M, LENGTH_M, WIDTH_M = -1.0, 13.0, 3.6
FIRST_M = 2.5
SPACING_M = (4.0, 3.0)  # between the walls across, at difficulty 0 and 1
BESIDE_DOOR_M = 0.3  # least width of the wall beside a door
FURNISHED = (0.4, 1.0)  # share of rooms with furniture, at difficulty 0 and 1
FURNITURE_ASIDE_M = 0.01  # between furniture and the wall
HEIGHT_M = 2.4
# Elements overlap where a wall is no multiple of them; every wall is longer than a short one.
LONG_M, SHORT_M = 1.5, 0.5
ELEMENT_COUNTS = ((40, 20), (80, 40))  # long and short, at difficulty 0 and 1
ASIDE_M = 0.001  # from the wall's middle, in turn: coplanar surfaces would flicker
WALL_TEXTURE = Texture("bricks", ((0.66, 0.40, 0.30), (0.80, 0.76, 0.70)), tile_m=2.0)
FLOOR_TEXTURE = Texture("planks", ((0.62, 0.50, 0.36), (0.36, 0.27, 0.18)), tile_m=2.0)
FLOOR_COLOUR, WALL_COLOUR = (0.52, 0.41, 0.29), (0.69, 0.48, 0.38)  # their means
# Half lengths, widths and heights [m]: a cupboard, a table, a sofa, a chair.
PIECES = (
    ((0.50, 0.25, 0.90), (0.45, 0.30, 0.15), Texture("planks", ((0.5, 0.3, 0.1), (0.3, 0.2, 0.1)))),
    ((0.60, 0.35, 0.37), (0.70, 0.70, 0.65), Texture("checks", ((0.8, 0.8, 0.8), (0.6, 0.6, 0.5)))),
    (
        (0.70, 0.40, 0.38),
        (0.20, 0.30, 0.55),
        Texture("stripes", ((0.1, 0.2, 0.5), (0.3, 0.4, 0.6))),
    ),
    ((0.22, 0.22, 0.40), (0.65, 0.15, 0.15), Texture("dots", ((0.6, 0.1, 0.1), (0.8, 0.3, 0.3)))),
)


class Rooms(Indoor):
    """A house with a corridor, rooms, doors and furniture, and a green mark at the goal."""

    name = "rooms"

    def __init__(self, difficulty: float = 0.5) -> None:
        self.difficulty = difficulty
        half_floor = max(SIZE_M[1]) / 2 + MARGIN_M
        self.fixed = (slab(half_floor),)
        self.long, self.short = (
            round(float(np.interp(difficulty, (0, 1), pair)))
            for pair in zip(*ELEMENT_COUNTS, strict=True)
        )
        self.furniture = furniture(difficulty)
        elements = [wall(LONG_M)] * self.long + [wall(SHORT_M)] * self.short
        self.movable = [self.mark, *self.furniture, *elements]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a plan, a start and a goal."""
        plan, long, short = self._plan(rng)
        footprints = [box.half_m[:2] for box in self.furniture]
        traversability_map = TraversabilityMap(plan.traversable(footprints))
        start, mark = self.point_goal(rng, traversability_map, 0.0)
        walls = long + [STORE] * (self.long - len(long)) + short
        walls += [STORE] * (self.short - len(short))
        return Layout(start, [mark, *standing(plan, self.furniture), *walls])

    def _plan(self, rng: np.random.Generator) -> tuple[FloorPlan, list[Pose], list[Pose]]:
        """The next plan for which there are enough elements, and these."""
        while True:
            plan = draw_plan(rng, self.difficulty, [box.half_m[:2] for box in self.furniture])
            long, short = elements(plan)
            if len(long) <= self.long and len(short) <= self.short:
                return plan, long, short


def furniture(difficulty: float) -> list[Box]:
    """The pieces of furniture of a house, still in the store."""
    count = round(float(np.interp(difficulty, (0.0, 1.0), FURNITURE_COUNTS)))
    kinds = [PIECES[i % len(PIECES)] for i in range(count)]
    return [Box(STORE, half, colour, texture=texture) for half, colour, texture in kinds]


def standing(plan: FloorPlan, pieces: list[Box]) -> list[Pose]:
    """Poses of the pieces in a plan."""
    return [
        STORE if pose is None else Pose(pose.x, pose.y, piece.half_m[2], pose.yaw)
        for pose, piece in zip(plan.furniture, pieces, strict=True)
    ]


def elements(plan: FloorPlan) -> tuple[list[Pose], list[Pose]]:
    """Poses of the long and of the short wall elements of a plan."""
    long: list[Pose] = []
    short: list[Pose] = []
    for x0, y0, x1, y1 in plan.walls:
        length = math.hypot(x1 - x0, y1 - y0)
        poses, size = (long, LONG_M) if length >= LONG_M else (short, SHORT_M)
        count = math.ceil(length / size - 1e-9)
        forward_x, forward_y = (x1 - x0) / length, (y1 - y0) / length
        for along in np.linspace(size / 2, length - size / 2, count).tolist():
            aside = ASIDE_M if len(poses) % 2 else -ASIDE_M
            x = x0 + along * forward_x - aside * forward_y
            y = y0 + along * forward_y + aside * forward_x
            poses.append(Pose(x, y, HEIGHT_M / 2, math.atan2(forward_y, forward_x)))
    return long, short


def wall(length_m: float) -> Box:
    """A wall along x, `WALL_M / 2` longer on either side to close its corners."""
    half = ((length_m + WALL_M) / 2, WALL_M / 2, HEIGHT_M / 2)
    return Box(STORE, half, WALL_COLOUR, texture=WALL_TEXTURE)


def slab(half_m: float) -> Box:
    """A floor with its top at z = 0."""
    return Box(Pose(0.0, 0.0, -0.25), (half_m, half_m, 0.25), FLOOR_COLOUR, texture=FLOOR_TEXTURE)


class RoomChain(Scene):
    """A house without a corridor along x; doors and furniture are drawn in every episode."""

    name = "room-chain"
    goal_m = LENGTH_M - 1.0
    _ground = make_ground(
        [open_rectangle(START_M, LENGTH_M, -WIDTH_M / 2 - WALL_M, WIDTH_M / 2 + WALL_M)]
    )

    def __init__(self, difficulty: float = 0.5) -> None:
        self.door_m, spacing, self.furnished = (
            float(np.interp(difficulty, (0.0, 1.0), ends))
            for ends in (DOOR_M, SPACING_M, FURNISHED)
        )
        self.wall_x = np.arange(FIRST_M, LENGTH_M - 1.5, spacing).tolist()
        middle, half = (START_M + LENGTH_M) / 2, (LENGTH_M - START_M) / 2
        floor = Box(
            Pose(middle, 0.0, -0.25), (half, WIDTH_M / 2 + WALL_M, 0.25), FLOOR_COLOUR,
            texture=FLOOR_TEXTURE,
        )  # fmt: skip
        sides = [
            _wall(Pose(middle, side * (WIDTH_M + WALL_M) / 2, HEIGHT_M / 2), half, WALL_M / 2)
            for side in (-1, 1)
        ]
        self.fixed = (floor, *sides)
        across = [_wall(STORE, WALL_M / 2, WIDTH_M / 2) for _ in range(2 * len(self.wall_x))]
        kinds = [PIECES[i % len(PIECES)] for i in range(len(self.wall_x))]
        self.furniture = [Box(STORE, half_m, c, texture=t) for half_m, c, t in kinds]
        self.movable = [*across, *self.furniture]

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a door in every wall across, and furniture half-way between walls, on one side."""
        walls, pieces = [], []
        reach = (WIDTH_M - self.door_m) / 2 - BESIDE_DOOR_M
        spacing = self.wall_x[1] - self.wall_x[0]
        for x, piece in zip(self.wall_x, self.furniture, strict=True):
            door, aside = float(rng.uniform(-reach, reach)), (self.door_m + WIDTH_M) / 2
            walls += [Pose(x, door + side * aside, HEIGHT_M / 2) for side in (-1, 1)]
            side, is_placed = rng.choice((-1.0, 1.0)), rng.random() < self.furnished
            y = float(side) * (WIDTH_M / 2 - piece.half_m[1] - FURNITURE_ASIDE_M)
            there = Pose(x + spacing / 2, y, piece.half_m[2])
            pieces.append(there if is_placed and there.x < LENGTH_M - 1.0 else STORE)
        start = Pose(0.0, float(rng.uniform(-0.6, 0.6)), 0.0, float(rng.uniform(-0.3, 0.3)))
        return Layout(start, [*walls, *pieces])


def _wall(pose: Pose, half_x: float, half_y: float) -> Box:
    return Box(pose, (half_x, half_y, HEIGHT_M / 2), WALL_COLOUR, texture=WALL_TEXTURE)
