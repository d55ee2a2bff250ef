"""Furniture from numbers: pieces of upright boxes, thousands of kinds of every design.

    piece = make_piece("chair", 17)           # always the same chair
    piece = draw_piece(rng, "train")          # any design
    piece = draw_piece(rng, "unseen", FLOOR)  # a thing that lies on floors, of a kind apart
    boxes = piece.boxes(Pose(x, y, floor_z, yaw))  # to place: boxes of the world

A number draws sizes, legs, bars and finishes of a design: legs from 1 to 6 cm, tops and bars from
0.2 to 0.9 m, things of 1.5 to 40 cm on the floor. Numbers of the kinds `train` and `unseen` are
apart, so that policies can be judged among furniture that no training has shown.

A piece stands on z = 0 around the origin of its own frame, its width along x. What has a back turns
it towards -y: chairs and sofas face +y, shelves and beds begin at a wall behind them. Parts are in
that frame; their frictions are ordinary. Numbers of parts are at most `MOST_PARTS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.spec import Array
from pixelgait.sim.world.obstacles import HEADROOM_M, LEAST_HEIGHT_M
from pixelgait.sim.world.scene import Box, Pose, corners
from pixelgait.sim.world.texture import Colour, Texture

Kinds = Literal["train", "unseen"]
NUMBERS: dict[Kinds, range] = {"train": range(10_000), "unseen": range(10_000, 20_000)}
MOST_PARTS = 20

Design = Literal[
    "table", "desk", "coffee-table", "chair", "office-chair", "stool", "bench", "shelf", "cabinet",
    "tv-board", "bed", "sofa", "armchair", "plant", "lamp", "clothes-rail", "barrier", "exercise",
    "counter", "box", "bag", "bar", "barbell", "cable", "toys", "shoes", "bin", "step",
]  # fmt: skip
DESIGNS: tuple[Design, ...] = get_args(Design)
FLOOR: tuple[Design, ...] = (  # things that lie about
    "box", "bag", "bar", "barbell", "cable", "toys", "shoes", "bin", "step",
)  # fmt: skip

Range = tuple[float, float]


class Finish(NamedTuple):
    """The surface of a part."""

    colour: Colour
    texture: Texture | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of furniture in its own frame; `name` is its design and number."""

    name: str
    parts: tuple[Box, ...]
    outlines: Array  # (n, 4, 2) corners of the parts' footprints [m]
    flat: NDArray[np.bool_]  # (n,) parts that robots step over or walk below

    @property
    def half_m(self) -> tuple[float, float]:
        """Half its width and half its depth: the least rectangle around the origin."""
        reach = np.abs(self.outlines).reshape(-1, 2).max(axis=0)
        return float(reach[0]), float(reach[1])

    @property
    def height_m(self) -> float:
        """Height of its highest part."""
        return max(part.pose.z + part.half_m[2] for part in self.parts)

    def boxes(self, pose: Pose) -> list[Box]:
        """Its parts in the world, when its origin is at a pose on the floor."""
        return [_moved(part, pose) for part in self.parts]


def _moved(part: Box, pose: Pose) -> Box:
    """A part of a piece at a pose, as a box of the world."""
    at, cos, sin = part.pose, math.cos(pose.yaw), math.sin(pose.yaw)
    x, y = pose.x + cos * at.x - sin * at.y, pose.y + sin * at.x + cos * at.y
    there = Pose(x, y, pose.z + at.z, pose.yaw + at.yaw)
    return Box(there, part.half_m, part.colour, part.friction, part.texture)


def make_piece(design: Design, number: int) -> Piece:
    """The piece of a design that belongs to a number."""
    rng = np.random.default_rng((DESIGNS.index(design), number))
    parts = MAKERS[design](rng)
    assert len(parts) <= MOST_PARTS, f"{design} {number}: {len(parts)} parts"
    half_m = np.array([part.half_m for part in parts])
    outlines = corners([part.pose for part in parts], half_m[:, :2])
    points = outlines.reshape(-1, 2)
    middle = (points.min(axis=0) + points.max(axis=0)) / 2.0
    x, y = middle.tolist()
    heights = np.array([part.pose.z for part in parts])
    flat = (heights + half_m[:, 2] <= LEAST_HEIGHT_M) | (heights - half_m[:, 2] >= HEADROOM_M)
    centred = tuple(_moved(part, Pose(-x, -y, 0.0)) for part in parts)
    return Piece(f"{design}-{number}", centred, outlines - middle, flat)


def draw_piece(
    rng: np.random.Generator, kinds: Kinds, designs: Sequence[Design] = DESIGNS
) -> Piece:
    """Draw a piece of some designs, of the kinds that training or evaluation sees."""
    numbers = NUMBERS[kinds]
    design = designs[int(rng.integers(len(designs)))]
    return make_piece(design, int(rng.integers(numbers.start, numbers.stop)))


