"""Furnished houses: pieces in the rooms of a plan, as people place them, with ways left between.

Every piece is tried at several places. One stays where it overlaps nothing, and where a robot can
still get from every open door to every other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.furniture import FLOOR, Design, Kinds, Piece, draw_piece
from pixelgait.sim.world.house_plan import Door, HouseKind, HousePlan, Room, draw_house, leaf_pose
from pixelgait.sim.world.obstacles import HEADROOM_M, LEAST_HEIGHT_M
from pixelgait.sim.world.scene import Box, Pose, corners
from pixelgait.sim.world.texture import Texture
from pixelgait.sim.world.traversability import CLEARANCE_M, PIXEL_M, TraversabilityMap

WALL_HEIGHT_M, DOOR_HEIGHT_M, LEAF_M = 2.4, 2.03, 0.04
CELL_M = 0.05  # of the raster on which ways are kept open
WAY_M = CLEARANCE_M + CELL_M  # of a robot's middle: a cell more than on maps, whose cells differ
CLOSE = math.ceil(WAY_M / CELL_M) + 2  # cells beyond which a piece changes nothing
LOST_M2 = 1.0  # of free floor that a piece may cut off
TRIES = 8  # to place a piece
MARGIN_M = 0.5  # of the map, around the house
KEPT = (0.6, 1.0)  # share of the furniture that is placed, at difficulty 0 and 1
THINGS_PER_M2 = (0.03, 0.16)  # on the floor
PROGRAMME_M2 = 11.0  # of floor that one programme fills, except in halls
WALLS = (
    ((0.80, 0.78, 0.74), Texture("plaster", ((0.83, 0.81, 0.77), (0.77, 0.75, 0.71)), 5)),
    ((0.69, 0.48, 0.38), Texture("bricks", ((0.66, 0.40, 0.30), (0.80, 0.76, 0.70)), tile_m=2.0)),
    ((0.62, 0.70, 0.74), Texture("stripes", ((0.60, 0.68, 0.72), (0.65, 0.73, 0.77)), 6)),
)
DOOR_COLOUR = (0.86, 0.82, 0.74)


@dataclass(frozen=True, slots=True)
class House:
    """A furnished house: its boxes, on a floor at z = 0, and the plan they follow."""

    plan: HousePlan
    boxes: list[Box]

    def map(self) -> TraversabilityMap:
        """Map of the floor; below tables, and what else hangs lower than headroom, is none.

        Raises:
            ValueError: if there is no room to turn anywhere.
        """
        x0, y0, x1, y1 = self.plan.extent_m
        low = np.floor((np.array((x0, y0)) - MARGIN_M) * 10.0) / 10.0
        high = np.ceil((np.array((x1, y1)) + MARGIN_M) * 10.0) / 10.0
        columns, rows = np.round((high - low) / PIXEL_M).astype(int).tolist()
        image = np.zeros((rows, columns), np.uint8)
        inside = np.array([[(x0, y0), (x1, y0), (x1, y1), (x0, y1)]])
        _fill(image, (inside - low) / PIXEL_M, 255)
        _fill(image, (_outlines(in_the_way(self.boxes)) - low) / PIXEL_M, 0)
        return TraversabilityMap(image, (float(low[0]), float(low[1])))


def draw_furnished(
    rng: np.random.Generator, kind: HouseKind, difficulty: float, kinds: Kinds, most: int
) -> House:
    """Draw a furnished house of at most so many boxes."""
    plan = draw_house(rng, kind, difficulty)
    furnisher = _Furnisher(rng, kinds, plan, most)
    for door in plan.doors:
        if door.is_open and door.has_leaf:
            _ = any(furnisher.stand([_leaf(door, leaf_pose(rng, door))]) for _ in range(2))
    kept = float(np.interp(difficulty, (0.0, 1.0), KEPT))
    floor = sum(room.area_m2 for room in plan.rooms)
    things = int(rng.poisson(floor * float(np.interp(difficulty, (0.0, 1.0), THINGS_PER_M2))))
    for _ in range(things // 3):  # some before there is furniture: free places are many then
        furnisher.thing(plan.rooms)
    for i in rng.permutation(len(plan.rooms)).tolist():
        furnisher.furnish(plan.rooms[i], kept)
    for _ in range(things - things // 3):
        furnisher.thing(plan.rooms)
    return House(plan, furnisher.boxes[:most])


def in_the_way(boxes: Sequence[Box]) -> list[Box]:
    """Boxes that a robot walks round."""
    return [
        box
        for box in boxes
        if box.pose.z - box.half_m[2] < HEADROOM_M and box.pose.z + box.half_m[2] > LEAST_HEIGHT_M
    ]


def _shell(rng: np.random.Generator, plan: HousePlan) -> list[Box]:
    """Walls, lintels and closed doors."""
    colour, texture = WALLS[int(rng.integers(len(WALLS)))]
    half = plan.wall_m / 2
    boxes = []
    for x0, y0, x1, y1 in plan.walls:
        middle = Pose((x0 + x1) / 2, (y0 + y1) / 2, WALL_HEIGHT_M / 2)
        sides = ((x1 - x0) / 2, half) if y0 == y1 else (half, (y1 - y0) / 2)
        boxes.append(Box(middle, (*sides, WALL_HEIGHT_M / 2), colour, texture=texture))
    for door in plan.doors:
        rise = (WALL_HEIGHT_M - DOOR_HEIGHT_M) / 2
        yaw = 0.0 if door.along_x else math.pi / 2
        above = Pose(door.x, door.y, DOOR_HEIGHT_M + rise, yaw)
        boxes.append(Box(above, (door.width_m / 2, 0.9 * half, rise), colour, texture=texture))
        if not door.is_open:
            boxes.append(_leaf(door, leaf_pose(rng, door)))
    return boxes


def _leaf(door: Door, pose: Pose) -> Box:
    half = (door.width_m / 2, LEAF_M / 2, DOOR_HEIGHT_M / 2)
    return Box(replace(pose, z=DOOR_HEIGHT_M / 2), half, DOOR_COLOUR)


def _outlines(boxes: Sequence[Box]) -> Array:
    return corners([box.pose for box in boxes], np.array([box.half_m[:2] for box in boxes]))


def _fill(image: NDArray[np.uint8], polygons: Array, value: int) -> None:
    for points in np.floor(polygons).astype(np.int32):
        cv2.fillConvexPoly(image, points, value)


class _Space:
    """A raster of a house, on which ways between its open doors are kept open."""

    def __init__(self, plan: HousePlan, shell: Sequence[Box]) -> None:
        x0, y0, x1, y1 = plan.extent_m
        self._low = np.array((x0, y0)) - MARGIN_M
        columns, rows = np.ceil((np.array((x1, y1)) + MARGIN_M - self._low) / CELL_M).astype(int)
        self._taken = np.full((rows, columns), 255, np.uint8)  # 255: outside, or below a piece
        inside = np.array([[(x0, y0), (x1, y0), (x1, y1), (x0, y1)]])
        _fill(self._taken, self._cells(inside), 0)
        _fill(self._taken, self._cells(_outlines(in_the_way(shell))), 255)
        self._walls = self._taken.copy()
        places = np.array([(d.x, d.y) for d in plan.doors if d.is_open]).reshape(-1, 2)
        self._doors = np.floor(self._cells(places)).astype(int)
        self._free = _passable(self._taken)  # 1: a robot's middle may be there
        self._area = self._reachable(self._free)  # cells

    def add(self, outlines: Array, flat: NDArray[np.bool_]) -> bool:
        """Take the place below outlines (n, 4, 2) [m], if that is free and no way is closed by it.

        Parts that are `flat` (n,) on the floor, or high above it, must not be in walls alone.
        """
        cells = self._cells(outlines)
        lows, highs = np.floor(cells.min(axis=(0, 1))), np.floor(cells.max(axis=(0, 1))) + 1
        near, far = self._window(lows, highs, CLOSE), self._window(lows, highs, 2 * CLOSE)
        here = cells - (far[1].start, far[0].start)
        there = np.zeros_like(self._taken[far])
        _fill(there, here[flat], 255)
        if (there & self._walls[far]).any():
            return False
        there[:] = 0
        _fill(there, here[~flat], 255)
        if (there & self._taken[far]).any():
            return False
        row, column = near[0].start - far[0].start, near[1].start - far[1].start
        before, taken = self._free[near], cv2.bitwise_or(self._taken[far], there)
        rows, columns = before.shape
        after = _passable(taken)[row : row + rows, column : column + columns]
        area = self._area - int(np.count_nonzero(before)) + int(np.count_nonzero(after))
        if _parts(before, after) or self._has_door(near):
            free = self._free.copy()
            free[near] = after
            lost, area = area, self._reachable(free)
            if area < lost - LOST_M2 / CELL_M**2:
                return False
        self._taken[far], self._free[near], self._area = taken, after, area
        return True

    def _reachable(self, free: NDArray[np.uint8]) -> int:
        """Cells that can be reached from all open doors, or largest area without any.

        -1: some doors cannot be reached from others.
        """
        _, labels, statistics, _ = cv2.connectedComponentsWithStats(free, connectivity=4)
        areas = statistics[:, cv2.CC_STAT_AREA]
        areas[0] = -1
        best = int(areas.argmax())
        for column, row in self._doors.tolist():
            near = labels[row - 2 : row + 3, column - 2 : column + 3]
            if not (near == best).any():
                return -1
        return int(areas[best])

    def _has_door(self, window: tuple[slice, slice]) -> bool:
        rows, columns = window
        inside = (self._doors >= (columns.start, rows.start)) & (
            self._doors < (columns.stop, rows.stop)
        )
        return bool(inside.all(axis=1).any())

    def _window(self, lows: Array, highs: Array, around: int) -> tuple[slice, slice]:
        """Rows and columns around cells (2,) from the lowest to the highest."""
        left, below = np.maximum(lows.astype(int) - around, 0).tolist()
        right, above = (highs.astype(int) + around).tolist()
        return slice(below, min(above, len(self._taken))), slice(
            left, min(right, self._taken.shape[1])
        )

    def _cells(self, places: Array) -> Array:
        return np.asarray((places - self._low) / CELL_M)


def _passable(taken: Any) -> NDArray[np.uint8]:
    """1 for cells that are further than `WAY_M` from all that are taken."""
    room = cv2.distanceTransform((taken == 0).astype(np.uint8), cv2.DIST_L2, 3)
    return np.asarray(room > WAY_M / CELL_M, np.uint8)


def _parts(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """Whether free cells of a window that were connected in it no longer are."""
    whole, pieces = (cv2.connectedComponents(free, connectivity=4)[1] for free in (before, after))
    left = after > 0
    pairs = np.unique(whole[left].astype(np.int64) * pieces.size + pieces[left])
    return len(np.unique(pairs // pieces.size)) < len(pairs)


Placed = list[tuple[Piece, Pose]]  # pieces that belong together, in the frame of the first


class _Furnisher:
    """Places furniture of some kinds in the rooms of a house."""

    def __init__(self, rng: np.random.Generator, kinds: Kinds, plan: HousePlan, most: int) -> None:
        self.rng, self.kinds, self.most = rng, kinds, most
        self.wall_m = plan.wall_m
        self.boxes = _shell(rng, plan)
        self._space = _Space(plan, self.boxes)

    def furnish(self, room: Room, kept: float) -> None:
        """Fill a room by its use."""
        count = 1 if room.use == "shop" else max(1, round(room.area_m2 / PROGRAMME_M2))
        for step in count * PROGRAMMES[room.use]:
            if step is _zones or self.rng.random() < kept:
                step(self, room)

    def thing(self, rooms: Sequence[Room]) -> None:
        """Lay a thing on the floor of a room, more likely of a large one."""
        areas = np.array([room.area_m2 for room in rooms])
        room = rooms[int(self.rng.choice(len(rooms), p=areas / areas.sum()))]
        self.anywhere(room, [(self.draw(*FLOOR), Pose(0.0, 0.0, 0.0))])

    def draw(self, *designs: Design) -> Piece:
        """Draw a piece of some designs."""
        return draw_piece(self.rng, self.kinds, designs)

    def add(self, group: Placed, pose: Pose) -> bool:
        """Place a group with its origin at a pose, if it fits."""
        outlines = np.concatenate([pose.points(outlines) for outlines in map(_footprint, group)])
        flat = np.concatenate([piece.flat for piece, _ in group])
        if len(self.boxes) + len(flat) > self.most or not self._space.add(outlines, flat):
            return False
        self.boxes += [box for piece, at in group for box in piece.boxes(_composed(pose, at))]
        return True

    def stand(self, boxes: list[Box]) -> bool:
        """Place boxes of the world, if they fit."""
        is_placed = self._space.add(_outlines(boxes), np.zeros(len(boxes), bool))
        self.boxes += boxes if is_placed else []
        return is_placed

    def at_wall(self, room: Room, group: Placed, reach: tuple[float, float] | None = None) -> bool:
        """Place a group with the back of its first piece to a wall."""
        half_x, half_y = group[0][0].half_m if reach is None else reach
        for _ in range(TRIES):
            pose = self._wall_pose(room, half_x, half_y)
            if pose is not None and self.add(group, pose):
                return True
        return False

    def _wall_pose(self, room: Room, half_x: float, half_y: float) -> Pose | None:
        rng, side = self.rng, int(self.rng.integers(4))
        inset = self.wall_m / 2 + float(rng.uniform(0.01, 0.06))
        along_x = side < 2
        low, high = (room.x0, room.x1) if along_x else (room.y0, room.y1)
        slack = high - low - self.wall_m - 2 * half_x
        if slack < 0.0:
            return None
        # Corners are as likely as all that lies between them.
        share = float(np.clip(rng.uniform(-0.5, 1.5), 0.02, 0.98))
        at = low + self.wall_m / 2 + half_x + share * slack
        yaw = (0.0, math.pi, -math.pi / 2, math.pi / 2)[side] + float(rng.normal(0.0, 0.02))
        if along_x:
            y = room.y0 + inset + half_y if side == 0 else room.y1 - inset - half_y
            return Pose(at, y, 0.0, yaw)
        x = room.x0 + inset + half_y if side == 2 else room.x1 - inset - half_y
        return Pose(x, at, 0.0, yaw)

    def anywhere(self, room: Room, group: Placed, turned: bool = True) -> bool:
        """Place a group somewhere in a room."""
        rng = self.rng
        for _ in range(TRIES):
            x = float(rng.uniform(room.x0, room.x1))
            y = float(rng.uniform(room.y0, room.y1))
            quarter = float(rng.integers(4)) * math.pi / 2 + float(rng.normal(0.0, 0.1))
            yaw = float(rng.uniform(-math.pi, math.pi)) if turned else quarter
            if self.add(group, Pose(x, y, 0.0, yaw)):
                return True
        return False

    def seated(self, table: Piece, seats: Sequence[Design], share: float) -> Placed:
        """A table with chairs around it: some tucked in, some pulled out, some turned."""
        group: Placed = [(table, Pose(0.0, 0.0, 0.0))]
        half_x, half_y = table.half_m
        design = seats[int(self.rng.integers(len(seats)))]
        chair = self.draw(design)
        for side in range(4):
            half, off = (half_x, half_y) if side < 2 else (half_y, half_x)
            count = max(1, int(2 * half / 0.65)) if 2 * half > 0.5 else 0
            for k in range(count):
                if self.rng.random() < share:
                    along = (k + 0.5) / count * 2 * half - half
                    group.append((chair, self._seat(side, along, off, chair)))
        return [group[0], *(each for each in group[1:] if not _meet(each, group[0]))]

    def _seat(self, side: int, along: float, off: float, chair: Piece) -> Pose:
        """A chair's pose at a side of a table, which it faces."""
        out = off + chair.half_m[1] + float(self.rng.uniform(-0.25, 0.25))
        yaw = float(self.rng.normal(0.0, 0.15))
        if side < 2:  # it faces +y
            sign = -1.0 if side == 0 else 1.0
            return Pose(along, sign * out, 0.0, yaw + (0.0 if side == 0 else math.pi))
        sign = -1.0 if side == 2 else 1.0
        return Pose(sign * out, along, 0.0, yaw + (-math.pi / 2 if side == 2 else math.pi / 2))


