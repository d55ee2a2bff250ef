"""How far it is to the goal, and what became of goals, told to people."""

from __future__ import annotations

import math
from typing import Any

from std_msgs.msg import Float64

from pixelgait.robot.ros.commands.goal import GoalCommand
from pixelgait.robot.ros.common.topic_names import DISTANCE


class GoalReport:
    """Tells people how far it is (`~/distance_to_goal`), and logs what became of goals.

    A distance of NaN, once, says that there is no goal any more.
    """

    def __init__(self, node: Any) -> None:
        self._logger = node.get_logger()
        self._distance = node.create_publisher(Float64, f"~/{DISTANCE}", 1)
        self._told = False

    def publish(self, goal: GoalCommand) -> None:
        """From the executor's thread."""
        while goal.news:
            self._logger.info(goal.news.popleft())
        while goal.warnings:
            self._logger.warning(goal.warnings.popleft())
        distance_m = goal.distance_m()
        if distance_m is not None or self._told:
            self._distance.publish(Float64(data=math.nan if distance_m is None else distance_m))
        self._told = distance_m is not None
