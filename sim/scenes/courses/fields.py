"""Fields of low, thin and overhanging things, of one kind in every episode.

Sizes are assumptions: usual ones of streets, building sites and flats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import Array
from pixelgait.sim.scenes.courses.raised_platform import Platform
from pixelgait.sim.world.furniture import Design, Kinds, draw_piece
from pixelgait.sim.world.obstacles import along
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose, Scene, corners

WIDTH_M, LENGTH_M = 6.0, 9.0
FIRST_M, EDGE_M = 1.0, 0.3  # of things from the start along x, and from the platform's sides
AHEAD_M = (0.9, 3.0)  # free distance to the thing that is always straight ahead
FREE_M = (1.2, 0.9)  # between footprints, at difficulty 0 and 1; a robot is 0.5 m wide
COUNTS = (5, 12)  # things, as far as there is room, likewise
TRIES = 40  # to place one
OUTLINE_M = 0.15  # between the points at which footprints are compared
MOST_BOXES = 160
UNUSED = Box(STORE, (0.01, 0.01, 0.01), (0.5, 0.5, 0.5))  # becomes a box of the episode
# Furniture that lies about, but nothing lower than 5 cm.
ON_FLOOR: tuple[Design, ...] = ("bag", "barbell", "shoes", "bin", "step")
COLOUR = (0.60, 0.45, 0.28)

Rng = np.random.Generator
Thing = list[Box]  # about the middle of its footprint, on the ground
Maker = Callable[[Rng, float], Thing]  # of a thing at a difficulty


class Fields(Scene):
    """Platform along x with things of one kind, which every episode draws.

    Higher difficulties have lower, thinner and more things, with less room between them.

    Raises:
        UserError: if there is no such kind.
    """

    name = "fields"
    platform = Platform(WIDTH_M, LENGTH_M)
    fixed = platform.boxes()
    goal_m = LENGTH_M - 1.0
    _ground = platform.ground()
    movable = (UNUSED,) * MOST_BOXES
    draws_boxes = True

    def __init__(self, difficulty: float = 0.5, kind: str = "") -> None:
        """`kind` is one of `KINDS` or `UNSEEN`, or all of these: empty, or "unseen"."""
        self.difficulty, self.kinds = difficulty, _chosen(kind)
        self.free_m = float(np.interp(difficulty, (0.0, 1.0), FREE_M))
        self.count = round(float(np.interp(difficulty, (0.0, 1.0), COUNTS)))
        self.kind = next(iter(self.kinds))  # in the last layout
        self.things: list[Thing] = []  # likewise, in the world

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw the kind and its things, and place thing by thing where there is room."""
        start = self.platform.start(rng)
        self.kind = list(self.kinds)[int(rng.integers(len(self.kinds)))]
        things = [self.kinds[self.kind](rng, self.difficulty) for _ in range(self.count)]
        places = _places(rng, start, [_half_m(thing) for thing in things], self.free_m)
        pairs = zip(things, places, strict=True)
        self.things = [_moved(thing, place) for thing, place in pairs if place is not None]
        boxes = [box for thing in self.things for box in thing][:MOST_BOXES]
        poses = [box.pose for box in boxes] + [STORE] * (MOST_BOXES - len(boxes))
        return Layout(start, poses, boxes=dict(enumerate(boxes)))


def _chosen(kind: str) -> Mapping[str, Maker]:
    if not kind:
        return KINDS
    if kind == "unseen":
        return UNSEEN
    known = {**KINDS, **UNSEEN}
    if kind not in known:
        raise UserError(f"fields: no kind '{kind}', choose from unseen, {', '.join(known)}")
    return {kind: known[kind]}


def _moved(thing: Thing, to: Pose) -> Thing:
    """The thing at a pose on the ground."""
    middles = to.points(np.array([(box.pose.x, box.pose.y) for box in thing])).tolist()
    return [
        replace(box, pose=Pose(x, y, box.pose.z, box.pose.yaw + to.yaw))
        for (x, y), box in zip(middles, thing, strict=True)
    ]


def _half_m(thing: Thing) -> Array:
    """Half length and half width (2,) of the rectangle that a thing covers, seen from above."""
    halves = np.array([box.half_m[:2] for box in thing])
    return np.asarray(np.abs(corners([box.pose for box in thing], halves)).max(axis=(0, 1)))


def _places(rng: Rng, start: Pose, half_m: Sequence[Array], free_m: float) -> list[Pose | None]:
    """Poses of things (half length and half width), `free_m` apart; None: there is no room.

    The first is straight ahead of the robot.
    """
    ahead = float(rng.uniform(*AHEAD_M)) + math.hypot(*half_m[0])
    x, y = ahead * math.cos(start.yaw), start.y + ahead * math.sin(start.yaw)
    first = Pose(x, y, 0.0, float(rng.uniform(-math.pi, math.pi)))
    poses: list[Pose | None] = [first]
    # Points that things have to keep away from: outlines, and the robot.
    taken = np.vstack((first.points(_outline(half_m[0])), (start.x, start.y)))
    aside_m = WIDTH_M / 2 - EDGE_M
    low, high = (FIRST_M, -aside_m, -math.pi), (LENGTH_M - 1.0, aside_m, math.pi)
    for half in half_m[1:]:
        tries = [Pose(x, y, 0.0, yaw) for x, y, yaw in rng.uniform(low, high, (TRIES, 3)).tolist()]
        outline = _outline(half)
        for pose in tries:
            points = pose.points(outline)
            apart = np.hypot(*(points[:, None] - taken).T).min()
            if apart >= free_m:
                poses.append(pose)
                taken = np.vstack((taken, points))
                break
        else:
            poses.append(None)
    return poses