def _footprint(placed: tuple[Piece, Pose]) -> Array:
    """Outlines (n, 4, 2) of a piece's parts in the frame of its group."""
    piece, at = placed
    return at.points(piece.outlines)


def _composed(pose: Pose, at: Pose) -> Pose:
    """A pose in the frame of another one."""
    x, y = pose.points(np.array(((at.x, at.y),)))[0].tolist()
    return Pose(x, y, pose.z + at.z, pose.yaw + at.yaw)


def _meet(one: tuple[Piece, Pose], other: tuple[Piece, Pose]) -> bool:
    """Whether boxes of two pieces intersect."""
    first, second = one[0].boxes(one[1]), other[0].boxes(other[1])
    outlines = [np.asarray(_outlines(boxes), np.float32) for boxes in (first, second)]
    for a, outline in zip(first, outlines[0], strict=True):
        for b, of_b in zip(second, outlines[1], strict=True):
            overlap = a.half_m[2] + b.half_m[2] - abs(a.pose.z - b.pose.z)
            if overlap > 0.0 and cv2.intersectConvexConvex(outline, of_b)[0] > 1e-5:
                return True
    return False


Step = Callable[[_Furnisher, Room], object]


def _wall(*designs: Design) -> Step:
    """A piece with its back to a wall."""

    def step(f: _Furnisher, room: Room) -> None:
        f.at_wall(room, [(f.draw(*designs), Pose(0.0, 0.0, 0.0))])

    return step


