"""Persons: a trunk on two legs that stride, along paths through the time of an episode.

They walk as they mean to, whatever is in their way: a robot has to see and avoid them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pixelgait.robot.rotation import wrap_angle
from pixelgait.sim.world.scene import STORE, Box, Motion, Pose, Waypoint
from pixelgait.sim.world.texture import Colour

PARTS = 3  # of a person: left leg, right leg, trunk
LEGS_M = (0.10, 0.14, 0.12, 0.13)  # widths, person after person
TALL_M = (1.75, 1.60, 1.90, 1.50, 1.68)
HIP_M = 0.83  # height of the legs, which end within the trunk
TRUNK_FROM_M = 0.81  # more than robots need
ASIDE_M = 0.10  # of a leg's middle
TRUNK_HALF_M = (0.12, 0.22)
TROUSERS: tuple[Colour, ...] = ((0.15, 0.18, 0.3), (0.3, 0.28, 0.25), (0.1, 0.1, 0.1))
SHIRTS: tuple[Colour, ...] = ((0.6, 0.2, 0.2), (0.8, 0.8, 0.75), (0.2, 0.45, 0.3), (0.2, 0.3, 0.6))
PUSH_N = 150.0  # assumption: of a leg, before its person gives way; a fifth of a person's weight

# Step length over step rate is the same at all speeds: 0.0064 m per step/min (Sekiya and Nagasaki
# 1998), so steps are longer and quicker the faster a person is.
WALK_RATIO_M_PER_HZ = 0.0064 * 60.0
TURN_RAD_PER_S = 2.0  # on the spot; assumption
SLOW = 2.0  # factor on the time of a first and a last step; assumption
NEAR_M, SHORTEST_S = 0.01, 1e-3  # nothing nearer is walked to, nothing shorter lasts
STEPS_VARY = 0.08  # share by which persons' step lengths differ; assumption


def bodies(count: int) -> list[Box]:
    """Movable shapes of persons, still in the store: `PARTS` boxes of each."""
    boxes = []
    for i in range(count):
        half, tall = LEGS_M[i % len(LEGS_M)] / 2.0, TALL_M[i % len(TALL_M)]
        leg = Box(STORE, (half, half, HIP_M / 2.0), TROUSERS[i % len(TROUSERS)], push_n=PUSH_N)
        size = (*TRUNK_HALF_M, (tall - TRUNK_FROM_M) / 2.0)
        boxes += [leg, leg, Box(STORE, size, SHIRTS[i % len(SHIRTS)])]
    return boxes


@dataclass
class Walk:
    """The path of a person in time, made part by part."""

    x: float
    y: float
    yaw: float  # [rad]
    speed_m_per_s: float
    step_share: float = 1.0  # of the step length that is usual at this speed
    foot: float = 1.0  # -1: the right one steps first
    path: list[Waypoint] = field(init=False)

    def __post_init__(self) -> None:
        self.path = [Waypoint(0.0, self.x, self.y, self.yaw)]

    @property
    def time_s(self) -> float:
        """Since the reset, at the end of the path so far."""
        return self.path[-1].time_s

    @property
    def step_m(self) -> float:
        """Length of a step."""
        return self.step_share * math.sqrt(WALK_RATIO_M_PER_HZ * self.speed_m_per_s)

    @property
    def stride_s(self) -> float:
        """Time of two steps."""
        return 2.0 * self.step_m / self.speed_m_per_s

    def stand(self, seconds: float) -> None:
        """Stand."""
        self._add(seconds, 0.0)

    def go(self, x: float, y: float) -> None:
        """Turn to a place and walk there in whole steps, the first and the last ones slowly."""
        self.follow([(x, y)])

    def follow(self, places: Sequence[tuple[float, float]]) -> None:
        """Walk to places x, y [m] one after the other, turning at each."""
        for i, (x, y) in enumerate(places):
            away_m = math.hypot(x - self.x, y - self.y)
            if away_m < NEAR_M:
                continue
            turn = wrap_angle(math.atan2(y - self.y, x - self.x) - self.yaw)
            self.yaw += turn
            self._add(abs(turn) / TURN_RAD_PER_S, 0.0)
            self._line(x, y, away_m, i == 0, i == len(places) - 1)

    def _line(self, x: float, y: float, away_m: float, starts: bool, ends: bool) -> None:
        from_x, from_y, steps = self.x, self.y, max(1, round(away_m / self.step_m))
        first, last = int(starts), int(ends and steps > starts)
        for count, slower in ((first, SLOW), (steps - first - last, 1.0), (last, SLOW)):
            share = count / steps
            self.x, self.y = self.x + share * (x - from_x), self.y + share * (y - from_y)
            seconds = slower * share * away_m / self.speed_m_per_s
            self._add(seconds, count * self.stride_s / 2.0)

    def beside(self, x_m: float, y_m: float, foot: float) -> Walk:
        """The walk of a companion, that much further along x and y."""
        path = [replace(point, x=point.x + x_m, y=point.y + y_m) for point in self.path]
        companion = replace(self, x=self.x + x_m, y=self.y + y_m, foot=foot)
        companion.path = path
        return companion

    def _add(self, seconds: float, striding_s: float) -> None:
        if seconds > SHORTEST_S:
            last = self.path[-1]
            swung_s = last.swung_s + striding_s
            self.path.append(Waypoint(last.time_s + seconds, self.x, self.y, self.yaw, swung_s))

    def motions(self, first: int) -> list[Motion]:
        """Motions of a person's parts, whose movable shapes begin at `first`."""
        # In mid-stance a foot stands still on the ground: it swings back as fast as the hip moves.
        reach_m, path = self.foot * self.step_m / math.pi, tuple(self.path)
        reaches = (reach_m, -reach_m, 0.0)
        return [
            Motion(first + i, (x, 0.0, 0.0), self.stride_s, path) for i, x in enumerate(reaches)
        ]


def walking(
    rng: np.random.Generator, persons: Sequence[Box], walks: Sequence[Walk], first: int
) -> tuple[list[Pose], list[Motion]]:
    """Poses and motions of persons, of whom some drawn ones take these walks.

    Args:
        rng: Draws the persons.
        persons: What `bodies` made.
        walks: At most as many as there are persons.
        first: Index of the persons' first shape among the scene's movable ones.
    """
    poses = [STORE] * len(persons)
    motions: list[Motion] = []
    chosen = rng.choice(len(persons) // PARTS, len(walks), replace=False).tolist()
    for person, walk in zip(chosen, walks, strict=True):
        i = PARTS * person
        left, _, trunk = persons[i : i + PARTS]
        poses[i : i + PARTS] = [
            Pose(0.0, ASIDE_M, left.half_m[2]),
            Pose(0.0, -ASIDE_M, left.half_m[2]),
            Pose(0.0, 0.0, TRUNK_FROM_M + trunk.half_m[2]),
        ]
        motions += walk.motions(first + i)
    return poses, motions
