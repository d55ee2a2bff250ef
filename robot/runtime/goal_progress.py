"""Progress of a robot towards its goal, and goals that are reached or given up."""

from __future__ import annotations

import math
from collections.abc import Callable

from pixelgait.robot.control.controller import ARRIVAL_M
from pixelgait.robot.estimation.leg_odometry import UNKNOWN, Motion
from pixelgait.robot.interface import Reading
from pixelgait.robot.runtime.state_machine import Operator, RobotState

PROGRESS_M = 0.1  # nearer than ever before by so much is progress; more than sway; assumption
GOAL_TIMEOUT_S = 60.0  # a path around walls may lead no nearer for 30 m; assumption


class Progress:
    """Time that the robot walks without coming nearer to its goal; pauses are not counted."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start anew, for another goal or after a stop."""
        self.nearest_m = math.inf
        self._waited_s = 0.0
        self.pause()

    def pause(self) -> None:
        """Do not count the time until the next `waited_s`."""
        self._before_s: float | None = None

    def waited_s(self, distance_m: float, now_s: float) -> float:
        """Time without progress [s], with the goal at a distance [m] at this time [s]."""
        if self._before_s is not None:
            self._waited_s += now_s - self._before_s
        self._before_s = now_s
        if distance_m < self.nearest_m - PROGRESS_M:
            self.nearest_m, self._waited_s = distance_m, 0.0
        return self._waited_s


class GoalWatch:
    """Notes that a robot which goes by its legs has arrived, and gives a goal up without progress.

    `say` gets a line for either. Without ROS 2; with it `GoalCommand` knows other odometry as well.
    """

    def __init__(self, operator: Operator, say: Callable[[str], None]) -> None:
        self._operator, self._say, self._progress = operator, say, Progress()
        self._number, self._arrived = 0, False  # of the goal that is watched

    def moved(self, reading: Reading, motion: Motion) -> None:
        """Judge a control step."""
        operator, commands = self._operator, self._operator.commands
        if commands.goal_number != self._number:
            self._number, self._arrived = commands.goal_number, False
            self._progress.begin()
        goal = commands.goal_position
        walks = operator.state is RobotState.WALKING and not commands.steered
        if goal is None or self._arrived or not walks or motion.problem in UNKNOWN:
            self._progress.pause()
            return
        remaining_m = math.dist(goal, (motion.x, motion.y))
        if remaining_m < ARRIVAL_M:
            self._arrived = True
            self._say("arrived at the goal")
        elif self._progress.waited_s(remaining_m, reading.time_s) > GOAL_TIMEOUT_S:
            nearest = f"no nearer than {self._progress.nearest_m:.1f} m for {GOAL_TIMEOUT_S:g} s"
            operator.go_to(None)
            self._say(f"the goal is given up, {nearest}")
