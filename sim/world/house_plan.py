"""Floor plans of flats, offices and halls: rooms side by side, walls between them, doors.

A plan is a partition of a rectangle into rooms. Rooms that share enough of a wall may have a door
in it: a tree of open doors joins all rooms but those that are closed, further ones make loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal, NamedTuple

import numpy as np

from pixelgait.sim.world.scene import Pose

HouseKind = Literal["apartment", "office", "hall"]
Use = Literal[
    "hall", "corridor", "living", "dining", "bedroom", "kitchen", "study", "gym", "storage",
    "bath", "office", "meeting", "shop",
]  # fmt: skip
# Doors at difficulty 0 and 1, narrowest and widest. A trotting A1 is 0.5 m wide.
DOOR_M = ((0.95, 1.1), (0.75, 0.95))
WALL_M = (0.08, 0.20)  # thick
BESIDE_DOOR_M = 0.2  # wall on either side of a door, at least
AREA_M2 = (32.0, 170.0)  # of a flat
HALL_AREA_M2 = (60.0, 300.0)
LEAST_ROOM_M = 2.2
CORRIDOR_M = (1.1, 1.8)  # width of a flat's
OFFICE_CORRIDOR_M = (1.4, 2.6)
OFFICE_LENGTH_M = (14.0, 30.0)
WIDE_OPENING, FURTHER_DOOR, CLOSED_ROOM, CLOSED_DOOR = 0.15, 0.25, 0.2, 0.3  # probabilities


class Room(NamedTuple):
    """A room between the middles of its walls: least and greatest x and y [m]."""

    use: Use
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def area_m2(self) -> float:
        """Area [m2], half of its walls included."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)


@dataclass(frozen=True, slots=True)
class Door:
    """A gap in a wall; closed ones are filled by a leaf."""

    x: float  # the middle
    y: float
    width_m: float
    along_x: bool  # the wall
    is_open: bool
    has_leaf: bool


@dataclass(frozen=True, slots=True)
class HousePlan:
    """Rooms around the origin; walls as middle lines from x, y to x, y [m], end to end."""

    rooms: list[Room]
    walls: list[tuple[float, float, float, float]]
    doors: list[Door]
    wall_m: float  # thickness

    @property
    def extent_m(self) -> tuple[float, float, float, float]:
        """Least x and y, greatest x and y."""
        return (
            min(room.x0 for room in self.rooms),
            min(room.y0 for room in self.rooms),
            max(room.x1 for room in self.rooms),
            max(room.y1 for room in self.rooms),
        )


class _Shared(NamedTuple):
    """The wall that two rooms share."""

    rooms: tuple[int, int]
    along_x: bool
    at: float  # y of a wall along x, x of one along y
    low: float
    high: float


def draw_house(rng: np.random.Generator, kind: HouseKind, difficulty: float) -> HousePlan:
    """Draw a plan of a kind: doors are narrower and rooms are more at greater difficulty."""
    rooms = {"apartment": _apartment, "office": _office, "hall": _hall}[kind](rng)
    shared = list(_shared_walls(rooms))
    widths = tuple(
        float(np.interp(difficulty, (0.0, 1.0), ends)) for ends in zip(*DOOR_M, strict=True)
    )
    doors, openings = _doors(rng, rooms, shared, widths)  # type: ignore[arg-type]
    thick = float(rng.uniform(*WALL_M))
    walls = [
        line
        for wall, gap in zip(shared, openings, strict=True)
        for line in _lines(wall, gap, thick / 2)
    ]
    x0, y0, x1, y1 = HousePlan(rooms, [], [], thick).extent_m
    low_x, high_x = x0 - thick / 2, x1 + thick / 2
    walls += [(low_x, y0, high_x, y0), (low_x, y1, high_x, y1), (x0, y0, x0, y1), (x1, y0, x1, y1)]
    return HousePlan(rooms, walls, doors, thick)


def _centred(rooms: list[Room]) -> list[Room]:
    x = (min(r.x0 for r in rooms) + max(r.x1 for r in rooms)) / 2
    y = (min(r.y0 for r in rooms) + max(r.y1 for r in rooms)) / 2
    return [Room(r.use, r.x0 - x, r.y0 - y, r.x1 - x, r.y1 - y) for r in rooms]


def _turned(rng: np.random.Generator, rooms: list[Room]) -> list[Room]:
    """The rooms, half of the time with x and y exchanged."""
    if rng.random() < 0.5:
        return rooms
    return [Room(r.use, r.y0, r.x0, r.y1, r.x1) for r in rooms]


