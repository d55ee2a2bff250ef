"""Battery and motor temperatures: a robot that lies down, or does not stand up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pixelgait.robot.runtime.power import LASTING_S, PowerState, PowerWatch
from pixelgait.robot.runtime.state_machine import Operator, RobotState


class Robot:
    """A robot whose power is checked every 0.1 s."""

    def __init__(self, charge_percent: float = 80.0, motor_deg_c: float = 30.0) -> None:
        self.power: PowerState | None = None
        self.set(charge_percent, motor_deg_c)
        self.operator, self.checked, self.now_s = Operator(), True, 0.0
        self.silent = False  # reports once, and not again
        self.watch = PowerWatch(self.operator, lambda: self.power, lambda: self.checked)

    def set(self, charge_percent: float, motor_deg_c: float) -> None:
        self.power = PowerState(charge_percent, 28.0, "FL_calf_joint", motor_deg_c)

    def walks(self) -> None:
        self.operator.state = RobotState.LIMP
        assert self.operator.arm()[0]
        assert self.operator.stand_up()[0]
        self.operator.state = RobotState.READY
        assert self.operator.walk()[0]
        self.operator.state = RobotState.WALKING
        self.operator.go_to((1.0, 2.0))

    def run(self, seconds: float) -> str | None:
        for _ in range(round(seconds / 0.1)):
            self.now_s += 0.1
            self.power = replace(self.power) if self.power and not self.silent else self.power
            self.watch.check(self.now_s)
        return self.watch.unfit


@pytest.mark.parametrize(
    ("charge", "heat", "reason"),
    [
        (2.0, 30.0, "battery at 2 %: the robot must not stand"),
        (80.0, 91.0, "FL_calf_joint has 91 deg C: the robot must not stand"),
        (2.0, 91.0, "battery at 2 %, FL_calf_joint has 91 deg C: the robot must not stand"),
    ],
)
def test_an_empty_battery_or_a_hot_motor_keeps_the_robot_down(
    charge: float, heat: float, reason: str
) -> None:
    robot = Robot(charge, heat)
    robot.operator.state = RobotState.LIMP
    assert robot.run(0.1) == reason
    assert robot.operator.arm()[0]
    assert robot.operator.stand_up() == (False, reason)
    robot.checked = False  # as a parameter says
    robot.run(0.1)
    assert robot.operator.stand_up()[0]


@pytest.mark.parametrize(("charge", "heat"), [(4.0, 30.0), (80.0, 90.0)])
def test_a_walking_robot_lies_down_once_that_lasts(charge: float, heat: float) -> None:
    robot = Robot(9.0, 85.0)  # it would not be allowed to stand up with these
    robot.checked = False
    robot.walks()
    robot.checked = True
    assert robot.run(5.0) is None
    robot.set(charge, heat)
    assert robot.run(LASTING_S - 0.2) is None
    robot.set(80.0, 30.0)  # a single wrong value
    robot.run(0.1)
    robot.set(charge, heat)
    assert robot.run(LASTING_S - 0.2) is None
    assert robot.run(0.4) is not None
    commands = robot.operator.commands
    assert (commands.wanted, commands.goal_position) == (RobotState.LIMP, None)
    assert commands.because == robot.watch.unfit


def test_a_lone_value_of_a_battery_that_reports_rarely_may_be_wrong() -> None:
    robot = Robot()
    robot.walks()
    robot.run(1.0)
    robot.silent = True
    robot.set(0.0, 30.0)
    assert robot.run(5.0) is None
    robot.set(80.0, 30.0)
    assert robot.run(5.0) is None
    robot.set(4.0, 30.0)
    assert robot.run(5.0) is None
    robot.set(3.0, 30.0)
    assert robot.run(0.1) is not None
    robot.set(80.0, 30.0)
    assert robot.run(0.1) is None
    robot.walks()
    robot.set(3.0, 30.0)
    assert robot.run(10.0 - 0.2) is None
    assert robot.run(0.4) is not None


def test_a_robot_that_reports_nothing_may_stand() -> None:
    robot = Robot()
    robot.power = None
    assert robot.run(0.1) is None
    robot.power = PowerState()
    assert robot.run(0.1) is None
    assert robot.watch.warning() is None


def test_a_low_battery_and_a_warm_motor_are_warnings() -> None:
    robot = Robot(19.0, 75.0)
    assert robot.run(0.1) is None
    assert robot.watch.warning() == "battery at 19 %, FL_calf_joint has 75 deg C"
    robot.set(20.0, 69.0)
    robot.run(0.1)
    assert robot.watch.warning() is None
