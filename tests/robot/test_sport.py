"""Sport mode of a Go2: what is requested, and how the simulated robot answers."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand, Posture, Reading, velocity_command
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.velocity import STILL
from pixelgait.robot.spec import GO2
from pixelgait.robot.unitree.address import Go2Sport
from pixelgait.robot.unitree.dds import Bus
from pixelgait.robot.unitree.remote import L2, STOP, B, Remote
from pixelgait.robot.unitree.services import ANSWER_S, SPORT, STAND_DOWN
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
from tests.helpers import no_image
from tests.robot.test_unitree import DOMAIN

AHEAD = np.array((0.3, 0.0, 0.1))
WAIT_S = 20.0


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
    _, _, yy = pair.driver.motion.position_variance
    assert min(yy, pair.driver.motion.heading_variance, pair.driver.motion.velocity_variance) > 0.0
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
        driver._remote.update(bytes(4) + struct.pack("<f", 0.5) + bytes(32))  # to the right
        assert operator.commands.wanted is RobotState.READY
        driver._remote.update(bytes(2) + int(L2 | B).to_bytes(2, "little") + bytes(36))
        assert operator.commands.stop == "remote control"
        assert STOP == L2 | B
    finally:
        driver.close()


class Unanswered:
    """A bus on which nothing arrives, with its driver."""

    address = Go2Sport("lo", DOMAIN)

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.angles = GO2.default_pose_rad
        self.driver = SportDriver(self, time.time, Remote({}))  # type: ignore[arg-type]
        self.driver._motors = lambda _: self.angles  # type: ignore[method-assign]

    def writer(self, *_: object) -> Any:
        return SimpleNamespace(write=lambda record, **_: self.asked.append(int(record["api"])))

    def reader(self, *_: object) -> Any:
        return SimpleNamespace(take=lambda **_: [])

    def writers(self, _: object) -> list[str]:
        return ["app (process 7 on phone)"]

    def send(self, posture: Posture, velocity: np.ndarray = STILL) -> None:
        self.driver.send(velocity_command(0.0, velocity, posture))


@pytest.fixture
def unanswered() -> Unanswered:
    return Unanswered()


def test_a_velocity_that_ends_at_once_leaves_requests_in_place(unanswered: Unanswered) -> None:
    for velocity in (AHEAD, STILL, AHEAD):
        unanswered.send(Posture.UP, velocity)
    unanswered.driver._answered(0)
    unanswered.send(Posture.UP, AHEAD)
    assert unanswered.asked == [BALANCE_STAND, MOVE]
    unanswered.send(Posture.UP)
    assert unanswered.asked[2:] == [STOP_MOVE]


def test_a_robot_that_was_told_down_is_told_to_stand_up_while_it_still_stands(
    unanswered: Unanswered,
) -> None:
    for posture in (Posture.DOWN, Posture.UP):
        unanswered.send(posture)
    assert unanswered.asked == [STAND_DOWN, STAND_UP]
    unanswered.driver._answered(0)
    for posture in (Posture.IDLE, Posture.UP):
        unanswered.send(posture)
    assert STAND_UP not in unanswered.asked[2:]


def test_a_robot_that_lies_long_after_it_agreed_to_stand_up_is_a_fault(
    unanswered: Unanswered,
) -> None:
    unanswered.angles = lying_pose(GO2)
    unanswered.send(Posture.UP)
    unanswered.driver._answered(0)
    unanswered.send(Posture.UP)
    assert unanswered.driver._rises_s is not None
    unanswered.driver._rises_s -= ANSWER_S
    with pytest.raises(UserError, match=r"^sport: the robot lies 10 s after StandUp$"):
        unanswered.send(Posture.UP)


def test_a_new_activation_forgets_an_unanswered_request(unanswered: Unanswered) -> None:
    unanswered.send(Posture.UP, AHEAD)
    unanswered.driver._first_s -= 2.0 * ANSWER_S
    unanswered.driver._asked_s -= 2.0 * ANSWER_S
    unanswered.driver.acquire(Event())
    for posture in (Posture.IDLE, Posture.UP):
        unanswered.send(posture)
    assert unanswered.asked == [BALANCE_STAND]


@pytest.mark.parametrize("api", [DAMP, STOP_MOVE, STAND_DOWN, MOVE])
def test_another_program_that_moves_or_stops_the_robot_is_named(
    unanswered: Unanswered, api: int
) -> None:
    driver = unanswered.driver
    request = SimpleNamespace(record={"api": api})
    driver._others = SimpleNamespace(take=lambda **_: [request])  # type: ignore[assignment]
    driver.take()
    unanswered.send(Posture.UP, AHEAD)
    assert not unanswered.asked
    conflict = driver.conflicting_publisher(commanding=True)
    where = "rt/api/sport/request: app (process 7 on phone)"
    assert conflict == f"another program moves or stops the robot by {where}"
    assert driver.conflicting_publisher(commanding=False) is None
