"""The node's parameters: described, with ranges, refused by name, effective at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.ros.wire.link import PAIR, TIMEOUT_S
from pixelgait.robot.runtime.operation import DRIVER_TIMEOUT_S

DRIVER_TIMEOUT, VELOCITY_TIMEOUT = "driver_timeout_s", "cmd_vel_timeout_s"
STAMPED = "enable_stamped_cmd_vel"  # as Nav2 calls it
VELOCITY_TIMEOUT_S = 0.5  # Nav2's
ODOMETRY_TIMEOUT = "odom_timeout_s"
ODOMETRY_TIMEOUT_S = 0.5  # ours: 0.3 m at full speed
SHORTEST_S, LONGEST_S = 0.02, 10.0  # of time-outs
SIM_TIME = "use_sim_time"


class Parameters:
    """Declares a node's parameters; `timeout_s` of every sensor stays up to date [s].

    `changed` is called when one was set.

    Raises:
        UserError: a value given at the start cannot be used.
    """

    def __init__(self, node: Any, bundle: str, changed: Callable[[], None]) -> None:
        self._node = node
        self.timeout_s: dict[str, float] = {}
        fixed = ParameterDescriptor(
            description="Folder of the policy bundle, or the name of a shipped one.", read_only=True
        )
        stamped = ParameterDescriptor(
            description="cmd_vel is a TwistStamped instead of a Twist.", read_only=True
        )
        try:
            given = node.declare_parameter("bundle", bundle, fixed).value
            node.declare_parameter(STAMPED, False, stamped)
            for topic, seconds in TIMEOUT_S.items():
                what = f"The robot is damped when {topic} has said nothing new for so long [s]."
                self._declare(timeout_name(topic), seconds, what)
            driver = "The robot's driver damps by itself when no command comes for so long [s]."
            self._declare(DRIVER_TIMEOUT, DRIVER_TIMEOUT_S, driver)
            odometry = "The robot stands when odom is silent for so long [s]."
            self._declare(ODOMETRY_TIMEOUT, ODOMETRY_TIMEOUT_S, odometry)
            velocity = "The robot stands when cmd_vel is silent for so long [s]."
            self._declare(VELOCITY_TIMEOUT, VELOCITY_TIMEOUT_S, velocity)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise UserError(f"parameter: {error}") from None
        if given != bundle:
            raise UserError(f"bundle is '{bundle}' as argument and '{given}' as parameter")
        if node.get_parameter(SIM_TIME).value:
            raise UserError(f"{SIM_TIME} is not supported: a real robot's clock does not stop")
        self._changed = changed
        self._read()
        node.add_on_set_parameters_callback(self._refuse)
        node.add_post_set_parameters_callback(self._take_over)

    def seconds(self, name: str) -> float:
        """The value of a time-out [s]."""
        return float(self._node.get_parameter(name).value)

    @property
    def stamped(self) -> bool:
        """Whether cmd_vel is a TwistStamped."""
        return bool(self._node.get_parameter(STAMPED).value)

    def _declare(self, name: str, value: float, description: str) -> None:
        limits = FloatingPointRange(from_value=SHORTEST_S, to_value=LONGEST_S)
        descriptor = ParameterDescriptor(
            description=description, floating_point_range=[limits], dynamic_typing=False
        )
        given = self._node.declare_parameter(name, value, descriptor).value
        if not math.isfinite(given):  # no range holds NaN out
            raise UserError(f"parameter {name} is {given}, needs {SHORTEST_S} to {LONGEST_S}")

    def _take_over(self, parameters: list[Any]) -> None:
        self._read()
        self._changed()

    def _read(self) -> None:
        for topic in TIMEOUT_S:
            self.timeout_s[topic] = self.seconds(timeout_name(topic))
        self.timeout_s[PAIR] = self.timeout_s[ros.DEPTH]

    def _refuse(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            value = parameter.value
            if parameter.name == SIM_TIME and value:
                return SetParametersResult(successful=False, reason="not supported")
            if isinstance(value, float) and not math.isfinite(value):
                return SetParametersResult(successful=False, reason=f"{value} is not finite")
        return SetParametersResult(successful=True)


def timeout_name(topic: str) -> str:
    """Name of the parameter with a topic's time-out [s], as in timeout_s.imu.data."""
    return f"timeout_s.{topic.replace('/', '.')}"
