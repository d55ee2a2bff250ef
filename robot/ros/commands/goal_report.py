"""How far it is to the goal, and what became of goals, told to people."""

from __future__ import annotations

import math
from typing import Any

from std_msgs.msg import Float64

from pixelgait.robot.ros.commands.goal import Destination
from pixelgait.robot.ros.common.topic_names import DISTANCE


class WayReport:
    """Tells people how far it is (`~/distance_to_goal`), and logs what became of goals.

    A distance of NaN, once, says that there is no goal any more.
    """

    def __init__(self, node: Any) -> None:
        self._logger = node.get_logger()
        self._distance = node.create_publisher(Float64, f"~/{DISTANCE}", 1)
        self._told = False

    def publish(self, destination: Destination) -> None:
        """From the executor's thread."""
        while destination.news:
            self._logger.info(destination.news.popleft())
        while destination.warnings:
            self._logger.warning(destination.warnings.popleft())
        distance_m = destination.distance_m()
        if distance_m is not None or self._told:
            self._distance.publish(Float64(data=math.nan if distance_m is None else distance_m))
        self._told = distance_m is not None
