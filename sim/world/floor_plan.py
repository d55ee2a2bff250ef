"""Floor plans drawn from a seed: a corridor with rooms on both sides, doors and furniture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.scene import Pose, corners
from pixelgait.sim.world.traversability import PIXEL_M

# At difficulty 0 and 1. The narrowest door leaves the A1 (0.5 m wide while trotting) 12 cm on
# either side.
ROOM_COUNTS = (2, 8)
SIZE_M = ((6.0, 5.5), (11.0, 8.0))  # of the house: along the corridor, across it
DOOR_M = (1.1, 0.75)
FURNITURE_COUNTS = (2, 12)

CORRIDOR_M = (1.3, 1.8)  # its width
LEAST_ROOM_M = (2.2, 1.6)  # of a room: along the corridor, across it
WALL_M = 0.12  # thick
BESIDE_DOOR_M = 0.5  # wall on either side of a door, at least
SECOND_DOOR = 0.4  # probability of a door between two neighbouring rooms
KEEP_CLEAR_M = 0.7  # between furniture, and around doors
TRIES = 20  # to place a piece of furniture
MARGIN_M = 0.5  # of the map, around the house

WallLine = tuple[float, float, float, float]  # axis-aligned middle line, from x, y to x, y [m]
Rectangle = tuple[float, float, float, float]  # lowest x, lowest y, highest x, highest y [m]


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """Walls and furniture around the origin, on a map `size_m` wide."""

    size_m: float
    walls: list[WallLine]
    furniture: list[Pose | None]  # of every piece; None if it did not fit

    def traversable(self, pieces: list[tuple[float, float]]) -> NDArray[np.uint8]:
        """Map (n, n) in Gibson's format: 255 where a robot can walk, 0 outside and in obstacles.

        `pieces` are the half lengths and widths of the furniture [m].
        """
        side = round(self.size_m / PIXEL_M)
        image = np.zeros((side, side), dtype=np.uint8)
        ends = np.array(self.walls)
        low, high = ends[:, :2].min(axis=0), ends[:, 2:].max(axis=0)
        _fill(image, np.array([(low, (high[0], low[1]), high, (low[0], high[1]))]), 255)
        middles = [Pose((x0 + x1) / 2, (y0 + y1) / 2, 0.0) for x0, y0, x1, y1 in self.walls]
        _fill(image, corners(middles, (ends[:, 2:] - ends[:, :2]) / 2 + WALL_M / 2), 0)
        placed = [(p, half) for p, half in zip(self.furniture, pieces, strict=True) if p]
        _fill(image, corners([p for p, _ in placed], np.array([half for _, half in placed])), 0)
        return image


def draw_plan(
    rng: np.random.Generator, difficulty: float, pieces: list[tuple[float, float]]
) -> FloorPlan:
    """Draw a floor plan for pieces of furniture, given by half length and half width [m]."""
    length, width = (
        float(np.interp(difficulty, (0, 1), pair)) for pair in zip(*SIZE_M, strict=True)
    )
    door = float(np.interp(difficulty, (0.0, 1.0), DOOR_M))
    corridor = float(rng.uniform(*CORRIDOR_M))
    low = float(rng.uniform(LEAST_ROOM_M[1], width - corridor - LEAST_ROOM_M[1])) - width / 2
    count = round(float(np.interp(difficulty, (0.0, 1.0), ROOM_COUNTS)))
    below = (count + int(rng.integers(2))) // 2
    walls = _outer_walls(length, width)
    rooms: list[Rectangle] = []
    doors: list[tuple[float, float]] = []
    for y, far, n in ((low, -width / 2, below), (low + corridor, width / 2, count - below)):
        new_walls, new_rooms, new_doors = _rooms(rng, length, (y, far), n, door)
        walls, rooms, doors = walls + new_walls, rooms + new_rooms, doors + new_doors
    furniture = _furnish(rng, rooms, doors, pieces)
    size = max(SIZE_M[1]) + 2 * MARGIN_M
    if rng.random() < 0.5:  # the corridor along y
        walls = [(y0, x0, y1, x1) for x0, y0, x1, y1 in walls]
        furniture = [p and Pose(p.y, p.x, 0.0, math.pi / 2 - p.yaw) for p in furniture]
    return FloorPlan(size, walls, furniture)


def _fill(image: NDArray[np.uint8], polygons: Array, value: int) -> None:
    for points in np.floor(polygons / PIXEL_M + len(image) / 2).astype(np.int32):
        cv2.fillConvexPoly(image, points, value)


def _outer_walls(length: float, width: float) -> list[WallLine]:
    x, y = length / 2, width / 2
    return [(-x, -y, x, -y), (-x, y, x, y), (-x, -y, -x, y), (x, -y, x, y)]


def _rooms(
    rng: np.random.Generator, length: float, across: tuple[float, float], count: int, door: float
) -> tuple[list[WallLine], list[Rectangle], list[tuple[float, float]]]:
    """One side of the corridor, `across` from its wall to the house's: walls, rooms, doors."""
    y = across[0]
    least = LEAST_ROOM_M[0]
    slack = (length - count * least) * rng.dirichlet(np.full(count, 2.0))
    cuts = (np.concatenate(([0.0], np.cumsum(least + slack))) - length / 2).tolist()
    gaps = [_door(rng, low, high, door) for low, high in pairwise(cuts)]
    walls = [(a, y, b, y) for a, b in _between(-length / 2, length / 2, gaps)]
    doors = [((low + high) / 2, y) for low, high in gaps]
    low, high = min(across), max(across)
    for x in cuts[1:-1]:
        gaps = []
        if high - low > 2 * BESIDE_DOOR_M + door and rng.random() < SECOND_DOOR:
            gaps = [_door(rng, low, high, door)]
            doors.append((x, sum(gaps[0]) / 2))
        walls += [(x, a, x, b) for a, b in _between(low, high, gaps)]
    rooms = [(a, low, b, high) for a, b in pairwise(cuts)]
    return walls, rooms, doors


