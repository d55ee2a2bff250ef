"""People: persons who cross, come towards the robot, overtake it, stop, stand and walk on."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.sim.world.persons import STEPS_VARY, Walk, bodies, walking
from pixelgait.sim.world.scene import ORIGIN, Layout, Plane, Scene

MOST = 8
PERSONS = (2, MOST)  # at difficulty 0 and 1
SLOWEST_M_PER_S = 0.2
FASTEST_M_PER_S = (0.6, 1.5)  # at difficulty 0 and 1
LENGTH_M = 10.0
# The following numbers are assumptions.
GROUPS = (0.6, 0.3, 0.1)  # shares of one, two and three persons
SIDE_BY_SIDE_M = 0.65
KINDS = (0.45, 0.2, 0.1, 0.15, 0.1)  # shares of who cross, come, overtake, stand and stroll
MEETING_M = (1.5, 9.0)  # where a person's path meets the robot's, if it walks straight ahead
ROBOT_M_PER_S, OFF_S = 0.45, 2.5  # at this speed; so much later or earlier
FURTHEST_M = 6.0  # from a meeting: there persons wait before they come, and stop
SKEW_RAD = math.radians(35.0)  # of paths across
STOPS, STOP_S = 0.3, (1.0, 4.0)  # share of the paths across with a stop on the robot's path
COMING_RAD = math.radians(12.0)  # off the opposite direction, at most
# A person who comes from behind is not seen, but sees the robot, and passes at a distance.
PASSING_M, OVERTAKING_M_PER_S = (0.9, 1.6), 0.7
LEAVING, STANDING_S = 0.5, (5.0, 25.0)  # share of those who stand that walk away, and when
STROLL_M, STROLL_ASIDE_M = (1.5, 10.0), 2.5  # area of those who stroll, along and across
CLEAR_M, CLEAR_S = 1.2, 3.0  # around the start until the robot has moved
UNTIL_S = 90.0  # then they stand


class People(Scene):
    """Persons on open ground, alone and in groups."""

    name = "people"
    goal_m = LENGTH_M  # along x
    fixed = (Plane(),)

    def __init__(self, difficulty: float = 0.5) -> None:
        self.count = round(float(np.interp(difficulty, (0.0, 1.0), PERSONS)))
        self.fastest = float(np.interp(difficulty, (0.0, 1.0), FASTEST_M_PER_S))
        self.movable = self.persons = bodies(MOST)

    def layout(self, rng: np.random.Generator) -> Layout:
        """Draw the walks of every group."""
        walks: list[Walk] = []
        while len(walks) < self.count:
            walks += self._group(rng, self.count - len(walks))
        return Layout(ORIGIN, *walking(rng, self.persons, walks, 0))

    def _group(self, rng: np.random.Generator, most: int) -> list[Walk]:
        """Walks of persons side by side who do not run over a robot that only starts."""
        size = min(1 + int(rng.choice(len(GROUPS), p=GROUPS)), most)
        kinds = (self._cross, self._come, self._overtake, self._stand, self._stroll)
        draw = kinds[int(rng.choice(len(KINDS), p=KINDS))]
        while True:
            walk = draw(rng)
            x, y = -SIDE_BY_SIDE_M * math.sin(walk.yaw), SIDE_BY_SIDE_M * math.cos(walk.yaw)
            feet = rng.choice((-1.0, 1.0), size).tolist()
            walks = [walk.beside(i * x, i * y, foot) for i, foot in enumerate(feet)]
            if all(map(_starts_clear, walks)):
                return walks

    def _speed(self, rng: np.random.Generator, least: float = SLOWEST_M_PER_S) -> float:
        return float(rng.uniform(least, max(self.fastest, 1.3 * least)))

    def _cross(self, rng: np.random.Generator) -> Walk:
        """Across the robot's path and back again, perhaps with a stop on it."""
        walk, side = None, float(rng.choice((-1.0, 1.0)))
        speed = self._speed(rng)
        while walk is None or walk.time_s < UNTIL_S:
            direction = side * (math.pi / 2.0 + float(rng.uniform(-SKEW_RAD, SKEW_RAD)))
            x, y, time_s = _meeting(rng, 0.5)
            if walk is None:
                walk = _towards(rng, x, y, direction, speed, time_s)
            else:
                walk.stand(float(rng.uniform(*STOP_S)))
                walk.go(*_behind(x, y, direction, FURTHEST_M))
            if rng.random() < STOPS:
                walk.go(x, y)
                walk.stand(float(rng.uniform(*STOP_S)))
            walk.go(*_behind(x, y, direction, -FURTHEST_M))
            side = -side
        return walk

    def _come(self, rng: np.random.Generator) -> Walk:
        """Towards the robot, past it and away."""
        x, y, time_s = _meeting(rng, 0.8)
        direction = math.pi + float(rng.uniform(-COMING_RAD, COMING_RAD))
        walk = _towards(rng, x, y, direction, self._speed(rng), time_s)
        walk.go(*_behind(x, y, direction, -2.0 * FURTHEST_M))
        return walk

    def _overtake(self, rng: np.random.Generator) -> Walk:
        """Past the robot from behind, beside it."""
        x, _, time_s = _meeting(rng, 0.0)
        y = float(rng.choice((-1.0, 1.0)) * rng.uniform(*PASSING_M))
        walk = _towards(rng, x, y, 0.0, self._speed(rng, OVERTAKING_M_PER_S), time_s, math.inf)
        walk.go(x + 2.0 * LENGTH_M, y)
        return walk

    def _stand(self, rng: np.random.Generator) -> Walk:
        """On the robot's path; some walk away."""
        x, y, _ = _meeting(rng, 1.0)
        yaw = float(rng.uniform(-math.pi, math.pi))
        walk = _walker(rng, x, y, yaw, self._speed(rng))
        if rng.random() < LEAVING:
            walk.stand(float(rng.uniform(*STANDING_S)))
            walk.go(*_behind(x, y, float(rng.uniform(-math.pi, math.pi)), -FURTHEST_M))
        return walk

    def _stroll(self, rng: np.random.Generator) -> Walk:
        """From place to place about the robot's path, with stops."""
        walk = _walker(rng, *_place(rng), 0.0, self._speed(rng))
        while walk.time_s < UNTIL_S:
            walk.stand(float(rng.uniform(*STOP_S)))
            walk.go(*_place(rng))
        return walk