def _outline(half_m: Array) -> Array:
    """Points (n, 2) on the outline of a footprint [m]."""
    return along(corners([Pose(0.0, 0.0, 0.0)], half_m)[0], OUTLINE_M)


def _drawn(rng: Rng, difficulty: float, easiest: float, least: float, most: float) -> float:
    """A size up to `most`, from `easiest` at difficulty 0, `least` at 1; small ones are usual."""
    low = float(np.interp(difficulty, (0.0, 1.0), (easiest, least)))
    return math.exp(float(rng.uniform(math.log(low), math.log(most))))


def _box(
    sides_m: tuple[float, float, float], x: float = 0.0, y: float = 0.0, z: float = 0.0
) -> Box:
    """A box of these lengths, its lower side `z` above the ground."""
    half_x, half_y, half_z = (side / 2 for side in sides_m)
    return Box(Pose(x, y, z + half_z), (half_x, half_y, half_z), COLOUR)


def _on_legs(sides_m: tuple[float, float], top_m: float, thick_m: float, leg_m: float) -> Thing:
    """A board on four legs, its lower side `top_m` above the ground."""
    x, y = ((side - leg_m) / 2 for side in sides_m)
    legs = [_box((leg_m, leg_m, top_m), i * x, j * y) for i in (-1, 1) for j in (-1, 1)]
    return [_box((*sides_m, thick_m), z=top_m), *legs]


def _low_box(rng: Rng, difficulty: float) -> Thing:
    x, y = rng.uniform(0.2, 0.7, 2).tolist()
    return [_box((x, y, _drawn(rng, difficulty, 0.25, 0.05, 0.6)))]


def _kerb(rng: Rng, difficulty: float) -> Thing:
    wide_m, long_m = rng.uniform((0.1, 0.8), (0.4, 2.0)).tolist()
    return [_box((wide_m, long_m, _drawn(rng, difficulty, 0.12, 0.05, 0.16)))]


def _bar(rng: Rng, difficulty: float) -> Thing:
    """A bar between two posts, which may end above it."""
    long_m, up_m, more = rng.uniform((0.7, 0.12, 0.0), (1.6, 0.42, 0.2)).tolist()
    thick, post = (_drawn(rng, difficulty, 0.05, 0.02, 0.08) for _ in range(2))
    posts = [_box((post, post, up_m + thick + more), y=i * long_m / 2) for i in (-1, 1)]
    return [_box((thick, long_m, thick), z=up_m), *posts]


def _bench(rng: Rng, difficulty: float) -> Thing:
    x, y, top_m, thick_m = rng.uniform((0.24, 0.7, 0.2, 0.02), (0.45, 1.4, 0.42, 0.05)).tolist()
    return _on_legs((x, y), top_m, thick_m, _drawn(rng, difficulty, 0.05, 0.02, 0.08))


def _post(rng: Rng, difficulty: float) -> Thing:
    thick_m = _drawn(rng, difficulty, 0.05, 0.02, 0.08)
    return [_box((thick_m, thick_m, float(rng.uniform(0.4, 1.2))))]


def _stairs(rng: Rng, difficulty: float) -> Thing:
    rise, run, wide_m = rng.uniform((0.1, 0.2, 0.6), (0.18, 0.3, 1.4)).tolist()
    return [_box((run, wide_m, (i + 1) * rise), x=(i - 1) * run) for i in range(3)]


def _furniture(kinds: Kinds, *designs: Design) -> Maker:
    """Furniture as it is, at every difficulty."""
    return lambda rng, _: list(draw_piece(rng, kinds, designs).parts)


def _plank(rng: Rng, difficulty: float) -> Thing:
    """A plank on edge."""
    long_m = float(rng.uniform(1.2, 2.4))
    return [_box((0.06, long_m, _drawn(rng, difficulty, 0.15, 0.06, 0.2)))]


def _pallets(rng: Rng, difficulty: float) -> Thing:
    count = round(_drawn(rng, difficulty, 2.0, 1.0, 4.0))
    return [_box((0.8, 1.2, 0.144), z=0.144 * i) for i in range(count)]


def _barrier(rng: Rng, difficulty: float) -> Thing:
    """A beam on a post in its middle, on a flat foot."""
    thick, (long_m, up_m) = (
        _drawn(rng, difficulty, 0.06, 0.025, 0.1),
        rng.uniform((0.8, 0.15), (1.4, 0.4)).tolist(),
    )
    foot, post = _box((0.3, 0.3, 0.04)), _box((0.04, 0.04, up_m))
    return [_box((thick, long_m, thick), z=up_m), post, foot]


def _stakes(rng: Rng, difficulty: float) -> Thing:
    """Three stakes in a row, with no room for a robot between them."""
    thick_m, apart_m = _drawn(rng, difficulty, 0.05, 0.02, 0.06), float(rng.uniform(0.25, 0.4))
    return [_box((thick_m, thick_m, 0.8), y=i * apart_m) for i in (-1, 0, 1)]


KINDS: Mapping[str, Maker] = {
    "boxes": _low_box,
    "kerbs": _kerb,
    "bars": _bar,
    "benches": _bench,
    "chairs": _furniture("train", "chair", "office-chair", "stool"),
    "tables": _furniture("train", "table", "coffee-table", "desk"),
    "floor-things": _furniture("train", *ON_FLOOR),
    "posts": _post,
    "stairs": _stairs,
}
UNSEEN: Mapping[str, Maker] = {
    "planks": _plank,
    "pallets": _pallets,
    "barriers": _barrier,
    "unseen-chairs": _furniture("unseen", "chair", "office-chair", "stool"),
    "unseen-tables": _furniture("unseen", "table", "coffee-table", "desk"),
    "unseen-floor-things": _furniture("unseen", *ON_FLOOR),
    "stakes": _stakes,
}