def _free(*designs: Design) -> Step:
    """A piece somewhere."""

    def step(f: _Furnisher, room: Room) -> None:
        f.anywhere(room, [(f.draw(*designs), Pose(0.0, 0.0, 0.0))])

    return step


def _dining(f: _Furnisher, room: Room) -> None:
    group = f.seated(f.draw("table"), ("chair", "chair", "stool", "bench"), 0.7)
    if not f.anywhere(room, group, turned=False):
        f.at_wall(room, group)


def _meeting(f: _Furnisher, room: Room) -> None:
    group = f.seated(f.draw("table"), ("chair", "office-chair"), 0.8)
    f.anywhere(room, group, turned=False)


def _desk(f: _Furnisher, room: Room) -> None:
    """A desk at a wall or in the room, its chair before it."""
    desk, chair = f.draw("desk"), f.draw("office-chair", "chair")
    out = desk.half_m[1] + chair.half_m[1] + float(f.rng.uniform(-0.2, 0.35))
    yaw = math.pi + float(f.rng.normal(0.0, 0.5))
    pair: Placed = [(desk, Pose(0.0, 0.0, 0.0)), (chair, Pose(0.0, out, 0.0, yaw))]
    group = pair[:1] if _meet(pair[1], pair[0]) else pair
    if not f.at_wall(room, group):
        f.anywhere(room, group, turned=False)