# Finishes: few, because every texture is a picture in a simulator's memory.
WOODS = [
    Finish(mean, Texture("planks", (light, dark), tile_m=1.2))
    for mean, light, dark in (
        ((0.72, 0.58, 0.40), (0.80, 0.66, 0.46), (0.62, 0.48, 0.32)),
        ((0.55, 0.36, 0.20), (0.62, 0.42, 0.24), (0.46, 0.30, 0.16)),
        ((0.30, 0.20, 0.13), (0.36, 0.25, 0.16), (0.24, 0.15, 0.10)),
        ((0.85, 0.82, 0.76), (0.90, 0.88, 0.82), (0.78, 0.75, 0.68)),
    )
]
PLAIN = [
    Finish(colour)
    for colour in (
        (0.90, 0.90, 0.88), (0.15, 0.15, 0.16), (0.55, 0.57, 0.60), (0.70, 0.12, 0.12),
        (0.16, 0.35, 0.62), (0.20, 0.48, 0.28), (0.90, 0.70, 0.15),
    )
]  # fmt: skip
METALS = [Finish(colour) for colour in ((0.65, 0.66, 0.68), (0.12, 0.12, 0.13), (0.80, 0.80, 0.80))]
FABRICS = [
    Finish((0.45, 0.45, 0.47), Texture("plaster", ((0.50, 0.50, 0.52), (0.38, 0.38, 0.40)))),
    Finish((0.20, 0.28, 0.45), Texture("stripes", ((0.16, 0.24, 0.42), (0.26, 0.34, 0.50)), 1)),
    Finish((0.55, 0.40, 0.30), Texture("plaster", ((0.60, 0.45, 0.34), (0.48, 0.34, 0.25)), 2)),
    Finish((0.60, 0.25, 0.22), Texture("dots", ((0.62, 0.24, 0.20), (0.72, 0.44, 0.38)), 3)),
    Finish((0.80, 0.77, 0.70), Texture("checks", ((0.84, 0.81, 0.74), (0.72, 0.69, 0.60)), 4)),
]
LEAVES = [Finish(colour) for colour in ((0.16, 0.40, 0.14), (0.30, 0.48, 0.20), (0.12, 0.30, 0.16))]


def _one(rng: np.random.Generator, *finishes: Sequence[Finish]) -> Finish:
    """Draw a finish of some lists."""
    known = [finish for each in finishes for finish in each]
    return known[int(rng.integers(len(known)))]