def _door(rng: np.random.Generator, low: float, high: float, width: float) -> tuple[float, float]:
    """Both sides of a door in a wall from low to high."""
    at = float(rng.uniform(low + BESIDE_DOOR_M, high - BESIDE_DOOR_M - width))
    return at, at + width


def _between(low: float, high: float, gaps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The range from low to high without some gaps in ascending order."""
    starts = [low, *(end for _, end in gaps)]
    return list(zip(starts, [*(start for start, _ in gaps), high], strict=True))


def _furnish(
    rng: np.random.Generator,
    rooms: list[Rectangle],
    doors: list[tuple[float, float]],
    pieces: list[tuple[float, float]],
) -> list[Pose | None]:
    """Put every piece against a wall of a room, clear of doors and of other pieces."""
    placed: list[Pose | None] = []
    occupied: list[Rectangle] = [(x, y, x, y) for x, y in doors]
    for half_m in pieces:
        placed.append(None)
        for _ in range(TRIES):
            pose, box = _against_a_wall(rng, rooms[rng.integers(len(rooms))], half_m)
            if all(_is_apart(box, other) for other in occupied):
                placed[-1] = pose
                occupied.append(box)
                break
    return placed


def _against_a_wall(
    rng: np.random.Generator, room: Rectangle, half_m: tuple[float, float]
) -> tuple[Pose, Rectangle]:
    """Draw a pose of a piece with its long side at a wall; also the rectangle it covers."""
    along = int(rng.integers(2))  # the wall's axis
    half = half_m if along == 0 else half_m[::-1]
    low = [edge + WALL_M / 2 + reach for edge, reach in zip(room[:2], half, strict=True)]
    high = [edge - WALL_M / 2 - reach for edge, reach in zip(room[2:], half, strict=True)]
    ends = zip(low, high, rng.random(2).tolist(), strict=True)
    centre = [first + (last - first) * share for first, last, share in ends]
    centre[1 - along] = (low, high)[rng.integers(2)][1 - along]
    (x, y), (half_x, half_y) = centre, half
    box = x - half_x, y - half_y, x + half_x, y + half_y
    return Pose(x, y, 0.0, along * math.pi / 2), box


def _is_apart(box: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles are further apart than the ways round furniture are wide."""
    x = max(box[0] - other[2], other[0] - box[2], 0.0)
    y = max(box[1] - other[3], other[1] - box[3], 0.0)
    return math.hypot(x, y) > KEEP_CLEAR_M