def _apartment(rng: np.random.Generator) -> list[Room]:
    """Rooms off a hall, or off each other."""
    area, aspect = float(rng.uniform(*AREA_M2)), float(rng.uniform(1.0, 1.8))
    length, width = math.sqrt(area * aspect), math.sqrt(area / aspect)
    rooms: list[Room] = []
    rests = [(0.0, 0.0, length, width)]
    if width > 2 * LEAST_ROOM_M + CORRIDOR_M[1] and rng.random() < 0.6:
        hall, reach = float(rng.uniform(*CORRIDOR_M)), length * float(rng.uniform(0.6, 1.0))
        if length - reach < LEAST_ROOM_M:
            reach = length
        y = float(rng.uniform(LEAST_ROOM_M, width - hall - LEAST_ROOM_M))
        rooms.append(Room("hall", 0.0, y, reach, y + hall))
        rests = [(0.0, 0.0, reach, y), (0.0, y + hall, reach, width)]
        if reach < length:
            rests.append((reach, 0.0, length, width))
    most = float(rng.uniform(9.0, 22.0))
    leaves = [leaf for rest in rests for leaf in _split(rng, rest, most)]
    order = sorted(leaves, key=lambda r: -(r[2] - r[0]) * (r[3] - r[1]))
    uses: list[Use] = ["living", "bedroom", "dining", "kitchen"]
    others: tuple[Use, ...] = ("bedroom", "study", "storage", "gym", "bath", "dining", "living")
    uses += [others[int(rng.integers(len(others)))] for _ in order]
    rooms += [Room(use, *leaf) for use, leaf in zip(uses, order, strict=False)]
    return _centred(_turned(rng, rooms))


def _split(
    rng: np.random.Generator, rest: tuple[float, float, float, float], most_m2: float
) -> list[tuple[float, float, float, float]]:
    """Parts of a rectangle, cut across its longer side until each is small enough."""
    x0, y0, x1, y1 = rest
    wide, deep = x1 - x0, y1 - y0
    if wide * deep < most_m2 * float(rng.uniform(0.7, 1.4)) or max(wide, deep) < 2 * LEAST_ROOM_M:
        return [rest]
    share = float(rng.uniform(0.3, 0.7))
    if wide > deep:
        cut = min(max(x0 + share * wide, x0 + LEAST_ROOM_M), x1 - LEAST_ROOM_M)
        halves = (x0, y0, cut, y1), (cut, y0, x1, y1)
    else:
        cut = min(max(y0 + share * deep, y0 + LEAST_ROOM_M), y1 - LEAST_ROOM_M)
        halves = (x0, y0, x1, cut), (x0, cut, x1, y1)
    return [part for half in halves for part in _split(rng, half, most_m2)]


def _office(rng: np.random.Generator) -> list[Room]:
    """A corridor with rooms on both sides; some of the gaps between rooms are its dead ends."""
    length, corridor = float(rng.uniform(*OFFICE_LENGTH_M)), float(rng.uniform(*OFFICE_CORRIDOR_M))
    rooms = [Room("corridor", 0.0, 0.0, length, corridor)]
    for side in (-1, 1):
        deep = float(rng.uniform(2.6, 5.5))
        low, high = (-deep, 0.0) if side < 0 else (corridor, corridor + deep)
        if rng.random() < 0.12:
            continue  # windows on this side
        at = 0.0
        while length - at > 1e-6:
            is_branch = 0.0 < at < length - 4.5 and rng.random() < 0.2
            wide = float(rng.uniform(1.2, 2.0) if is_branch else rng.uniform(2.4, 6.0))
            if length - at - wide < LEAST_ROOM_M:
                wide, is_branch = length - at, False
            use: Use = "corridor" if is_branch else _office_use(rng)
            rooms.append(Room(use, at, low, at + wide, high))
            at += wide
    return _centred(_turned(rng, rooms))


def _office_use(rng: np.random.Generator) -> Use:
    uses: tuple[Use, ...] = ("office", "office", "office", "meeting", "storage", "kitchen")
    return uses[int(rng.integers(len(uses)))]


def _hall(rng: np.random.Generator) -> list[Room]:
    """One large room, half of the time with smaller ones along a side."""
    area, aspect = float(rng.uniform(*HALL_AREA_M2)), float(rng.uniform(1.0, 1.8))
    length, width = math.sqrt(area * aspect), math.sqrt(area / aspect)
    if rng.random() < 0.5:
        return _centred(_turned(rng, [Room("shop", 0.0, 0.0, length, width)]))
    deep = float(rng.uniform(2.2, 3.5))
    count = int(rng.integers(1, max(2, int(length / 3.0))))
    cuts = np.linspace(0.0, length, count + 1).tolist()
    sides = [Room("storage", a, width - deep, b, width) for a, b in pairwise(cuts)]
    return _centred(_turned(rng, [Room("shop", 0.0, 0.0, length, width - deep), *sides]))


