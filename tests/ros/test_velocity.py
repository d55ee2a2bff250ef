"""Velocity commands: from `cmd_vel` to the low level, without ROS communication."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from pixelgait.robot.control.controller import STAND, commanded
from tests.ros.test_goals import Wire

LONG_S = 60.0


class Joystick:
    """Sends velocities to a node's `VelocityCommands`."""

    def __init__(self, stamped: bool) -> None:
        from pixelgait.robot.ros.commands.cmd_vel import VelocityCommands

        self.wire, self.stamped = Wire(), stamped
        self.commands = VelocityCommands(self, stamped, lambda: LONG_S)

    # The part of a node that `VelocityCommands` uses.
    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=10**18))

    def create_subscription(self, *_: object, **__: object) -> Wire:
        return self.wire

    def tell(self, speed: float, yaw_rate: float) -> None:
        """Other components have values that must be ignored."""
        from geometry_msgs.msg import Twist, TwistStamped

        twist = Twist()
        twist.linear.x, twist.linear.y, twist.linear.z = speed, 0.11, 0.12
        twist.angular.x, twist.angular.y, twist.angular.z = 0.13, 0.14, yaw_rate
        self.wire.waiting.append(TwistStamped(twist=twist) if self.stamped else twist)
        self.commands.take()


@pytest.fixture(params=[False, True], ids=["Twist", "TwistStamped"])
def joystick(request: pytest.FixtureRequest) -> Joystick:
    return Joystick(request.param)


@pytest.mark.parametrize(
    ("told", "followed"),
    [
        ((0.3, 0.5), (0.3, 0.5)),
        ((0.3, -0.5), (0.3, -0.5)),  # to the right
        ((5.0, 9.0), (0.6, 1.0)),  # what the low level was trained for
        ((5.0, -9.0), (0.6, -1.0)),
        ((0.0, 0.2), (0.0, 0.2)),  # a turn on the spot
        ((-0.2, 0.5), (0.0, 0.5)),
    ],
)
def test_a_velocity_is_clipped_to_the_low_levels_range(
    joystick: Joystick, told: tuple[float, float], followed: tuple[float, float]
) -> None:
    joystick.tell(*told)
    assert commanded(joystick.commands()) == pytest.approx(followed)
    assert joystick.commands.status() == (True, "follows the newest command")


def test_a_backward_velocity_is_a_stand(joystick: Joystick) -> None:
    joystick.tell(0.3, 0.5)
    joystick.tell(-0.2, 0.0)
    assert joystick.commands().tolist() == STAND.tolist()
    assert joystick.commands.status()[0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("turning", [False, True])
def test_a_non_finite_velocity_is_a_stand_until_the_next(
    joystick: Joystick, turning: bool, bad: float
) -> None:
    joystick.tell(0.3, 0.5)
    joystick.tell(*((0.3, bad) if turning else (bad, 0.5)))
    assert joystick.commands().tolist() == STAND.tolist()
    assert joystick.commands.status() == (False, "not finite: the robot stands")
    joystick.tell(0.2, -0.1)
    assert commanded(joystick.commands()) == pytest.approx((0.2, -0.1))
    assert joystick.commands.status()[0]