def _place(rng: np.random.Generator) -> tuple[float, float]:
    """A place x, y [m] where persons stroll."""
    return float(rng.uniform(*STROLL_M)), STROLL_ASIDE_M * float(rng.uniform(-1.0, 1.0))


def _meeting(rng: np.random.Generator, aside_m: float) -> tuple[float, float, float]:
    """A place x, y [m] on the robot's path or so far from it, and a time near its being there."""
    x, y = float(rng.uniform(*MEETING_M)), aside_m * float(rng.uniform(-1.0, 1.0))
    return x, y, max(0.0, x / ROBOT_M_PER_S + OFF_S * float(rng.uniform(-1.0, 1.0)))


def _towards(
    rng: np.random.Generator,
    x: float,
    y: float,
    direction: float,
    speed: float,
    time_s: float,
    furthest_m: float = FURTHEST_M,
) -> Walk:
    """A walk to a place at a time, begun at most so far away."""
    away_m = min(speed * time_s, furthest_m)
    walk = _walker(rng, *_behind(x, y, direction, away_m), direction, speed)
    walk.stand(time_s - away_m / speed)
    walk.go(x, y)
    return walk


def _walker(rng: np.random.Generator, x: float, y: float, yaw: float, speed: float) -> Walk:
    return Walk(x, y, yaw, speed, 1.0 + STEPS_VARY * float(rng.uniform(-1.0, 1.0)))


def _behind(x: float, y: float, direction: float, away_m: float) -> tuple[float, float]:
    """The place so far before another one on a path in a direction."""
    return x - away_m * math.cos(direction), y - away_m * math.sin(direction)


def _starts_clear(walk: Walk) -> bool:
    """Whether a person stays away from the start until the robot has moved."""
    times = np.arange(0.0, CLEAR_S, 0.1)
    known = np.array([(point.time_s, point.x, point.y) for point in walk.path]).T
    x, y = (np.interp(times, known[0], each) for each in known[1:])
    return bool(np.hypot(x, y).min() > CLEAR_M)
