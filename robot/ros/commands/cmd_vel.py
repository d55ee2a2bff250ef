"""Velocity commands from `cmd_vel`, which replace the policy's high level (joystick, Nav2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped

from pixelgait.robot.control.controller import (
    MAX_SPEED_M_PER_S,
    MAX_YAW_RATE_RAD_PER_S,
    STAND,
    latent_for,
)
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.spec import Array

VELOCITY = "cmd_vel"
NOTHING = 0.01  # m/s, rad/s: no more than a joystick's noise at rest; assumption


class VelocityCommands:
    """The latent command of the newest velocity command; STAND after `timeout_s()`.

    Forward speed [m/s] and yaw rate [rad/s] are clipped to the low level's range; `status` names
    what is not obeyed. Called in the control thread; `node` has no executor. A TwistStamped
    without a stamp counts as current, as in ros2_controllers.
    """

    def __init__(self, node: Any, stamped: bool, timeout_s: Callable[[], float]) -> None:
        self._node, self._clock, self._timeout_s = node, node.get_clock(), timeout_s
        self._type = TwistStamped if stamped else Twist
        self._subscription = ros2.subscribe(node, self._type, VELOCITY)
        self.forget()

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self._latent, self._received_s = STAND, -math.inf  # monotonic
        self._usable, self._ignored = True, ""

    def take(self) -> None:
        """Process the newest message; its age counts from here, so call this in every step."""
        if (message := ros2.take(self._subscription)) is not None:
            self._keep(message, time.monotonic())

    def __call__(self) -> Array:
        """Latent command (2,) for this control step."""
        age_s = time.monotonic() - self._received_s
        return self._latent if age_s <= self._timeout_s() else STAND

    def _keep(self, message: Any, now_s: float) -> None:
        twist, self._received_s = message, now_s
        if self._type is TwistStamped:
            twist = message.twist
            stamp_ns = ros2.nanoseconds(message.header.stamp)
            age_ns = self._clock.now().nanoseconds - stamp_ns if stamp_ns else 0
            self._received_s -= max(0, age_ns) / 1e9
        speed, yaw_rate = twist.linear.x, twist.angular.z
        self._usable = math.isfinite(speed) and math.isfinite(yaw_rate)
        self._latent = latent_for(speed, yaw_rate) if self._usable else STAND
        self._ignored = ", ".join(ignored(twist))

    def status(self) -> tuple[bool, str]:
        """For the diagnostics: whether a velocity command is followed, and a description."""
        age_s = time.monotonic() - self._received_s
        if not self._usable:
            return False, "not finite: the robot stands"
        if age_s <= self._timeout_s():
            if self._ignored:
                return False, f"follows the newest command, but not {self._ignored}"
            return True, "follows the newest command"
        kinds = {each.topic_type for each in self._node.get_publishers_info_by_topic(VELOCITY)}
        wanted = f"geometry_msgs/msg/{self._type.__name__}"
        if kinds and wanted not in kinds:
            return False, f"is of {', '.join(sorted(kinds))}, not {wanted}: the robot stands"
        if math.isinf(age_s):
            return False, "no messages: the robot stands"
        return False, f"{age_s:.1f} s old: the robot stands"


def ignored(twist: Any) -> list[str]:
    """The parts of a Twist that are not obeyed, each with its value and why."""
    linear, angular = twist.linear, twist.angular
    found = [
        f"{name} {value:.2f} ({why})"
        for name, value, why in (
            ("linear.y", linear.y, "it does not walk sideways"),
            ("linear.z", linear.z, "it stays on the ground"),
            ("angular.x", angular.x, "it does not roll"),
            ("angular.y", angular.y, "it does not pitch"),
        )
        if not abs(value) <= NOTHING  # true for a nan
    ]
    if linear.x < -NOTHING:
        found.append(f"linear.x {linear.x:.2f} (it does not walk backwards)")
    for name, value, most in (
        ("linear.x", linear.x, MAX_SPEED_M_PER_S),
        ("angular.z", abs(angular.z), MAX_YAW_RATE_RAD_PER_S),
    ):
        if value > most + NOTHING:
            found.append(f"{name} beyond {most:.1f}, it is {value:.2f}")
    return found
