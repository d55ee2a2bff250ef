"""Velocity commands from `cmd_vel`, which replace the policy's high level (joystick, Nav2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import Twist, TwistStamped

from pixelgait.robot.control.controller import STAND, latent_within
from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.topic_names import VELOCITY
from pixelgait.robot.spec import Array, Ranges

NOTHING = 0.01  # m/s, rad/s: no more than a joystick's noise at rest; assumption
# Parts of a Twist that a walker may follow: why it does not follow a negative, a positive value.
FOLLOWED = (
    ("linear.x", "it does not walk backwards", "it does not walk forwards"),
    ("linear.y", "it does not walk sideways", "it does not walk sideways"),
    ("angular.z", "it does not turn right", "it does not turn left"),
)
NEVER = (
    ("linear.z", "it stays on the ground"),
    ("angular.x", "it does not roll"),
    ("angular.y", "it does not pitch"),
)


class VelocityCommands:
    """The latent command of the newest velocity command; STAND after `timeout_s()`.

    Speeds ahead and to the left [m/s] and yaw rate [rad/s] are clipped to the `ranges` of the low
    level; `status` names what is not followed. Called in the control thread; `node` has no
    executor.
    A TwistStamped without a stamp counts as current, as in ros2_controllers.
    """

    def __init__(
        self, node: Any, stamped: bool, timeout_s: Callable[[], float], ranges: Ranges
    ) -> None:
        self._ranges = ranges
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
        """Latent command for this control step."""
        age_s = time.monotonic() - self._received_s
        return self._latent if age_s <= self._timeout_s() else STAND

    def _keep(self, message: Any, now_s: float) -> None:
        twist, self._received_s = message, now_s
        if self._type is TwistStamped:
            twist = message.twist
            stamp_ns = ros2.nanoseconds(message.header.stamp)
            age_ns = self._clock.now().nanoseconds - stamp_ns if stamp_ns else 0
            self._received_s -= max(0, age_ns) / 1e9
        velocity = np.where(np.any(self._ranges, axis=1), velocity_of(twist), 0.0)
        self._usable = bool(np.isfinite(velocity).all())
        self._latent = latent_within(self._ranges, velocity) if self._usable else STAND
        self._ignored = ", ".join(ignored(twist, self._ranges))

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


def velocity_of(twist: Any) -> Array:
    """Speeds ahead and to the left [m/s] and yaw rate [rad/s] (3,) of a Twist."""
    return np.array((twist.linear.x, twist.linear.y, twist.angular.z))


def ignored(twist: Any, ranges: Ranges) -> list[str]:
    """The parts of a Twist that are not followed, each with its value and why."""
    found = []
    for (name, *reasons), value, (least, most) in zip(
        FOLLOWED, velocity_of(twist).tolist(), ranges, strict=True
    ):
        limit, why = (most, reasons[1]) if value > 0.0 else (least, reasons[0])
        if limit == 0.0 and not abs(value) <= NOTHING:  # true for a nan
            found.append(f"{name} {value:.2f} ({why})")
        elif abs(value) > abs(limit) + NOTHING:
            found.append(f"{name} beyond {abs(limit):.1f}, it is {abs(value):.2f}")
    others = twist.linear.z, twist.angular.x, twist.angular.y
    return found + [
        f"{name} {value:.2f} ({why})"
        for (name, why), value in zip(NEVER, others, strict=True)
        if not abs(value) <= NOTHING
    ]
