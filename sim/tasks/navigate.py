"""Tasks of the high level: walk ahead through a scene, or to its goal position and stop there."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.control.low_level import LATENT_SIZE
from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.judging import (
    PROGRESS,
    STOPPED_M,
    STOPPED_STEPS,
    SWAY_STEPS,
    judge,
)
from pixelgait.sim.tasks.task import drawn_push, fallen, planar_pose, progress_m
from pixelgait.sim.world.scene import Scene
from pixelgait.sim.world.seeds import Stream

AHEAD = np.array((1.0, 0.0))  # the latent command of full speed, straight on
NEAR_M = 0.5  # a weaker criterion for a goal, for comparison


class Forward:
    """Walk ahead: the reward is the capped progress through the scene (IAP paper, eq. 11 and 12).

    A return is in metres. Contacts with anything but the ground may cost `contact_cost_m_per_s`.
    The episode ends with a fall, at the scene's goal, or after `stall_steps` without advance: then
    the robot is `stuck`.
    """

    latent_size = LATENT_SIZE
    CAP_M_PER_S = 0.6  # assumption: the paper gives none
    SHOVE_M_PER_S = 0.2  # at the start, in a random direction: no two episodes are equal
    stall_steps: float = 600  # 6 s, ten times as long as ADVANCE_M takes; assumption

    def __init__(self, steps: int, contact_cost_m_per_s: float = 0.0) -> None:
        self.steps = steps
        self.contact_cost_m_per_s = contact_cost_m_per_s
        self.episode = np.zeros(1, PROGRESS).view(np.recarray)  # as `judge` keeps it
        self.places = np.zeros((SWAY_STEPS, 2))  # the last ones [m]

    def reset(self, body: RobotBase, seed: int) -> None:
        self.start(body)
        body.push(self.shove(seed))

    def start(self, body: RobotBase) -> None:
        """Begin an episode at the robot's place."""
        episode, scene = self.episode, body.scene
        episode[:] = 0
        episode.limit_steps, episode.stall_steps = self.steps, self.stall_steps
        episode.cap_m_per_s, episode.contact_cost_m_per_s = (
            self.CAP_M_PER_S,
            self.contact_cost_m_per_s,
        )
        episode.goal_m = scene.goal_m
        episode.progress_m = episode.best_m = progress_m(body)

    @classmethod
    def shove(cls, seed: int) -> Array:
        """The push (3,) [m/s] at the start of a seed's episode."""
        return drawn_push(cls.SHOVE_M_PER_S, Stream.TASK.rng(seed))

    def step(self, body: RobotBase) -> tuple[float, bool]:
        (x, y, _), _ = body.pose()
        touching = self.contact_cost_m_per_s > 0.0 and body.touching() is not None
        judge(self.episode, self.places, progress_m(body), x, y, touching, fallen(body))
        return float(self.episode.reward[0]), bool(self.episode.over[0])

    @property
    def stuck(self) -> bool:
        """Whether the robot has not advanced for too long."""
        return bool(self.episode.stuck[0])

    def succeeded(self) -> bool | None:
        """Whether the goal is reached, if there is one."""
        endless = math.isinf(self.episode.goal_m[0])
        return None if endless else bool(self.episode.arrived[0])

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

    def start(self, body: RobotBase) -> None:
        super().start(body)
        assert body.scene.goal_position is not None
        self.goal_position: Array = body.scene.goal_position
        self.places[:] = place = planar_pose(body)[:2]
        self._path_length_m = body.scene.path_length_m(*place.tolist())
        self.episode.to_position = True
        self.episode.goal_x, self.episode.goal_y = self.goal_position

    def succeeded(self) -> bool:
        """Whether the robot has stopped at its goal position."""
        return bool(self.episode.arrived[0])

    def metrics(self, fell: bool) -> dict[str, float]:
        """SPL, weaker success, distance to the goal position [m], path walked [m] and time [s]."""
        walked_m, steps = float(self.episode.walked_m[0]), int(self.episode.steps[0])
        first, last = self.places[steps % SWAY_STEPS], self.places[(steps - 1) % SWAY_STEPS]
        remaining_m = float(np.hypot(*(self.goal_position - last)))
        stopped = np.hypot(*(last - first)) < STOPPED_M and steps >= STOPPED_STEPS
        efficiency = self._path_length_m / max(walked_m, self._path_length_m)
        return {
            "spl": efficiency * (self.succeeded() and not fell),
            "near_rate": float(stopped and remaining_m < NEAR_M and not fell),
            "remaining_m": remaining_m,
            "walked_m": walked_m,
            "time_s": steps * CONTROL_DT_S,
        }