def _sofas(f: _Furnisher, room: Room) -> None:
    """A sofa with a low table before it, sometimes an armchair beside that, on a rug."""
    sofa, table = f.draw("sofa", "sofa", "armchair"), f.draw("coffee-table")
    away = sofa.half_m[1] + table.half_m[1] + float(f.rng.uniform(0.15, 0.6))
    group: Placed = [(sofa, Pose(0.0, 0.0, 0.0))]
    if f.rng.random() < 0.8:
        turn = 0.0 if table.half_m[0] > table.half_m[1] else math.pi / 2
        group.append((table, Pose(0.0, away, 0.0, turn + float(f.rng.normal(0.0, 0.05)))))
    if f.rng.random() < 0.4:
        chair = f.draw("armchair", "stool", "bench")
        side = 1.0 if f.rng.random() < 0.5 else -1.0
        x = side * (table.half_m[0] + chair.half_m[1] + float(f.rng.uniform(0.2, 0.7)))
        group.append((chair, Pose(x, away, 0.0, side * math.pi / 2)))
    is_at_wall = f.rng.random() < 0.7
    if not (is_at_wall and f.at_wall(room, group)):
        f.anywhere(room, group, turned=False)


def _bed(f: _Furnisher, room: Room) -> None:
    """A bed with its head to a wall, a small cabinet or a lamp beside it."""
    bed = f.draw("bed")
    group: Placed = [(bed, Pose(0.0, 0.0, 0.0))]
    for side in (-1.0, 1.0):
        if f.rng.random() < 0.5:
            beside = f.draw("stool", "lamp", "bin", "box")
            x = side * (bed.half_m[0] + beside.half_m[0] + 0.05)
            group.append((beside, Pose(x, beside.half_m[1] - bed.half_m[1], 0.0)))
    _ = f.at_wall(room, group) or f.at_wall(room, group[:1])


