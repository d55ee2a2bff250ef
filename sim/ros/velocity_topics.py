"""Simulated robot with a gait of its own: it follows cmd_vel; odom is the simulated robot's."""

from __future__ import annotations

import math
import time
from collections.abc import Container
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.ros.commands.cmd_vel import velocity_of
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import VELOCITY
from pixelgait.robot.ros.parameters import STAMPED
from pixelgait.robot.safety.velocity import STILL, VELOCITY_TIMEOUT_S
from pixelgait.robot.spec import RobotSpec
from pixelgait.sim.ros.own_gait import OwnGait


class VelocityWire:
    """Follows cmd_vel, Twist or TwistStamped; stands after half a second without a command."""

    def __init__(self, node: Any, spec: RobotSpec) -> None:
        self._gait = OwnGait(spec)
        stamped = node.declare_parameter(STAMPED, False).value
        self._node = ros2.quiet_node(node, f"{node.get_name()}_gait")
        kind = TwistStamped if stamped else Twist
        self._subscription = ros2.subscribe(self._node, kind, VELOCITY)
        self._velocity, self._received_s = STILL, -math.inf
        self._reading: Reading | None = None

    def command(self) -> JointCommand | None:
        """The command of its gait; None before the first reading."""
        if self._reading is None:
            return None
        if (message := ros2.take(self._subscription)) is not None:
            self._velocity = velocity_of(getattr(message, "twist", message))
            self._received_s = time.monotonic()
        silent = time.monotonic() - self._received_s > VELOCITY_TIMEOUT_S
        return self._gait.command(STILL if silent else self._velocity, self._reading)

    def publish(self, now_ns: int, reading: Reading, lost: Container[str]) -> None:
        """Publish nothing: its joints are its own."""
        self._reading = reading

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_node()
