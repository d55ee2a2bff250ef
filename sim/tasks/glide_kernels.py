"""Control steps of a gliding robot's episode in machine code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pixelgait.robot.control.controller import ARRIVAL_M
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.engines.gliding import Surroundings, follow
from pixelgait.sim.tasks import judging
from pixelgait.sim.tasks.task import FALLEN_HEIGHT_M
from pixelgait.sim.world.compiled import compiled
from pixelgait.sim.world.ground_kernels import ground_m
from pixelgait.sim.world.map_kernels import distance_at
from pixelgait.sim.world.traversability import CELL_M

SAMPLE_STEPS = 10  # every tenth place is logged

TALLY = np.dtype(
    [
        ("return_m", "f8"),
        ("arrived", "i8"),  # at its goal position, by odometry: from then on it stands
        ("touching", "i8"),
        ("contacts", "i8"),
        ("contact_s", "f8"),
    ]
)

judge = compiled(judging.judge)


@compiled
def advance(
    robot: Any,
    episode: Any,
    tally: Any,
    places: Array,
    path: Array,
    speed: float,
    yaw_rate: float,
    steps: int,
    around: Surroundings,
    trunk: Array,
    distances: Array,
    corner_m: tuple[float, float],
) -> None:
    """Control steps under one velocity command, until the episode is over.

    Args:
        robot: (1,) of `ROBOT`.
        episode: (1,) of `PROGRESS`.
        tally: (1,) of `TALLY`.
        places: ring of places, see `judge`.
        path: (n, 2) written: every tenth place [m].
        speed: commanded [m/s].
        yaw_rate: commanded [rad/s].
        steps: how many; a robot that stands at its goal takes all that are left.
        around: surroundings.
        trunk: ring of states of the trunk.
        distances: to the goal position from each cell of a map [m]; (0, 0): progress is along x.
        corner_m: least x, y of that map.
    """
    r, e, t = robot[0], episode[0], tally[0]
    end = e.steps + steps
    while not e.over and e.steps < e.limit_steps:
        if e.to_position and not t.arrived:
            away = math.hypot(e.goal_x - r.odometry_x, e.goal_y - r.odometry_y)
            t.arrived = away < ARRIVAL_M
        if t.arrived:
            speed, yaw_rate = 0.0, 0.0
        elif e.steps >= end:
            break
        if e.steps % SAMPLE_STEPS == 0:
            path[e.steps // SAMPLE_STEPS, 0], path[e.steps // SAMPLE_STEPS, 1] = r.x, r.y
        follow(robot, speed, yaw_rate, around, trunk)
        ground = ground_m(around.ground, r.x, r.y)
        fallen = math.isnan(ground) or r.z - ground < FALLEN_HEIGHT_M
        progress = r.x
        if distances.size:
            progress = -distance_at(distances, corner_m[0], corner_m[1], CELL_M, r.x, r.y)
        touching = r.stopped or r.run_into
        judge(episode, places, progress, r.x, r.y, touching, fallen)
        e.over = e.over or not r.on_ground
        t.return_m += e.reward
        if touching:
            t.contacts += not t.touching
            t.contact_s += CONTROL_DT_S
        t.touching = touching
