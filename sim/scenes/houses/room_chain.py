"""Room chain: rooms in a row, a door from each to the next, furniture along the walls."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.scenes.houses.rooms import (
    FLOOR_COLOUR,
    FLOOR_TEXTURE,
    HEIGHT_M,
    PIECES,
    WALL_COLOUR,
    WALL_TEXTURE,
)
from pixelgait.sim.world.floor_plan import DOOR_M, WALL_M
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose, Scene

START_M, LENGTH_M, WIDTH_M = -1.0, 13.0, 3.6
FIRST_M = 2.5
SPACING_M = (4.0, 3.0)  # between the walls across, at difficulty 0 and 1
BESIDE_DOOR_M = 0.3  # least width of the wall beside a door
FURNISHED = (0.4, 1.0)  # share of rooms with furniture, at difficulty 0 and 1
ASIDE_M = 0.01  # between furniture and the wall


class RoomChain(Scene):
    """A house without a corridor along x; doors and furniture are drawn in every episode."""

    name = "room-chain"
    goal_m = LENGTH_M - 1.0

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
            y = float(side) * (WIDTH_M / 2 - piece.half_m[1] - ASIDE_M)
            there = Pose(x + spacing / 2, y, piece.half_m[2])
            pieces.append(there if is_placed and there.x < LENGTH_M - 1.0 else STORE)
        start = Pose(0.0, float(rng.uniform(-0.6, 0.6)), 0.0, float(rng.uniform(-0.3, 0.3)))
        return Layout(start, [*walls, *pieces])

    def ground_m(self, x: float, y: float) -> float | None:
        return 0.0 if START_M < x < LENGTH_M and abs(y) < WIDTH_M / 2 + WALL_M else None


def _wall(pose: Pose, half_x: float, half_y: float) -> Box:
    return Box(pose, (half_x, half_y, HEIGHT_M / 2), WALL_COLOUR, texture=WALL_TEXTURE)
