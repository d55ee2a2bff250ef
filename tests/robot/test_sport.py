"""Sport mode of a Go2: what is requested, and how the simulated robot answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import Image, JointCommand, Posture, Reading, velocity_command
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.velocity import STILL
from pixelgait.robot.spec import GO2
from pixelgait.robot.unitree.address import Go2Sport
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree.remote import L2, STOP, B, Remote
from pixelgait.robot.unitree.services import SPORT
from pixelgait.robot.unitree.sport import (
    BALANCE_STAND,
    DAMP,
    MOVE,
    STAND_UP,
    STOP_MOVE,
    SportDriver,
    connected,
)
from pixelgait.sim.ros.go2 import Go2Wire
from pixelgait.sim.ros.sport_mode import SportMode
from tests.robot.test_unitree import DOMAIN

AHEAD = np.array((0.3, 0.0, 0.1))
WAIT_S = 20.0


def no_image() -> Image:
    raise AssertionError("no image is read")


def reading(angles: np.ndarray = GO2.default_pose_rad) -> Reading:
    level, still = np.array((0.0, 0.0, 0.0, 1.0)), np.zeros(12)
    pose = np.array((1.5, -0.5, 0.0))
    return Reading(0.0, angles, still, level, np.zeros(3), no_image, pose)


class Pair:
    """A driver and a simulated Go2 whose joints are at once where they are commanded to."""

    def __init__(self, bus: Bus) -> None:
        self.wire = Go2Wire(bus, GO2)
        self.driver = SportDriver(bus, time.time, Remote({}))
        self.angles = GO2.default_pose_rad
        self.asked: list[int] = []
        answer = self.wire._answer

        def noted(service: str, api: int, parameter: str) -> tuple[int, dict[str, object]]:
            if service == SPORT:
                self.asked.append(api)
            return answer(service, api, parameter)

        self.wire._answer = noted  # type: ignore[method-assign]

    def until(
        self,
        there: Callable[[JointCommand | None], bool],
        velocity: np.ndarray = STILL,
        posture: Posture = Posture.UP,
    ) -> None:
        """Command the driver and step the robot until its joints' command is as expected."""
        deadline, command = time.monotonic() + WAIT_S, None
        while not there(command):
            assert time.monotonic() < deadline
            for _ in range(25):  # physics steps between two checks for requests
                command = self.wire.command()
                if command is not None and command.kp.any():
                    self.angles = command.targets
            self.wire.publish(time.time_ns(), reading(self.angles), ())
            self.driver.take()
            if self.driver.received["lowstate"] and self.driver.received["sportmodestate"]:
                self.driver.send(velocity_command(0.0, velocity, posture))


@pytest.fixture
def pair() -> Iterator[Pair]:
    bus = Bus(Go2Sport("lo", DOMAIN))
    yield Pair(bus)
    bus.close()


def walks(command: JointCommand | None) -> bool:
    return command is not None and not np.allclose(command.targets, GO2.default_pose_rad)


def lying(command: JointCommand | None) -> bool:
    return command is not None and np.allclose(command.targets, lying_pose(GO2))


def damps(command: JointCommand | None) -> bool:
    return command is not None and not command.kp.any()


def test_a_go2_walks_lies_down_and_stands_up_as_requested(pair: Pair) -> None:
    pair.until(walks, AHEAD)
    assert pair.asked[:2] == [BALANCE_STAND, MOVE]
    read = pair.driver.read(no_image, None)
    assert read.joint_angles.size == 0
    np.testing.assert_allclose(read.odometry, (1.5, -0.5, 0.0))
    assert pair.driver.motion is not None
    assert (pair.driver.motion.x, pair.driver.motion.y) == (1.5, -0.5)
    pair.until(lying, posture=Posture.DOWN)
    assert STOP_MOVE in pair.asked
    pair.asked.clear()
    pair.until(lambda command: STAND_UP in pair.asked and command is None)
    assert pair.asked == [STAND_UP]  # while it stands, nothing more is sent
    pair.until(damps, posture=Posture.STOP)
    assert DAMP in pair.asked


def test_a_simulated_go2_is_locked_after_it_stood_up_until_it_balances() -> None:
    mode = SportMode(GO2)
    move = '{"x": 0.3, "y": 0.0, "z": 0.0}'
    assert [mode.answer(api, "") for api in (STAND_UP, 1006)] == [0, 3203]
    assert mode.answer(MOVE, move) == 0
    assert mode.command(reading()) is None
    assert mode.answer(BALANCE_STAND, "") == 0
    for wrong in ("", "[]", '{"x": 1.0}', '{"x": "a", "y": 0, "z": 0}'):
        assert mode.answer(MOVE, wrong) == 3204
    assert mode.answer(MOVE, move) == 0
    assert any(walks(mode.command(reading())) for _ in range(200))


def test_a_request_that_the_robot_refuses_is_named(pair: Pair) -> None:
    pair.until(lambda _: pair.driver.received["sportmodestate"] > 0)
    pair.wire._assign_motors("")  # released meanwhile
    refused = r"^sport: the robot refuses BalanceStand, code 3203"
    with pytest.raises(UserError, match=refused):
        pair.until(lambda _: False, AHEAD)


def test_a_released_robot_is_not_moved(pair: Pair) -> None:
    pair.driver.warnings()
    pair.wire._assign_motors("")
    pair.until(lambda _: pair.driver.received["lowstate"] > 3)
    assert pair.driver.received["sportmodestate"] == 0
    released = "its own program does not run: is it released?"
    assert pair.driver.warnings()["sportmodestate"] == released


def test_the_remote_stops_and_takes_over() -> None:
    operator = Operator(auto=True)
    operator.begin()
    driver = connected(Go2Sport("lo", DOMAIN), operator, time.time)
    try:
        operator.state = RobotState.WALKING
        driver._remote._steer()
        assert operator.commands.wanted is RobotState.READY
        driver._remote.update(bytes(2) + int(L2 | B).to_bytes(2, "little") + bytes(36))
        assert operator.commands.stop == "remote control"
        assert STOP == L2 | B
    finally:
        driver.close()
