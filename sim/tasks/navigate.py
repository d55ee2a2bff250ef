"""The task of point-goal navigation: walk to the destination of the scene, and stop there."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.forward import Forward
from pixelgait.sim.tasks.task import planar_pose
from pixelgait.sim.world.scene import Scene

# Anderson et al. 2018 (arXiv 1807.06757), section 3: twice the robot's width of 0.18 m in Habitat.
REACHED_M = 0.36
NEAR_M = 0.5  # a laxer success, for comparison
STOPPED_STEPS, STOPPED_M = 50, 0.05  # stands: half a second within so much
# What is walked is the way of the mean place over so long, about a gait's cycle: summed up in
# pieces of 10 ms a trotting base's sway, and a standing one's, would be 2 % of it.
SWAY_STEPS = STOPPED_STEPS


def navigation_task(scene: Scene, steps: int, contact_cost_m_per_s: float = 0.0) -> Forward:
    """The task of a scene: to its destination, if it tells one, else ahead."""
    task = Navigate if scene.has_goal_position else Forward
    return task(steps, contact_cost_m_per_s=contact_cost_m_per_s)


class Navigate(Forward):
    """Advance along the way that is left, until the robot has stopped at the destination.

    `spl` is success weighted by path length (Anderson et al. 2018, section 4): the geodesic way
    from start to destination over what was walked, if that is more; the base's sway is no way. Who
    comes back out of a wrong room has not advanced for a while: only time ends an episode there.
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
        return False  # being there is not enough

    def succeeded(self) -> bool:
        """Whether the robot has stopped at its destination."""
        return self._stopped_within(REACHED_M)

    def _stopped_within(self, reached_m: float) -> bool:
        first, last = self._places[0], self._places[-1]
        stopped = np.hypot(*(last - first)) < STOPPED_M and self._steps >= STOPPED_STEPS
        return bool(stopped and self._remaining_m() < reached_m)

    def _remaining_m(self) -> float:
        """As the crow flies [m]."""
        return float(np.hypot(*(self.goal_position - self._places[-1])))

    def metrics(self, fell: bool) -> dict[str, float]:
        """SPL, whether and how far from the destination it ended [m], its way [m] and time [s]."""
        way = self._path_length_m / max(self._walked_m, self._path_length_m)
        return {
            "spl": way * (self.succeeded() and not fell),
            "near_rate": float(self._stopped_within(NEAR_M) and not fell),
            "remaining_m": self._remaining_m(),
            "walked_m": self._walked_m,
            "time_s": self._steps * CONTROL_DT_S,
        }
