"""Furnished houses: flats, offices and halls, a new one with new furniture in every episode."""

from __future__ import annotations

import numpy as np

from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.world.furnishing import House, draw_furnished
from pixelgait.sim.world.furniture import Kinds
from pixelgait.sim.world.house_plan import HouseKind
from pixelgait.sim.world.scene import STORE, Box, Layout, Pose
from pixelgait.sim.world.texture import Texture
from pixelgait.sim.world.traversability import TraversabilityMap

MOST_BOXES: dict[HouseKind, int] = {"apartment": 500, "office": 700, "hall": 700}
LEAST_PATH_M = 2.5  # of the longest path: what is shorter is no house
FLOORS = (
    ((0.52, 0.41, 0.29), Texture("planks", ((0.62, 0.50, 0.36), (0.36, 0.27, 0.18)), tile_m=2.0)),
    ((0.62, 0.61, 0.58), Texture("plaster", ((0.66, 0.65, 0.62), (0.58, 0.57, 0.54)), 7)),
    ((0.74, 0.73, 0.70), Texture("checks", ((0.80, 0.79, 0.76), (0.66, 0.65, 0.62)), 8)),
)
UNUSED = Box(STORE, (0.01, 0.01, 0.01), (0.5, 0.5, 0.5))  # becomes a box of the episode


class FurnishedHouse(Indoor):
    """A house of a kind, with a green mark at the goal.

    Its boxes are as many in every episode; those that a house does not need are in the store.
    """

    draws_boxes = True

    def __init__(self, kind: HouseKind, difficulty: float = 0.5, kinds: Kinds = "train") -> None:
        self.kind, self.difficulty, self.kinds = kind, difficulty, kinds
        self.name = kind if kinds == "train" else f"{kind}:{kinds}"
        self.movable = [self.mark, *[UNUSED] * (1 + MOST_BOXES[kind])]
        self.house: House  # of the last layout

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw a house, a start and a goal."""
        self.house, area = self._draw(rng)
        start, mark = self.point_goal(rng, area, 0.0)
        boxes = [_floor(rng, area), *self.house.boxes]
        rest = [STORE] * (len(self.movable) - 1 - len(boxes))
        return Layout(
            start,
            [mark, *(box.pose for box in boxes), *rest],
            boxes=dict(enumerate(boxes, 1)),
        )

    def _draw(self, rng: np.random.Generator) -> tuple[House, TraversabilityMap]:
        """The next house with ways to walk."""
        while True:
            house = draw_furnished(
                rng, self.kind, self.difficulty, self.kinds, MOST_BOXES[self.kind]
            )
            try:
                area = house.map()
            except ValueError:
                continue
            places = area.places(area.cells)
            if float(np.hypot(*np.ptp(places, axis=0))) > LEAST_PATH_M:
                return house, area


def _floor(rng: np.random.Generator, area: TraversabilityMap) -> Box:
    """A floor below a map, with its top at z = 0."""
    x0, x1, y0, y1 = area.extent_m
    colour, texture = FLOORS[int(rng.integers(len(FLOORS)))]
    middle, half = Pose((x0 + x1) / 2, (y0 + y1) / 2, -0.25), ((x1 - x0) / 2, (y1 - y0) / 2, 0.25)
    return Box(middle, half, colour, texture=texture)
