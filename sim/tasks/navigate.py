"""Tasks of the high level: walk ahead through a scene, or to its goal position and stop there."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.task import drawn_push, fallen, planar_pose, progress_m
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import Stream

AHEAD = np.array((1.0, 0.0))  # the latent command of full speed, straight on
# Anderson et al. 2018 (arXiv 1807.06757), section 3: twice the robot's width of 0.18 m in Habitat.
REACHED_M = 0.36
NEAR_M = 0.5  # a weaker criterion, for comparison
STOPPED_STEPS, STOPPED_M = 50, 0.05  # stopped: within 5 cm for half a second
# The path walked is that of the mean position over about a gait cycle: in steps of 10 ms a base's
# sway would add 2 %.
SWAY_STEPS = STOPPED_STEPS


class Forward:
    """Walk ahead: the reward is the capped progress through the scene (IAP paper, eq. 11 and 12).

    A return is in metres. Contacts with anything but the ground may cost `contact_cost_m_per_s`.
    The episode ends with a fall, at the scene's goal, or after `stall_steps` without advance: then
    the robot is `stuck`.
    """

    CAP_M_PER_S = 0.6  # assumption: the paper gives none
    ADVANCE_M = 0.1  # less is swaying; assumption
    SHOVE_M_PER_S = 0.2  # at the start, in a random direction: no two episodes are equal
    stall_steps: float = 600  # 6 s, ten times as long as ADVANCE_M takes; assumption

    def __init__(self, steps: int, contact_cost_m_per_s: float = 0.0) -> None:
        self.steps = steps
        self.contact_cost_m_per_s = contact_cost_m_per_s
        self._progress = self._best = 0.0
        self._since_best = self._steps = 0
        self._arrived = self.stuck = False

    def reset(self, body: RobotBase, seed: int) -> None:
        self._progress = self._best = progress_m(body)
        self._since_best = self._steps = 0
        self._arrived = self.stuck = False
        self._endless = math.isinf(body.scene.goal_m)
        body.push(self.shove(seed))

    @classmethod
    def shove(cls, seed: int) -> Array:
        """The push (3,) [m/s] at the start of a seed's episode."""
        return drawn_push(cls.SHOVE_M_PER_S, Stream.TASK.rng(seed))

    def step(self, body: RobotBase) -> tuple[float, bool]:
        self._steps += 1
        progress = progress_m(body)
        cap = self.CAP_M_PER_S * CONTROL_DT_S
        reward = max(-cap, min(cap, progress - self._progress))
        if self.contact_cost_m_per_s and body.touching() is not None:
            reward -= self.contact_cost_m_per_s * CONTROL_DT_S
        self._progress = progress
        self._since_best += 1
        if progress > self._best + self.ADVANCE_M:
            self._best, self._since_best = progress, 0
        self._arrived = self._at_goal(body)
        over = self._arrived or fallen(body)
        self.stuck = not over and self._since_best > self.stall_steps
        return reward, over or self.stuck

    def _at_goal(self, body: RobotBase) -> bool:
        return self._progress > body.scene.goal_m

    def succeeded(self) -> bool | None:
        """Whether the goal is reached, if there is one."""
        return None if self._endless else self._arrived

    def metrics(self, fell: bool) -> dict[str, float]:
        return {}


def navigation_task(scene: Scene, steps: int, contact_cost_m_per_s: float = 0.0) -> Forward:
    """The task of a scene: to its goal position, if it has one, else ahead."""
    task = Navigate if scene.has_goal_position else Forward
    return task(steps, contact_cost_m_per_s=contact_cost_m_per_s)


class Navigate(Forward):
    """Walk to the goal position and stop there: the reward is the advance along the shortest path.

    `spl` is success weighted by path length (Anderson et al. 2018, section 4): the geodesic path
    from start to goal over the path walked, if that is longer. There is no stall: on the way back
    out of a wrong room a robot does not advance for a while.
    """

    stall_steps = math.inf

    def reset(self, body: RobotBase, seed: int) -> None:
        super().reset(body, seed)
        assert body.scene.goal_position is not None
        self.goal_position: Array = body.scene.goal_position
        start = planar_pose(body)[:2]
        self._path_length_m = body.scene.path_length_m(*start.tolist())
        self._walked_m = 0.0
        self._places: deque[Array] = deque([start] * SWAY_STEPS, maxlen=SWAY_STEPS)

    def step(self, body: RobotBase) -> tuple[float, bool]:
        reward, over = super().step(body)
        place = planar_pose(body)[:2]
        mean_moved = (place - self._places[0]) / SWAY_STEPS
        self._walked_m += float(np.hypot(*mean_moved))
        self._places.append(place)
        return reward, over or self.succeeded()

    def _at_goal(self, body: RobotBase) -> bool:
        return False  # it has to stop there as well

    def succeeded(self) -> bool:
        """Whether the robot has stopped at its goal position."""
        return self._stopped_within(REACHED_M)

    def _stopped_within(self, reached_m: float) -> bool:
        first, last = self._places[0], self._places[-1]
        stopped = np.hypot(*(last - first)) < STOPPED_M and self._steps >= STOPPED_STEPS
        return bool(stopped and self._remaining_m() < reached_m)

    def _remaining_m(self) -> float:
        """Straight-line distance [m]."""
        return float(np.hypot(*(self.goal_position - self._places[-1])))

    def metrics(self, fell: bool) -> dict[str, float]:
        """SPL, weaker success, distance to the goal position [m], path walked [m] and time [s]."""
        efficiency = self._path_length_m / max(self._walked_m, self._path_length_m)
        return {
            "spl": efficiency * (self.succeeded() and not fell),
            "near_rate": float(self._stopped_within(NEAR_M) and not fell),
            "remaining_m": self._remaining_m(),
            "walked_m": self._walked_m,
            "time_s": self._steps * CONTROL_DT_S,
        }
