"""Distractors over any scene: what a camera policy must not look at.

After the Distracting Control Suite (Stone et al. 2021, arXiv 2101.02722), on which the IAP paper
(arXiv 2102.04353, section 5.2) measures: pictures behind everything, other surfaces, camera poses.
Light and objects that hover to and fro come on top. As there, textures for training and for testing
are disjoint sets; light, camera and motion come from the same ranges in both.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, TypeVar, get_args

import numpy as np

from pixelgait.sim.scenes.houses.indoor import Indoor
from pixelgait.sim.world.appearance import Appearance
from pixelgait.sim.world.scene import STORE, Around, Box, Layout, Pose, Scene, Shape, Swing
from pixelgait.sim.world.texture import Colour, Pattern, Texture

Split = Literal["train", "test"]
AnyShape = TypeVar("AnyShape", bound=Shape)
Kind = tuple[Colour, Texture | None]  # of boxes that look alike

# The first seed of each set's textures, and how many there are.
FIRST_SEEDS: dict[Split, int] = {"train": 0, "test": 1000}
TEXTURES_PER_SPLIT = 24
SHADES = (0.15, 0.80)  # of red, green and blue
TILE_M = 1.0
# A wall of pictures on every side of the start: nearer than cameras see, higher than they look.
BACKDROP_M, BACKDROP_HALF_M, PICTURE_M = 18.0, 9.0, 9.0
OBJECT_COUNT = 6
OBJECT_HALF_M = (0.08, 0.25)
# Where they hover, seen from the start: ahead, aside and above it. On the level no robot reaches up
# there; of the steepest ramps (difficulty above 0.7) one episode in twenty has one in the way.
AHEAD_M, ASIDE_M, ABOVE_M = (1.5, 10.0), (-3.0, 3.0), (1.1, 2.0)
REACH_M, LIFT_M, PERIOD_S = 1.0, 0.2, (3.0, 8.0)
LOWEST_LIGHT = 1.0  # horizontal part of its direction, against a vertical part of 1
SHIFT_M, PITCH_RAD = 0.02, 0.06  # of the camera, either way
SIZES_SEED = 0


class Distracted(Around):
    """A scene as it is, with distractions. Its layouts are those of the scene without them."""

    def __init__(self, scene: Scene, split: Split) -> None:
        self.scene = scene
        self.name, self.goal_m = scene.name, scene.goal_m
        self.has_goal_position = scene.has_goal_position
        self.textures = textures(split)
        plain = self.textures[0]
        picture = replace(plain, tile_m=PICTURE_M)
        wide = (BACKDROP_M, 0.1, BACKDROP_HALF_M)
        backdrop = [Box(STORE, wide, (1.0, 1.0, 1.0), texture=picture)] * 4
        sizes = np.random.default_rng(SIZES_SEED).uniform(*OBJECT_HALF_M, (OBJECT_COUNT, 3))
        objects = [
            Box(STORE, (x, y, z), (1.0, 1.0, 1.0), texture=plain) for x, y, z in sizes.tolist()
        ]
        self._drawn: dict[Kind, None] = {}  # for what kinds of boxes, in the order of the draws
        self._kinds: list[Kind] = []  # of the boxes that have a texture
        self.fixed = [self._covered(shape) for shape in scene.fixed]
        self.movable = [*(self._covered(shape) for shape in scene.movable), *backdrop, *objects]

    def layout(self, rng: np.random.Generator) -> Layout:
        """The scene's own layout, then what distracts from it."""
        layout = self._laid_out(rng)
        count = len(layout.movable)
        hovering = [_ahead_of(layout.start, rng) for _ in range(OBJECT_COUNT)]
        swings = [_swing(count + 4 + i, rng) for i in range(OBJECT_COUNT)]
        return Layout(
            layout.start,
            [*layout.movable, *_around(layout.start), *hovering],
            [*layout.swings, *swings],
            self._appearance(rng),
        )

    def _appearance(self, rng: np.random.Generator) -> Appearance:
        """Boxes that were alike stay alike."""
        drawn = {kind: self._draw(rng) for kind in self._drawn}
        picture = replace(self._draw(rng), tile_m=PICTURE_M)
        objects = [self._draw(rng) for _ in range(OBJECT_COUNT)]
        angle, low = rng.uniform(0.0, 2.0 * math.pi), rng.uniform(0.0, LOWEST_LIGHT)
        x, y, z = rng.uniform(-SHIFT_M, SHIFT_M, 3).tolist()
        return Appearance(
            light=(float(low * math.cos(angle)), float(low * math.sin(angle)), 1.0),
            camera_shift_m=(x, y, z),
            camera_pitch_rad=float(rng.uniform(-PITCH_RAD, PITCH_RAD)),
            textures=[*(drawn[kind] for kind in self._kinds), *[picture] * 4, *objects],
        )

    def _draw(self, rng: np.random.Generator) -> Texture:
        return self.textures[rng.integers(len(self.textures))]

    def _covered(self, shape: AnyShape) -> AnyShape:
        """The shape as it is built: every visible box but the goal's mark gets a texture."""
        is_goal = shape is Indoor.mark
        if not isinstance(shape, Box) or not shape.visible:
            return shape
        if is_goal and isinstance(self.scene, Indoor):
            return shape
        kind = shape.colour, shape.texture
        self._drawn[kind] = None  # a mixture's mark too: other draws would be other episodes
        if is_goal:
            return shape
        self._kinds.append(kind)
        return replace(shape, texture=self.textures[0])


def textures(split: Split) -> list[Texture]:
    """The textures of a set."""
    made = []
    for seed in range(FIRST_SEEDS[split], FIRST_SEEDS[split] + TEXTURES_PER_SPLIT):
        rng = np.random.default_rng(seed)
        pattern = get_args(Pattern)[rng.integers(len(get_args(Pattern)))]
        one, other = (tuple(colour) for colour in rng.uniform(*SHADES, (2, 3)).tolist())
        made.append(Texture(pattern, (one, other), seed, TILE_M))
    return made


def _around(start: Pose) -> list[Pose]:
    """Where the four sides of the backdrop are."""
    z, turned = start.z - 1.0 + BACKDROP_HALF_M, math.pi / 2
    return [
        Pose(start.x, start.y + BACKDROP_M, z),
        Pose(start.x, start.y - BACKDROP_M, z),
        Pose(start.x + BACKDROP_M, start.y, z, turned),
        Pose(start.x - BACKDROP_M, start.y, z, turned),
    ]


def _ahead_of(start: Pose, rng: np.random.Generator) -> Pose:
    ahead, aside, above = (float(rng.uniform(*span)) for span in (AHEAD_M, ASIDE_M, ABOVE_M))
    cos, sin = math.cos(start.yaw), math.sin(start.yaw)
    x, y = start.x + ahead * cos - aside * sin, start.y + ahead * sin + aside * cos
    return Pose(x, y, start.z + above, float(rng.uniform(0.0, math.pi)))


def _swing(shape: int, rng: np.random.Generator) -> Swing:
    x, y, z = (rng.uniform(-1.0, 1.0, 3) * (REACH_M, REACH_M, LIFT_M)).tolist()
    return Swing(shape, (x, y, z), float(rng.uniform(*PERIOD_S)))
