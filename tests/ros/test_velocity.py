"""Velocity commands: from `cmd_vel` to the low level, without ROS communication."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from pixelgait.robot.control.controller import GAIT_COMMAND, STAND, commanded, velocity
from pixelgait.robot.spec import Ranges
from tests.ros.test_goals import Wire

LONG_S = 60.0


class Joystick:
    """Sends velocities to a node's `VelocityCommands`."""

    def __init__(self, stamped: bool, ranges: Ranges = GAIT_COMMAND) -> None:
        from pixelgait.robot.ros.commands.cmd_vel import VelocityCommands

        self.wire, self.stamped = Wire(), stamped
        self.commands = VelocityCommands(self, stamped, lambda: LONG_S, ranges)

    # The part of a node that `VelocityCommands` uses.
    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=10**18))

    def create_subscription(self, *_: object, **__: object) -> Wire:
        return self.wire

    def tell(
        self,
        speed: float,
        yaw_rate: float,
        others: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
    ) -> None:
        """`others` are linear y, z and angular x, y."""
        from geometry_msgs.msg import Twist, TwistStamped

        twist = Twist()
        twist.linear.x, twist.angular.z = speed, yaw_rate
        twist.linear.y, twist.linear.z, twist.angular.x, twist.angular.y = others
        self.wire.waiting.append(TwistStamped(twist=twist) if self.stamped else twist)
        self.commands.take()


@pytest.fixture(params=[False, True], ids=["Twist", "TwistStamped"])
def joystick(request: pytest.FixtureRequest) -> Joystick:
    return Joystick(request.param)


FOLLOWS = "follows the newest command"


@pytest.mark.parametrize(
    ("told", "followed"),
    [
        ((0.3, 0.5), (0.3, 0.5)),
        ((0.3, -0.5), (0.3, -0.5)),  # to the right
        ((0.0, 0.2), (0.0, 0.2)),  # a turn on the spot
        ((0.05, 0.0), (0.05, 0.0)),  # slow
        ((0.6, 1.0), (0.6, 1.0)),  # what the low level was trained for
        ((0.3, 0.0, (0.005, 0.0, 0.0, -0.005)), (0.3, 0.0)),  # a joystick's noise
    ],
)
def test_a_velocity_within_the_low_levels_range_is_followed(
    joystick: Joystick, told: tuple[Any, ...], followed: tuple[float, float]
) -> None:
    joystick.tell(*told)
    assert commanded(joystick.commands()) == pytest.approx(followed)
    assert joystick.commands.status() == (True, FOLLOWS)


@pytest.mark.parametrize(
    ("told", "followed", "ignored"),
    [
        ((3.0, 0.0), (0.6, 0.0), "linear.x beyond 0.6, it is 3.00"),
        ((0.0, -9.0), (0.0, -1.0), "angular.z beyond 1.0, it is 9.00"),
        ((-0.2, 0.0), (0.0, 0.0), "linear.x -0.20 (it does not walk backwards)"),
        ((-0.2, 0.5), (0.0, 0.5), "linear.x -0.20 (it does not walk backwards)"),
        (
            (0.3, 0.0, (0.3, 0.0, 0.0, 0.0)),
            (0.3, 0.0),
            "linear.y 0.30 (it does not walk sideways)",
        ),
        (
            (0.0, 0.0, (math.nan, 0.12, 0.13, 0.14)),
            (0.0, 0.0),
            "linear.y nan (it does not walk sideways), linear.z 0.12 (it stays on the ground), "
            "angular.x 0.13 (it does not roll), angular.y 0.14 (it does not pitch)",
        ),
    ],
)
def test_what_is_not_obeyed_of_a_velocity_is_named(
    joystick: Joystick, told: tuple[Any, ...], followed: tuple[float, float], ignored: str
) -> None:
    joystick.tell(*told)
    assert commanded(joystick.commands()) == pytest.approx(followed)
    assert joystick.commands.status() == (False, f"{FOLLOWS}, but not {ignored}")
    joystick.tell(0.3, 0.0)
    assert joystick.commands.status() == (True, FOLLOWS)


def test_a_walker_follows_three_axes_within_its_ranges() -> None:
    joystick = Joystick(stamped=False, ranges=((-1.0, 1.5), (-0.4, 0.4), (-1.0, 1.0)))
    joystick.tell(-0.8, 0.5, (0.3, 0.0, 0.0, 0.0))
    assert velocity(joystick.commands()) == pytest.approx((-0.8, 0.3, 0.5))
    assert joystick.commands.status() == (True, FOLLOWS)
    joystick.tell(1.4, 0.0, (-0.9, 0.0, 0.0, 0.0))
    assert velocity(joystick.commands()) == pytest.approx((1.4, -0.4, 0.0))
    said = f"{FOLLOWS}, but not linear.y beyond 0.4, it is 0.90"
    assert joystick.commands.status() == (False, said)


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


def test_a_released_dead_man_button_is_a_stand_at_once(joystick: Joystick) -> None:
    """teleop_twist_joy then sends one zero, and nothing until it is pressed again."""
    joystick.tell(0.6, 1.0)
    joystick.tell(0.0, 0.0)
    assert joystick.commands().tolist() == STAND.tolist()
    assert joystick.commands.status() == (True, FOLLOWS)
    joystick.tell(0.3, 0.0)
    assert commanded(joystick.commands()) == pytest.approx((0.3, 0.0))