def _in(rng: np.random.Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


def _is(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _block(x: Range, y: Range, z: Range, finish: Finish, yaw: float = 0.0) -> Box:
    """A box from one end to the other along x, y and z, turned about its middle."""
    middle = Pose(sum(x) / 2.0, sum(y) / 2.0, sum(z) / 2.0, yaw)
    half_x, half_y, half_z = (max(abs(ends[1] - ends[0]) / 2.0, 0.002) for ends in (x, y, z))
    return Box(middle, (half_x, half_y, half_z), finish.colour, texture=finish.texture)


def _around(x: float, y: float, half: float, z: Range, finish: Finish) -> Box:
    """A square post."""
    return _block((x - half, x + half), (y - half, y + half), z, finish)


def _slab(width: float, depth: float, z: Range, finish: Finish) -> Box:
    """A box about the vertical axis."""
    return _block((-width / 2, width / 2), (-depth / 2, depth / 2), z, finish)


def _thickness(rng: np.random.Generator, low: float = 0.01, high: float = 0.06) -> float:
    """Draw the thickness of a leg [m]: most are thin."""
    return math.exp(_in(rng, math.log(low), math.log(high)))


def _four_legs(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> list[Box]:
    """Four legs below a top, some of them set in, often with stretchers between them."""
    thick = _thickness(rng)
    inset = min(_in(rng, 0.0, 0.12), 0.2 * min(width, depth)) if _is(rng, 0.5) else 0.0
    x, y = width / 2 - inset - thick / 2, depth / 2 - inset - thick / 2
    legs = [
        _around(a * x, b * y, thick / 2, (0.0, height), finish) for a in (-1, 1) for b in (-1, 1)
    ]
    barred = height > 0.2 and _is(rng, 0.5)
    return legs + (_stretchers(rng, x, y, height, thick, finish) if barred else [])


def _stretchers(
    rng: np.random.Generator, x: float, y: float, height: float, thick: float, finish: Finish
) -> list[Box]:
    """Bars between legs at (+-x, +-y): along the ends, along the sides, or as an H."""
    half, at = min(thick, _thickness(rng, 0.01, 0.03)) / 2, _in(rng, 0.06, max(0.08, 0.6 * height))
    z, which = (at - half, at + half), rng.integers(4)
    ends = [_block((s * x - half, s * x + half), (-y, y), z, finish) for s in (-1, 1)]
    sides = [_block((-x, x), (s * y - half, s * y + half), z, finish) for s in (-1, 1)]
    middle = _block((-x, x), (-half, half), z, finish)
    return (ends, sides, [*ends, *sides], [*ends, middle])[which]


def _panels(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> list[Box]:
    """Panels at both ends, sometimes with a board between them."""
    thick, x = _in(rng, 0.018, 0.05), width / 2 - (_in(rng, 0.0, 0.15) if _is(rng, 0.4) else 0.0)
    deep = depth / 2 * _in(rng, 0.7, 1.0)
    parts = [
        _block((s * x, s * (x - thick)), (-deep, deep), (0.0, height), finish) for s in (-1, 1)
    ]
    if _is(rng, 0.5):
        low = _in(rng, 0.05, 0.6) * height
        parts.append(_block((-x, x), (-0.01, 0.01), (low, min(height, low + 0.25)), finish))
    return parts


def _trestles(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> list[Box]:
    """A column at each end on a foot along the floor, often with a bar between the columns."""
    thick, x = _thickness(rng, 0.03, 0.08), width / 2 * _in(rng, 0.6, 0.95)
    foot, deep = _in(rng, 0.02, 0.07), depth / 2 * _in(rng, 0.75, 1.0)
    parts = []
    for s in (-1, 1):
        ends = s * x - thick / 2, s * x + thick / 2
        parts.append(_around(s * x, 0.0, thick / 2, (foot, height), finish))
        parts.append(_block(ends, (-deep, deep), (0.0, foot), finish))
        parts.append(_block(ends, (-0.7 * deep, 0.7 * deep), (height - 0.05, height), finish))
    if _is(rng, 0.6):
        at = _in(rng, 0.1, 0.5)
        parts.append(_block((-x, x), (-thick / 3, thick / 3), (at, at + 0.03), finish))
    return parts


def _pedestal(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> list[Box]:
    """One column on a plate, or on a cross of bars near the floor."""
    thick, reach = _in(rng, 0.04, 0.12), 0.5 * min(width, depth) * _in(rng, 0.6, 0.95)
    high = _in(rng, 0.02, 0.07)
    column = _around(0.0, 0.0, thick / 2, (0.0, height), finish)
    if _is(rng, 0.4):
        return [column, _slab(2 * reach, 2 * reach, (0.0, high), finish)]
    bar, turn = _in(rng, 0.015, 0.03), _in(rng, 0.0, math.pi / 2)
    return [
        column,
        _block((-reach, reach), (-bar, bar), (0.0, high), finish, turn),
        _block((-reach, reach), (-bar, bar), (0.0, high), finish, turn + math.pi / 2),
    ]


def _sled(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> list[Box]:
    """A frame at each side, whose lower bar lies on the floor."""
    thick, x, y = _thickness(rng, 0.015, 0.04), width / 2, depth / 2
    parts = []
    for s in (-1, 1):
        ends = s * (x - thick / 2) - thick / 2, s * (x - thick / 2) + thick / 2
        parts.append(_block(ends, (-y, y), (0.0, thick), finish))
        parts += [
            _around(s * (x - thick / 2), t * (y - thick / 2), thick / 2, (0.0, height), finish)
            for t in (-1, 1)
        ]
    return parts


Base = Callable[[np.random.Generator, float, float, float, Finish], list[Box]]


def _base(
    rng: np.random.Generator,
    width: float,
    depth: float,
    height: float,
    bases: Sequence[tuple[Base, float]],
) -> list[Box]:
    """Legs of a drawn kind, by weight, below a top at a height [m]."""
    weights = np.array([weight for _, weight in bases])
    base, _ = bases[int(rng.choice(len(bases), p=weights / weights.sum()))]
    return base(rng, width, depth, height, _one(rng, WOODS, METALS))


def _top(
    rng: np.random.Generator, width: float, depth: float, height: float, finish: Finish
) -> tuple[list[Box], float]:
    """A top with its upper side at a height, sometimes with an apron; and its lower side [m]."""
    thick = _in(rng, 0.015, 0.05)
    parts = [_slab(width, depth, (height - thick, height), finish)]
    if _is(rng, 0.3):
        low = height - thick - _in(rng, 0.04, 0.1)
        parts.append(_slab(0.85 * width, 0.85 * depth, (low, height - thick), finish))
    return parts, height - thick


def _table(rng: np.random.Generator) -> list[Box]:
    width, depth = _in(rng, 0.8, 2.0), _in(rng, 0.6, 1.0)
    if _is(rng, 0.2):
        width = depth = _in(rng, 0.6, 1.1)
    parts, below = _top(rng, width, depth, _in(rng, 0.66, 0.80), _one(rng, WOODS, PLAIN[:2]))
    bases = ((_four_legs, 5), (_trestles, 2), (_pedestal, 2), (_panels, 1), (_sled, 1))
    return parts + _base(rng, width, depth, below, bases)


def _desk(rng: np.random.Generator) -> list[Box]:
    width, depth, finish = _in(rng, 0.9, 1.8), _in(rng, 0.5, 0.85), _one(rng, WOODS, PLAIN[:2])
    parts, below = _top(rng, width, depth, _in(rng, 0.66, 0.80), finish)
    parts += _base(rng, width, depth, below, ((_four_legs, 3), (_panels, 2), (_trestles, 2)))
    if _is(rng, 0.5):  # drawers at one side
        side, wide = 1 if _is(rng, 0.5) else -1, _in(rng, 0.3, 0.45)
        low = _in(rng, 0.02, 0.12) if _is(rng, 0.6) else _in(rng, 0.3, 0.5)
        ends = side * (width / 2 - 0.05), side * (width / 2 - 0.05 - wide)
        parts.append(_block(ends, (-0.4 * depth, 0.4 * depth), (low, below), finish))
    if _is(rng, 0.4):  # a monitor on it
        back, high = -depth / 2 + 0.15, below + 0.15
        parts.append(_block((-0.3, 0.3), (back, back + 0.04), (high, high + 0.4), PLAIN[1]))
        parts.append(_around(0.0, back, 0.03, (below, high), PLAIN[1]))
    return parts


def _coffee_table(rng: np.random.Generator) -> list[Box]:
    width, depth = _in(rng, 0.5, 1.3), _in(rng, 0.4, 0.75)
    parts, below = _top(rng, width, depth, _in(rng, 0.22, 0.50), _one(rng, WOODS, PLAIN[:3]))
    bases = ((_four_legs, 5), (_panels, 2), (_sled, 1), (_pedestal, 1))
    parts += _base(rng, width, depth, below, bases)
    if _is(rng, 0.3):  # a shelf below it
        low = _in(rng, 0.04, 0.5 * below)
        parts.append(_slab(0.9 * width, 0.9 * depth, (low, low + 0.02), _one(rng, WOODS)))
    return parts


def _back(
    rng: np.random.Generator, width: float, depth: float, seat: float, f: Finish
) -> list[Box]:
    """A chair's back: a board, or bars between two posts."""
    top, thick, y = seat + _in(rng, 0.28, 0.6), _thickness(rng, 0.015, 0.04), -depth / 2
    deep = (y, y + thick)
    if _is(rng, 0.4):
        return [_block((-width / 2, width / 2), deep, (seat + _in(rng, 0.0, 0.15), top), f)]
    parts = [
        _around(s * (width / 2 - thick / 2), y + thick / 2, thick / 2, (seat, top), f)
        for s in (-1, 1)
    ]
    for at in np.linspace(top, seat + 0.1, int(rng.integers(1, 4)), endpoint=False).tolist():
        parts.append(_block((-width / 2, width / 2), deep, (at - _in(rng, 0.03, 0.1), at), f))
    return parts


def _chair(rng: np.random.Generator) -> list[Box]:
    width, depth, seat = _in(rng, 0.38, 0.52), _in(rng, 0.38, 0.52), _in(rng, 0.40, 0.50)
    thick, finish = _in(rng, 0.015, 0.08), _one(rng, WOODS, PLAIN, FABRICS)
    parts = [_slab(width, depth, (seat - thick, seat), finish)]
    bases = ((_four_legs, 6), (_sled, 2), (_pedestal, 1))
    parts += _base(rng, width, depth, seat - thick, bases)
    parts += _back(rng, width, depth, seat, finish)
    if _is(rng, 0.2):  # arms
        at, bar = seat + _in(rng, 0.15, 0.25), _in(rng, 0.02, 0.05)
        for s in (-1, 1):
            ends = s * width / 2, s * (width / 2 - bar)
            parts.append(_block(ends, (-depth / 2, 0.4 * depth), (at, at + 0.025), finish))
            parts.append(_around(s * (width - bar) / 2, 0.35 * depth, bar / 2, (seat, at), finish))
    return parts


def _office_chair(rng: np.random.Generator) -> list[Box]:
    """A seat on a column, with a star of three bars just above the floor."""
    width, seat = _in(rng, 0.44, 0.54), _in(rng, 0.42, 0.55)
    finish, metal = _one(rng, FABRICS, PLAIN), _one(rng, METALS)
    reach, low = _in(rng, 0.26, 0.34), _in(rng, 0.03, 0.07)
    turn, z = _in(rng, 0.0, math.pi), (low, low + _in(rng, 0.02, 0.05))
    star = [
        _block((-reach, reach), (-0.02, 0.02), z, metal, turn + k * math.pi / 3) for k in range(3)
    ]
    casters = []
    for k in range(6):
        angle = turn + k * math.pi / 3
        x, y = 0.95 * reach * math.cos(angle), 0.95 * reach * math.sin(angle)
        casters.append(_around(x, y, 0.02, (0.0, low), metal))
    back = _block(
        (-0.45 * width, 0.45 * width), (-width / 2, -width / 2 + 0.06),
        (seat + _in(rng, 0.02, 0.15), seat + _in(rng, 0.4, 0.7)), finish,
    )  # fmt: skip
    parts = [_slab(width, width, (seat - 0.08, seat), finish), back, *star, *casters]
    parts.append(_around(0.0, 0.0, 0.025, (low, seat - 0.08), metal))
    if _is(rng, 0.6):
        for s in (-1, 1):
            x = s * (width / 2 + 0.02)
            parts.append(
                _block((x - 0.03, x + 0.03), (-0.1, 0.15), (seat + 0.18, seat + 0.22), metal)
            )
            parts.append(_around(x, 0.0, 0.015, (seat - 0.05, seat + 0.18), metal))
    return parts


def _stool(rng: np.random.Generator) -> list[Box]:
    side, height = _in(rng, 0.28, 0.42), _in(rng, 0.30, 0.80)
    thick = _in(rng, 0.02, 0.08)
    parts = [_slab(side, side, (height - thick, height), _one(rng, WOODS, FABRICS, PLAIN))]
    return parts + _base(rng, side, side, height - thick, ((_four_legs, 3), (_pedestal, 1)))


def _bench(rng: np.random.Generator) -> list[Box]:
    width, depth, height = _in(rng, 0.8, 1.8), _in(rng, 0.25, 0.45), _in(rng, 0.28, 0.50)
    thick = _in(rng, 0.025, 0.1)
    parts = [_slab(width, depth, (height - thick, height), _one(rng, WOODS, FABRICS))]
    bases = ((_four_legs, 3), (_panels, 2), (_trestles, 1), (_sled, 1))
    return parts + _base(rng, width, depth, height - thick, bases)


def _shelf(rng: np.random.Generator) -> list[Box]:
    """Boards between two sides or four posts; books fill some of them."""
    width, depth, height = _in(rng, 0.4, 1.3), _in(rng, 0.22, 0.42), _in(rng, 0.7, 2.1)
    finish, foot = _one(rng, WOODS, PLAIN[:2]), _in(rng, 0.0, 0.18)
    x, y, boards = width / 2, depth / 2, int(rng.integers(3, 6))
    if _is(rng, 0.3):  # of posts
        thick = _thickness(rng, 0.015, 0.04)
        parts = [
            _around(a * (x - thick / 2), b * (y - thick / 2), thick / 2, (0.0, height), finish)
            for a in (-1, 1)
            for b in (-1, 1)
        ]
    else:
        parts = [_block((s * x, s * (x - 0.02)), (-y, y), (0.0, height), finish) for s in (-1, 1)]
        if _is(rng, 0.6):
            parts.append(_block((-x, x), (-y, -y + 0.01), (foot, height), finish))
    levels = np.linspace(foot, height - 0.02, boards).tolist()
    for low, above in zip(levels, [*levels[1:], height], strict=True):
        parts.append(_block((-x, x), (-y, y), (low, low + 0.02), finish))
        if above - low > 0.15 and _is(rng, 0.4):
            left, wide = _in(rng, -x, 0.0), _in(rng, 0.2, 1.0) * x
            books = (low + 0.02, low + 0.8 * (above - low))
            things = _one(rng, PLAIN, FABRICS)
            parts.append(_block((left, left + wide), (-y + 0.02, 0.6 * y), books, things))
    return parts


def _cabinet(rng: np.random.Generator) -> list[Box]:
    """A closed case, on legs or on the floor."""
    width, depth, height = _in(rng, 0.35, 1.6), _in(rng, 0.32, 0.62), _in(rng, 0.4, 2.1)
    finish = _one(rng, WOODS, PLAIN)
    foot = _in(rng, 0.03, 0.25) if _is(rng, 0.5) else 0.0
    parts = [_slab(width, depth, (foot, height), finish)]
    if foot:
        parts += _base(rng, width, depth, foot, ((_four_legs, 1),))
    if _is(rng, 0.3):  # a door ajar or a drawer pulled out, over the floor
        low = _in(rng, foot, foot + 0.5 * (height - foot))
        out = _in(rng, 0.1, 0.35)
        drawer = (low, min(height, low + _in(rng, 0.1, 0.25)))
        parts.append(_block((-0.45 * width, 0.45 * width), (0.0, depth / 2 + out), drawer, finish))
    return parts


def _tv_board(rng: np.random.Generator) -> list[Box]:
    """A low case on legs with a screen on it, or a screen on a stand."""
    width, depth, height = _in(rng, 0.9, 2.0), _in(rng, 0.3, 0.5), _in(rng, 0.25, 0.55)
    foot = _in(rng, 0.02, 0.2)
    parts = [_slab(width, depth, (foot, height), _one(rng, WOODS, PLAIN[:2]))]
    parts += _base(rng, width, depth, foot, ((_four_legs, 1),))
    if _is(rng, 0.7):
        wide, low = _in(rng, 0.35, 0.65), height + 0.08
        parts.append(_block((-wide, wide), (-0.03, 0.03), (low, low + 1.1 * wide), PLAIN[1]))
        parts.append(_around(0.0, 0.0, 0.04, (height, low), PLAIN[1]))
    return parts


def _bed(rng: np.random.Generator) -> list[Box]:
    width, depth, height = _in(rng, 0.8, 1.9), _in(rng, 1.8, 2.1), _in(rng, 0.28, 0.62)
    frame, y, x = _one(rng, WOODS, PLAIN[:2]), depth / 2, width / 2
    low = _in(rng, 0.05, min(0.3, height - 0.18)) if _is(rng, 0.7) else 0.0
    middle = _in(rng, low + 0.05, height - 0.1)
    parts = [
        _slab(width, depth, (low, middle), frame),
        _slab(0.96 * width, 0.96 * depth, (middle, height), _one(rng, FABRICS, PLAIN[:1])),
    ]
    if low:
        parts += _base(rng, width, depth, low, ((_four_legs, 1),))
    if _is(rng, 0.7):
        parts.append(_block((-x, x), (-y - 0.04, -y), (0.0, _in(rng, 0.7, 1.2)), frame))
    if _is(rng, 0.3):
        parts.append(_block((-x, x), (y, y + 0.04), (0.0, height + _in(rng, 0.0, 0.2)), frame))
    return parts


def _sofa(rng: np.random.Generator) -> list[Box]:
    return _upholstered(rng, _in(rng, 1.3, 2.4))


def _armchair(rng: np.random.Generator) -> list[Box]:
    return _upholstered(rng, _in(rng, 0.6, 0.95))


def _upholstered(rng: np.random.Generator, width: float) -> list[Box]:
    depth, seat, finish = _in(rng, 0.7, 1.0), _in(rng, 0.36, 0.48), _one(rng, FABRICS, PLAIN)
    foot = _in(rng, 0.04, 0.2) if _is(rng, 0.6) else 0.0
    x, y, deep = width / 2, depth / 2, _in(rng, 0.15, 0.25)
    parts = [
        _slab(width, depth, (foot, seat), finish),
        _block((-x, x), (-y, -y + deep), (foot, _in(rng, 0.65, 0.95)), finish),
    ]
    if foot:
        parts += _base(rng, width, depth, foot, ((_four_legs, 1),))
    if _is(rng, 0.75):
        arm, high = _in(rng, 0.08, 0.25), _in(rng, 0.52, 0.68)
        parts += [
            _block((-x, -x + arm), (-y, y), (foot, high), finish),
            _block((x - arm, x), (-y, y), (foot, high), finish),
        ]
    if _is(rng, 0.2):  # a corner sofa's longer end
        wide = min(0.9, 0.5 * width)
        parts.append(_block((x - wide, x), (y, y + _in(rng, 0.3, 0.8)), (foot, seat), finish))
    return parts


def _plant(rng: np.random.Generator) -> list[Box]:
    pot, high, top = _in(rng, 0.10, 0.24), _in(rng, 0.15, 0.45), _in(rng, 0.5, 1.7)
    leaf, wide = _one(rng, LEAVES), _in(rng, 0.12, 0.4)
    crown = high + _in(rng, 0.0, 0.6) * (top - high)
    parts = [_slab(2 * pot, 2 * pot, (0.0, high), _one(rng, PLAIN, WOODS))]
    parts.append(_around(0.0, 0.0, _in(rng, 0.01, 0.03), (high, top), WOODS[1]))
    for _ in range(int(rng.integers(2, 5))):
        x, y, half = _in(rng, -0.1, 0.1), _in(rng, -0.1, 0.1), wide * _in(rng, 0.5, 1.0)
        low = _in(rng, crown, top)
        parts.append(_around(x, y, half, (low, low + _in(rng, 0.15, 0.4)), leaf))
    return parts


def _lamp(rng: np.random.Generator) -> list[Box]:
    """A floor lamp; an arm may hold its shade aside."""
    plate, thick, metal = _in(rng, 0.10, 0.18), _thickness(rng, 0.012, 0.04), _one(rng, METALS)
    high, aside = _in(rng, 1.1, 1.8), _in(rng, 0.3, 0.9) if _is(rng, 0.3) else 0.0
    parts = [
        _slab(2 * plate, 2 * plate, (0.0, _in(rng, 0.012, 0.05)), metal),
        _around(0.0, 0.0, thick / 2, (0.0, high), metal),
    ]
    if aside:
        parts.append(_block((0.0, aside), (-thick / 2, thick / 2), (high, high + thick), metal))
    wide = _in(rng, 0.1, 0.25)
    parts.append(_around(aside, 0.0, wide, (high - 0.15, high + 0.15), PLAIN[0]))
    return parts


def _clothes_rail(rng: np.random.Generator) -> list[Box]:
    """A bar on two posts, each on a foot along the floor; often clothes hang from it."""
    width, deep, high = _in(rng, 0.7, 1.5), _in(rng, 0.2, 0.32), _in(rng, 0.9, 1.7)
    thick, metal = _thickness(rng, 0.015, 0.035), _one(rng, METALS, WOODS)
    x, low = width / 2, 0.0 if _is(rng, 0.5) else _in(rng, 0.02, 0.06)
    parts = [_block((-x, x), (-thick / 2, thick / 2), (high - thick, high), metal)]
    for s in (-1, 1):
        ends = s * x - thick / 2, s * x + thick / 2
        parts.append(_around(s * x, 0.0, thick / 2, (low, high), metal))
        parts.append(_block(ends, (-deep, deep), (low, low + thick), metal))
        if low:  # on castors
            parts += [_around(s * x, t * (deep - 0.02), 0.015, (0.0, low), metal) for t in (-1, 1)]
    if _is(rng, 0.5):
        at = _in(rng, 0.1, 0.3)
        parts.append(_block((-x, x), (-thick / 2, thick / 2), (at, at + thick), metal))
    for _ in range(int(rng.integers(0, 3))):
        left, fall = _in(rng, -x, 0.5 * x), _in(rng, 0.4, 0.9)
        hem = max(0.15, high - fall)
        parts.append(
            _block((left, left + 0.4 * x), (-0.2, 0.2), (hem, high - thick), _one(rng, FABRICS))
        )
    return parts


def _barrier(rng: np.random.Generator) -> list[Box]:
    """One to three bars between posts, from 0.15 to 0.9 m: a rail, a fence, a drying rack."""
    width, thick = _in(rng, 0.6, 1.8), _thickness(rng, 0.015, 0.06)
    finish, x = _one(rng, METALS, WOODS, PLAIN), width / 2
    levels = rng.uniform(0.15, 0.9, int(rng.integers(1, 4))).tolist()
    parts = [
        _block((-x, x), (-thick / 2, thick / 2), (at, at + _in(rng, 0.02, 0.1)), finish)
        for at in levels
    ]
    for s in (-1, 1):
        parts.append(_around(s * x, 0.0, thick / 2, (0.0, max(levels) + 0.1), finish))
        if _is(rng, 0.7):
            foot = _in(rng, 0.15, 0.35)
            ends = s * x - thick / 2, s * x + thick / 2
            parts.append(_block(ends, (-foot, foot), (0.0, _in(rng, 0.02, 0.05)), finish))
    return parts


def _exercise(rng: np.random.Generator) -> list[Box]:
    """A weight bench: an upholstered board on a frame, and a rack with a bar across."""
    metal, pad, height = _one(rng, METALS), _one(rng, PLAIN), _in(rng, 0.32, 0.48)
    length, wide = _in(rng, 1.0, 1.3), _in(rng, 0.25, 0.34)
    thick = _in(rng, 0.03, 0.06)
    y = length / 2
    parts = [
        _slab(wide, length, (height - 0.07, height), pad),
        _block((-thick / 2, thick / 2), (-y, y), (height - 0.07 - thick, height - 0.07), metal),
    ]
    for s in (-1, 1):
        half = _in(rng, 0.15, 0.35)
        at = s * (y - 0.12)
        parts.append(_around(0.0, at, thick / 2, (0.0, height - 0.07), metal))
        parts.append(_block((-half, half), (at - thick / 2, at + thick / 2), (0.0, thick), metal))
    if _is(rng, 0.7):
        x, top = _in(rng, 0.3, 0.55), _in(rng, 0.8, 1.1)
        parts += [_around(s * x, -y, thick / 2, (0.0, top), metal) for s in (-1, 1)]
        reach, disc = _in(rng, 0.75, 1.0), _in(rng, 0.1, 0.22)
        parts.append(_block((-reach, reach), (-y - 0.015, -y + 0.015), (top, top + 0.03), metal))
        for s in (-1, 1):
            at, z = s * (reach - 0.1), (top + 0.015 - disc, top + 0.015 + disc)
            parts.append(_block((at - 0.03, at + 0.03), (-y - disc, -y + disc), z, PLAIN[1]))
    return parts


def _counter(rng: np.random.Generator) -> list[Box]:
    """A counter or display as in shops: a body, and a board that stands out over the floor."""
    width, depth, height = _in(rng, 0.8, 2.2), _in(rng, 0.4, 0.8), _in(rng, 0.7, 1.15)
    over, finish = _in(rng, 0.0, 0.25), _one(rng, WOODS, PLAIN)
    foot = _in(rng, 0.0, 0.15)
    return [
        _slab(width, depth, (foot, height - 0.04), finish),
        _slab(0.9 * width, 0.8 * depth, (0.0, max(foot, 0.01)), PLAIN[1]),
        _slab(width + over, depth + over, (height - 0.04, height), _one(rng, WOODS, PLAIN[:1])),
    ]


def _carton(rng: np.random.Generator) -> list[Box]:
    """A box of 3 to 40 cm, sometimes with another one on it."""
    x, y, z = (
        _in(rng, 0.08, 0.35),
        _in(rng, 0.08, 0.35),
        math.exp(_in(rng, math.log(0.03), math.log(0.4))),
    )
    finish = _one(rng, WOODS, PLAIN)
    parts = [_slab(2 * x, 2 * y, (0.0, z), finish)]
    if _is(rng, 0.2):
        parts.append(_block((-0.7 * x, 0.6 * x), (-0.8 * y, 0.5 * y), (z, z + 0.6 * z), finish))
    return parts


def _bag(rng: np.random.Generator) -> list[Box]:
    """A mound of two or three blocks: a rucksack, a sack, a cushion."""
    x, y, z = _in(rng, 0.12, 0.3), _in(rng, 0.1, 0.25), _in(rng, 0.1, 0.4)
    finish = _one(rng, FABRICS, PLAIN)
    parts = [_slab(2 * x, 2 * y, (0.0, 0.5 * z), finish)]
    parts.append(_slab(1.6 * x, 1.5 * y, (0.5 * z, 0.8 * z), finish))
    parts.append(_slab(1.0 * x, 0.9 * y, (0.8 * z, z), finish))
    return parts


def _bar(rng: np.random.Generator) -> list[Box]:
    """One to three poles, pipes or planks on the floor, 2.5 to 10 cm high."""
    parts, finish = [], _one(rng, WOODS, METALS, PLAIN)
    for _ in range(int(rng.integers(1, 4))):
        length, thick = _in(rng, 0.3, 1.0), _in(rng, 0.025, 0.10)
        y, yaw, wide = _in(rng, -0.2, 0.2), _in(rng, -0.25, 0.25), thick * _in(rng, 0.5, 2.0)
        parts.append(_block((-length, length), (y - wide, y + wide), (0.0, thick), finish, yaw))
    return parts


def _barbell(rng: np.random.Generator) -> list[Box]:
    """A bar of 2.5 to 4 cm above the floor between discs; a dumbbell if it is short."""
    half, disc = _in(rng, 0.15, 1.0), _in(rng, 0.06, 0.225)
    thick, plate, metal = _in(rng, 0.025, 0.04), _in(rng, 0.015, 0.06), _one(rng, METALS)
    bar = (disc - thick / 2, disc + thick / 2)
    parts = [_block((-half, half), (-thick / 2, thick / 2), bar, metal)]
    for s in (-1, 1):
        at = s * half * _in(rng, 0.75, 0.95)
        ends = at - plate, at + plate
        parts.append(_block(ends, (-disc, disc), (0.0, 2 * disc), _one(rng, PLAIN)))
    return parts


def _cable(rng: np.random.Generator) -> list[Box]:
    """A cable or the edge of a rug, up to 1.5 cm high: a robot steps over it."""
    length, high = _in(rng, 0.4, 1.2), _in(rng, 0.004, 0.015)
    wide = _in(rng, 0.004, 0.01) if _is(rng, 0.6) else _in(rng, 0.2, 0.7)
    finish = _one(rng, PLAIN) if wide < 0.02 else _one(rng, FABRICS)
    return [_block((-length, length), (-wide, wide), (0.0, high), finish)]


def _toys(rng: np.random.Generator) -> list[Box]:
    """Things of 3 to 20 cm that lie about within half a metre."""
    parts = []
    for _ in range(int(rng.integers(2, 7))):
        x, y, half = _in(rng, -0.35, 0.35), _in(rng, -0.35, 0.35), _in(rng, 0.015, 0.1)
        long = half * _in(rng, 0.6, 1.8)
        high, yaw = half * _in(rng, 1.0, 2.0), _in(rng, 0.0, math.pi)
        z, finish = (0.0, max(high, 0.025)), _one(rng, PLAIN)
        parts.append(_block((x - long, x + long), (y - half, y + half), z, finish, yaw))
    return parts


def _shoes(rng: np.random.Generator) -> list[Box]:
    parts, finish = [], _one(rng, PLAIN, FABRICS)
    for s in (-1, 1):
        x, y, yaw = s * _in(rng, 0.07, 0.25), _in(rng, -0.1, 0.1), _in(rng, -0.6, 0.6)
        z = (0.0, _in(rng, 0.05, 0.14))
        parts.append(_block((x - 0.045, x + 0.045), (y - 0.14, y + 0.14), z, finish, yaw))
    return parts


def _bin(rng: np.random.Generator) -> list[Box]:
    half, high = _in(rng, 0.09, 0.2), _in(rng, 0.2, 0.65)
    parts = [_slab(2 * half, 2 * half * _in(rng, 0.7, 1.2), (0.0, high), _one(rng, PLAIN, METALS))]
    if _is(rng, 0.3):  # its pedal
        parts.append(_block((-0.04, 0.04), (half, half + 0.08), (0.01, 0.04), PLAIN[1]))
    return parts


def _step(rng: np.random.Generator) -> list[Box]:
    """One to three steps of 5 to 18 cm: a kerb, a podium, a foot stool, a step ladder."""
    width, high, deep = _in(rng, 0.3, 1.2), _in(rng, 0.05, 0.18), _in(rng, 0.15, 0.35)
    count, finish = int(rng.integers(1, 4)), _one(rng, WOODS, PLAIN)
    return [
        _block(
            (-width / 2, width / 2), (0.0, (count - k) * deep), (k * high, (k + 1) * high), finish
        )
        for k in range(count)
    ]


MAKERS: dict[Design, Callable[[np.random.Generator], list[Box]]] = {
    "table": _table,
    "desk": _desk,
    "coffee-table": _coffee_table,
    "chair": _chair,
    "office-chair": _office_chair,
    "stool": _stool,
    "bench": _bench,
    "shelf": _shelf,
    "cabinet": _cabinet,
    "tv-board": _tv_board,
    "bed": _bed,
    "sofa": _sofa,
    "armchair": _armchair,
    "plant": _plant,
    "lamp": _lamp,
    "clothes-rail": _clothes_rail,
    "barrier": _barrier,
    "exercise": _exercise,
    "counter": _counter,
    "box": _carton,
    "bag": _bag,
    "bar": _bar,
    "barbell": _barbell,
    "cable": _cable,
    "toys": _toys,
    "shoes": _shoes,
    "bin": _bin,
    "step": _step,
}
