"""`cmd_vel` instead of a policy's high level: a joystick or Nav2 says where to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from pixelgait.robot.controller import STAND, latent_for
from pixelgait.robot.ros.wire import common as ros
from pixelgait.robot.spec import Array

VELOCITY = "cmd_vel"


class VelocityCommands:
    """The latent command for the newest velocity; a stand if that is older than `timeout_s()`.

    Forward speed [m/s] and yaw rate [rad/s] within what the low level was trained for; it walks
    neither backwards nor sideways. Called in the control thread; `node` is spun by nobody.
    """

    def __init__(self, node: Any, stamped: bool, timeout_s: Callable[[], float]) -> None:
        self._clock, self._timeout_s = node.get_clock(), timeout_s
        self._type = TwistStamped if stamped else Twist
        self._subscription = node.create_subscription(
            self._type, VELOCITY, lambda _: None, ros.NEWEST_QOS
        )
        self._latent, self._given_s = STAND, -math.inf  # on the monotonic clock

    def __call__(self) -> Array:
        """The latent command (2,) of this control step."""
        with self._subscription.handle:
            taken = self._subscription.handle.take_message(self._type, False)
        now_s = time.monotonic()
        if taken is not None:
            self._keep(taken[0], now_s)
        return self._latent if now_s - self._given_s <= self._timeout_s() else STAND

    def _keep(self, message: Any, now_s: float) -> None:
        twist, self._given_s = message, now_s
        if self._type is TwistStamped:
            twist = message.twist
            age_ns = self._clock.now().nanoseconds - ros.nanoseconds(message.header.stamp)
            self._given_s -= max(0, age_ns) / 1e9
        speed, yaw_rate = twist.linear.x, twist.angular.z
        usable = math.isfinite(speed) and math.isfinite(yaw_rate)
        self._latent = latent_for(speed, yaw_rate) if usable else STAND