def _shared_walls(rooms: list[Room]) -> Iterator[_Shared]:
    """Walls between two rooms each."""
    for (i, a), (j, b) in combinations(enumerate(rooms), 2):
        for along_x in (True, False):
            first, second = (a, b) if along_x else (_flipped(a), _flipped(b))
            for below, above in ((first, second), (second, first)):
                low, high = max(first.x0, second.x0), min(first.x1, second.x1)
                if abs(below.y1 - above.y0) < 1e-6 and high - low > 1e-6:
                    yield _Shared((i, j), along_x, below.y1, low, high)


def _flipped(room: Room) -> Room:
    return Room(room.use, room.y0, room.x0, room.y1, room.x1)


def _doors(
    rng: np.random.Generator,
    rooms: list[Room],
    shared: list[_Shared],
    widths: tuple[float, float],
) -> tuple[list[Door], list[tuple[float, float] | None]]:
    """Doors, and the gap from low to high in every shared wall."""
    gaps: list[tuple[float, float] | None] = [None] * len(shared)
    doors: list[Door] = []
    walls: list[_Shared] = []  # of the doors
    group = list(range(len(rooms)))  # rooms that open doors have joined
    for at in _by_preference(rng, rooms, shared):
        wall = shared[at]
        i, j = wall.rooms
        if rooms[i].use == rooms[j].use == "corridor":
            gaps[at] = wall.low, wall.high
            group = [group[i] if each == group[j] else each for each in group]
            continue
        room_m = wall.high - wall.low - 2 * BESIDE_DOOR_M
        width = min(float(rng.uniform(*widths)), room_m)
        if width < widths[0]:
            continue
        if group[i] != group[j] or rng.random() < FURTHER_DOOR:
            is_open, is_wide = True, bool(rng.random() < WIDE_OPENING) and room_m > 1.3
            width = min(room_m, float(rng.uniform(1.3, 2.6))) if is_wide else width
            group = [group[i] if each == group[j] else each for each in group]
        elif rng.random() < CLOSED_DOOR:
            is_open = is_wide = False
        else:
            continue
        reach = max(0.0, (wall.high - wall.low - width) / 2 - BESIDE_DOOR_M)
        middle = (wall.low + wall.high) / 2 + float(rng.uniform(-reach, reach))
        gaps[at] = middle - width / 2, middle + width / 2
        x, y = (middle, wall.at) if wall.along_x else (wall.at, middle)
        has_leaf = not is_open or (not is_wide and bool(rng.random() < 0.5))
        doors.append(Door(x, y, width, wall.along_x, is_open, has_leaf))
        walls.append(wall)
    return _closed(rng, rooms, doors, walls), gaps


def _closed(
    rng: np.random.Generator, rooms: list[Room], doors: list[Door], walls: list[_Shared]
) -> list[Door]:
    """The doors, after some of the rooms with a single open door have been closed."""
    for i, room in enumerate(rooms):
        ways = [k for k, wall in enumerate(walls) if doors[k].is_open and i in wall.rooms]
        is_leaf = len(ways) == 1 and room.use not in ("hall", "corridor", "living", "shop")
        if is_leaf and rng.random() < CLOSED_ROOM:
            doors[ways[0]] = replace(doors[ways[0]], is_open=False, has_leaf=True)
    return doors


def _by_preference(rng: np.random.Generator, rooms: list[Room], shared: list[_Shared]) -> list[int]:
    """Indices of the shared walls in the order in which they get doors: those of halls first."""
    central = [
        any(rooms[i].use in ("hall", "corridor", "shop") for i in wall.rooms) for wall in shared
    ]
    return sorted(range(len(shared)), key=lambda at: float(rng.random()) - central[at])


def _lines(
    wall: _Shared, gap: tuple[float, float] | None, beyond_m: float
) -> Iterator[tuple[float, float, float, float]]:
    """Lines of a shared wall beside a gap; it goes on beyond its ends to close corners."""
    ends = wall.low - beyond_m, wall.high + beyond_m
    parts = [ends] if gap is None else [(ends[0], gap[0]), (gap[1], ends[1])]
    if gap == (wall.low, wall.high):
        return  # no wall at all
    for low, high in parts:
        if high - low > 1e-6:
            yield (low, wall.at, high, wall.at) if wall.along_x else (wall.at, low, wall.at, high)


def leaf_pose(rng: np.random.Generator, door: Door) -> Pose:
    """Pose of a door's leaf on the floor: in its gap, or swung open about one of its edges."""
    base = 0.0 if door.along_x else math.pi / 2
    if not door.is_open:
        return Pose(door.x, door.y, 0.0, base)
    half = door.width_m / 2
    edge = half if rng.random() < 0.5 else -half
    hinge_x, hinge_y = door.x + edge * math.cos(base), door.y + edge * math.sin(base)
    swing = float(rng.uniform(1.2, 2.8)) * (1.0 if rng.random() < 0.5 else -1.0)
    yaw = base + (math.pi if edge > 0 else 0.0) + swing
    return Pose(hinge_x + half * math.cos(yaw), hinge_y + half * math.sin(yaw), 0.0, yaw)
