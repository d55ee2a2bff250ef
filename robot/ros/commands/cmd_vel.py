"""`cmd_vel` instead of a policy's high level: a joystick or Nav2 says where to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from pixelgait.robot.control.low_level import STAND, latent_for
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.spec import Array

VELOCITY = "cmd_vel"


class VelocityCommands:
    """The latent command for the newest velocity; a stand if that is older than `timeout_s()`.

    Forward speed [m/s] and yaw rate [rad/s] within what the low level was trained for; it walks
    neither backwards nor sideways. Called in the control thread; `node` is spun by nobody. Who does
    not stamp a TwistStamped is believed to speak of now, as in ros2_controllers.
    """

    def __init__(self, node: Any, stamped: bool, timeout_s: Callable[[], float]) -> None:
        self._node, self._clock, self._timeout_s = node, node.get_clock(), timeout_s
        self._type = TwistStamped if stamped else Twist
        self._subscription = ros2.subscribe(node, self._type, VELOCITY)
        self.forget()

    def forget(self) -> None:
        """Treat what was taken so far as never sent."""
        self._latent, self._given_s = STAND, -math.inf  # on the monotonic clock
        self._usable = True

    def take(self) -> None:
        """Hear what has arrived: its age counts from here, so this is called all the time."""
        if (message := ros2.take(self._subscription)) is not None:
            self._keep(message, time.monotonic())

    def __call__(self) -> Array:
        """The latent command (2,) of this control step."""
        age_s = time.monotonic() - self._given_s
        return self._latent if age_s <= self._timeout_s() else STAND

    def _keep(self, message: Any, now_s: float) -> None:
        twist, self._given_s = message, now_s
        if self._type is TwistStamped:
            twist = message.twist
            stamp_ns = ros2.nanoseconds(message.header.stamp)
            age_ns = self._clock.now().nanoseconds - stamp_ns if stamp_ns else 0
            self._given_s -= max(0, age_ns) / 1e9
        speed, yaw_rate = twist.linear.x, twist.angular.z
        self._usable = math.isfinite(speed) and math.isfinite(yaw_rate)
        self._latent = latent_for(speed, yaw_rate) if self._usable else STAND

    def status(self) -> tuple[bool, str]:
        """Whether somebody says where to, and what there is to say of it, for diagnostics."""
        age_s = time.monotonic() - self._given_s
        if not self._usable:
            return False, "not finite: the robot stands"
        if age_s <= self._timeout_s():
            return True, "obeys the newest"
        kinds = {each.topic_type for each in self._node.get_publishers_info_by_topic(VELOCITY)}
        wanted = f"geometry_msgs/msg/{self._type.__name__}"
        if kinds and wanted not in kinds:
            return False, f"is of {', '.join(sorted(kinds))}, not {wanted}: the robot stands"
        if math.isinf(age_s):
            return False, "nobody sends: the robot stands"
        return False, f"{age_s:.1f} s old: the robot stands"
