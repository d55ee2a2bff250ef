"""What the policy has decided, live: `~/decision`, the newest of what it has looked at."""

from __future__ import annotations

from typing import Any

from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from pixelgait.robot.control.low_level import commanded
from pixelgait.robot.interface import Image
from pixelgait.robot.ros.common.topic_names import DECISION
from pixelgait.robot.runtime.control_loop import ControlLoop

COLUMNS = ("speed_m_per_s", "yaw_rate_rad_per_s", "duration_s")


class DecisionTopic:
    """std_msgs/Float64MultiArray: a latent command's speed and yaw rate, for how long it holds.

    The layout's label names the columns.
    """

    def __init__(self, node: Any) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, f"~/{DECISION}", 1)
        self._told: Image | None = None

    def publish(self, loop: ControlLoop) -> None:
        """Tell the newest decision, once."""
        newest = loop.decisions.newest
        if newest is None or newest[0] is self._told:
            return
        self._told, decision = newest
        duration_s = decision.duration_steps * loop.period_s
        message = Float64MultiArray(data=[*commanded(decision.latent), duration_s])
        size = len(COLUMNS)
        dimension = MultiArrayDimension(label=",".join(COLUMNS), size=size, stride=size)
        message.layout.dim = [dimension]
        self._publisher.publish(message)
