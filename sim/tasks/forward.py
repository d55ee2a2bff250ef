"""The task of getting ahead: through a scene, towards its goal."""

from __future__ import annotations

import math

import numpy as np

from pixelgait.robot.interface import CONTROL_DT_S
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import RobotBase
from pixelgait.sim.tasks.task import drawn_push, fallen, progress_m
from pixelgait.sim.world.seeds import Stream

AHEAD = np.array((1.0, 0.0))  # the latent command of full speed, straight on


class Forward:
    """Capped velocity along x (IAP paper, eq. 11 and 12) or towards the goal of the scene: a
    return reads as metres. Touching anything but the ground may cost `contact_cost_m_per_s`.

    The episode ends with a fall, at the scene's goal, or after `patience_steps` without advance:
    then it is `stuck`.
    """

    CAP_M_PER_S = 0.6  # the paper does not give its own
    ADVANCE_M = 0.1  # less is swaying; ours
    SHOVE_M_PER_S = 0.2  # at the start, in a random direction: no two episodes are alike
    stall_steps: float = 600  # of control: 6 s, ten times as long as it takes; ours

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
        """The push (3,) [m/s] at the start of the episode of a seed."""
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
