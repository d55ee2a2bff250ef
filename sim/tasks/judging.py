"""Progress of an episode: reward and end, for robots with legs and, compiled, for gliding ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array

ADVANCE_M = 0.1  # less is swaying; assumption
# Anderson et al. 2018 (arXiv 1807.06757), section 3: twice the robot's width of 0.18 m in Habitat.
REACHED_M = 0.36
STOPPED_STEPS, STOPPED_M = 50, 0.05  # stopped: within 5 cm for half a second
# The path walked is that of the mean position over about a gait cycle: in steps of 10 ms a base's
# sway would add 2 %.
SWAY_STEPS = STOPPED_STEPS

PROGRESS = np.dtype(
    [
        ("limit_steps", "i8"),
        ("stall_steps", "f8"),
        ("cap_m_per_s", "f8"),
        ("contact_cost_m_per_s", "f8"),
        ("goal_m", "f8"),  # progress of a success
        ("to_position", "i8"),  # whether the robot has to stop at the goal position instead
        ("goal_x", "f8"),
        ("goal_y", "f8"),
        ("steps", "i8"),
        ("progress_m", "f8"),
        ("best_m", "f8"),
        ("since_best", "i8"),
        ("walked_m", "f8"),
        ("reward", "f8"),
        ("arrived", "i8"),
        ("stuck", "i8"),
        ("over", "i8"),
    ]
)


def judge(
    episode: Any, places: Array, progress_m: float, x: float, y: float, touching: bool, fallen: bool
) -> None:
    """One control step: the capped progress as reward (IAP paper, eq. 11 and 12), and the end.

    Args:
        episode: (1,) of `PROGRESS`, changed.
        places: (SWAY_STEPS, 2) ring of the last places [m], changed.
        progress_m: of the robot through the scene.
        x: of the robot [m].
        y: of the robot [m].
        touching: whether it touches an obstacle.
        fallen: whether it has fallen.
    """
    e = episode[0]
    cap = e.cap_m_per_s * CONTROL_DT_S
    e.reward = max(-cap, min(cap, progress_m - e.progress_m))
    if touching:
        e.reward -= e.contact_cost_m_per_s * CONTROL_DT_S
    e.progress_m = progress_m
    e.since_best += 1
    if progress_m > e.best_m + ADVANCE_M:
        e.best_m, e.since_best = progress_m, 0
    oldest = e.steps % SWAY_STEPS
    e.steps += 1
    if e.to_position:
        moved_x, moved_y = x - places[oldest, 0], y - places[oldest, 1]
        e.walked_m += np.hypot(moved_x / SWAY_STEPS, moved_y / SWAY_STEPS)
        places[oldest, 0], places[oldest, 1] = x, y
        first = e.steps % SWAY_STEPS
        off_x, off_y = x - places[first, 0], y - places[first, 1]
        near = np.hypot(e.goal_x - x, e.goal_y - y) < REACHED_M
        stopped = e.steps >= STOPPED_STEPS and np.hypot(off_x, off_y) < STOPPED_M
        e.arrived = near and stopped
    else:
        e.arrived = progress_m > e.goal_m
    over = fallen or (e.arrived and not e.to_position)
    e.stuck = not over and e.since_best > e.stall_steps
    e.over = over or e.stuck or e.arrived