def _counters(f: _Furnisher, room: Room) -> None:
    """A row of counters along a wall."""
    counter = f.draw("counter")
    count = int(f.rng.integers(1, 4))
    step = 2 * counter.half_m[0] + 0.01
    group: Placed = [(counter, Pose((k - (count - 1) / 2) * step, 0.0, 0.0)) for k in range(count)]
    f.at_wall(room, group, (count * step / 2, counter.half_m[1]))


def _zones(f: _Furnisher, room: Room) -> None:
    """Rows in one to three parts of a hall, of another piece in each."""
    count = 1 + int(f.rng.integers(min(3, 1 + int(room.area_m2 / 60.0))))
    is_wide = room.x1 - room.x0 > room.y1 - room.y0
    low, high = (room.x0, room.x1) if is_wide else (room.y0, room.y1)
    for a, b in pairwise(np.linspace(low, high, count + 1).tolist()):
        part = room._replace(x0=a, x1=b) if is_wide else room._replace(y0=a, y1=b)
        _rows(f, part, f.draw("shelf", "counter", "cabinet", "table", "desk", "clothes-rail"))


def _rows(f: _Furnisher, room: Room, piece: Piece) -> None:
    """Rows of a piece with aisles between them, as in shops and canteens; some have gaps."""
    rng, along_x = f.rng, bool(f.rng.random() < 0.5)
    long, deep = (room.x1 - room.x0, room.y1 - room.y0)[:: 1 if along_x else -1]
    middle = Pose(
        (room.x0 + room.x1) / 2, (room.y0 + room.y1) / 2, 0.0, 0.0 if along_x else math.pi / 2
    )
    has_seats = piece.name.startswith(("table", "desk")) and rng.random() < 0.7
    aisle, end = float(rng.uniform(0.8, 1.8)), float(rng.uniform(0.8, 1.8))
    width = 2 * piece.half_m[0] + 0.02
    for at in np.arange(-deep / 2 + end, deep / 2 - end, 2 * piece.half_m[1] + aisle).tolist():
        along = -long / 2 + end + width / 2
        while along + width / 2 < long / 2 - end:
            if rng.random() < 0.15:
                along += float(rng.uniform(0.9, 1.5))
                continue
            group: Placed = [(piece, Pose(0.0, 0.0, 0.0))]
            if has_seats:
                group = f.seated(piece, ("chair", "stool"), 0.4)
            f.add(group, _composed(middle, Pose(along, at, 0.0)))
            along += width


def _pillars(f: _Furnisher, room: Room) -> None:
    half = float(f.rng.uniform(0.1, 0.3))
    for _ in range(int(f.rng.integers(0, 5))):
        x, y = float(f.rng.uniform(room.x0, room.x1)), float(f.rng.uniform(room.y0, room.y1))
        pose = Pose(x, y, WALL_HEIGHT_M / 2)
        f.stand([Box(pose, (half, half, WALL_HEIGHT_M / 2), DOOR_COLOUR)])


def _partition(f: _Furnisher, room: Room) -> None:
    """A wall that ends in the room: a corner that leads nowhere."""
    if room.area_m2 < 12.0:
        return
    for _ in range(3):
        long = float(f.rng.uniform(0.4, 1.2))
        pose = f._wall_pose(room, 0.05, long)
        if pose is not None:
            half = (0.05, long, WALL_HEIGHT_M / 2)
            if f.stand([Box(replace(pose, z=WALL_HEIGHT_M / 2), half, DOOR_COLOUR)]):
                return


def _steps() -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Furniture of a room of each use, in the order in which it is placed."""
    yield "hall", (_wall("cabinet", "bench", "shelf"), _wall("shoes", "clothes-rail", "bin"))
    yield (
        "corridor",
        (
            _wall("cabinet", "bench", "bin", "plant", "box"),
            _wall("counter", "shelf", "chair", "barrier", "plant"),
        ),
    )
    yield (
        "living",
        (
            _partition, _sofas, _wall("tv-board"), _wall("shelf", "cabinet"),
            _wall("plant", "lamp"), _free("armchair", "stool", "plant", "lamp"), _wall("bench"),
        ),
    )  # fmt: skip
    yield (
        "dining",
        (_dining, _wall("cabinet", "shelf"), _wall("plant", "lamp"), _free("chair", "stool")),
    )
    yield (
        "bedroom",
        (
            _bed, _wall("cabinet", "shelf"), _desk, _wall("bench", "clothes-rail", "chair"),
            _wall("plant", "lamp", "bin"),
        ),
    )  # fmt: skip
    yield "kitchen", (_counters, _dining, _counters, _wall("cabinet", "shelf", "bin"))
    yield "study", (_desk, _wall("shelf"), _wall("shelf", "cabinet"), _free("lamp", "plant", "bin"))
    yield (
        "gym",
        (
            _free("exercise"), _free("barbell", "bar"), _free("exercise", "bench"),
            _wall("shelf", "bench"), _free("barbell", "barrier"),
        ),
    )  # fmt: skip
    yield (
        "storage",
        (_wall("shelf"), _wall("shelf", "box"), _free("box", "step", "bar"), _wall("box", "bag")),
    )
    yield "bath", (_wall("cabinet", "counter"), _wall("bin", "stool"), _wall("shelf"))
    yield (
        "office",
        (_desk, _desk, _wall("shelf", "cabinet"), _free("bin", "plant", "office-chair")),
    )
    yield "meeting", (_meeting, _wall("cabinet", "tv-board"), _wall("plant", "lamp", "chair"))
    yield (
        "shop",
        (
            _pillars,
            _zones,
            _counters,
            _counters,
            _free("barrier", "plant"),
            _free("counter"),
            _wall("bench", "bin"),
        ),
    )


PROGRAMMES = dict(_steps())
