"""A Go2's driver on a DDS of our own, which fails when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cyclonedds.core import DDSException

from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.spec import GO2
from pixelgait.robot.unitree import driver as driver_module
from pixelgait.robot.unitree.driver import Go2Driver
from pixelgait.robot.unitree.remote import Remote

STIFF = JointCommand(0.0, GO2.default_pose_rad, GO2.kp_nm_per_rad, GO2.kd_nms_per_rad, np.zeros(12))
SAID = r"a command on rt/lowcmd could not be sent: \[DDS_RETCODE_TIMEOUT\] A timeout has .*again"


class FakeBus:
    """Hears commands, and fails to send the next `fails`, of all threads or of the repeating."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, bool]] = []  # monotonic [s], stiff
        self.fails = 0
        self.repeated_alone = False
        self.ended: list[str] = []  # what was done to leave

    def reader(self, *_: Any) -> None: ...

    def writer(self, *_: Any) -> FakeBus:
        return self

    def write(self, sample: Any) -> None:
        repeated = threading.current_thread().name == "lowcmd"
        if self.fails and (repeated or not self.repeated_alone):
            self.fails -= 1
            raise DDSException(DDSException.DDS_RETCODE_TIMEOUT, "again\nand again")
        self.sent.append((time.monotonic(), bool(sample.record["motor_cmd"]["kp"].any())))

    def close(self) -> None:
        self.ended.append("bus closed")


class FakeSwitcher:
    """Lets go of the motors at once."""

    def __init__(self, bus: FakeBus) -> None:
        self._bus = bus

    def release(self) -> None: ...

    def give_back(self) -> None:
        self._bus.ended.append("motors given back")


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


@pytest.fixture
def driver(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> Go2Driver:
    """It has the motors, and no states come."""
    monkeypatch.setattr(driver_module, "MotionSwitcher", FakeSwitcher)
    monkeypatch.setattr(driver_module, "DISCOVERY_S", 0.0)
    monkeypatch.setattr(driver_module, "newest", lambda _: None)
    driver = Go2Driver(bus, GO2, time.time, Remote({}))  # type: ignore[arg-type]
    driver.acquire()
    return driver


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_what_cannot_be_repeated_is_raised_once_and_damped(bus: FakeBus, driver: Go2Driver) -> None:
    """Though nobody commands any more, as when the control thread hangs."""
    bus.repeated_alone = True
    driver.send(STIFF)
    driver.take()
    bus.fails = 3
    wait_for(lambda: not bus.fails)
    failed_s = time.monotonic()
    wait_for(lambda: bus.sent[-1][0] > failed_s + driver_module.HOLD_S)
    assert not bus.sent[-1][1]  # it damps by now
    with pytest.raises(UserError, match=SAID) as told:
        driver.take()
    assert "\n" not in str(told.value)
    driver.take()
    driver.close()
    assert bus.ended == ["motors given back", "bus closed"]


def test_a_command_that_cannot_be_sent_is_repeated(bus: FakeBus, driver: Go2Driver) -> None:
    """It is a fault; the damping that follows it gets through as soon as anything does."""
    driver.send(STIFF)
    bus.fails = 10**6
    with pytest.raises(UserError, match=SAID):
        driver.send(STIFF)
    damp = JointCommand(0.0, STIFF.targets, np.zeros(12), STIFF.kd, np.zeros(12))
    with pytest.raises(UserError, match=SAID):
        driver.send(damp)
    heard = len(bus.sent)
    bus.fails = 0
    wait_for(lambda: len(bus.sent) > heard)
    assert not any(stiff for _, stiff in bus.sent[heard:])
    driver.close()


def test_motors_are_given_back_though_damping_fails(bus: FakeBus, driver: Go2Driver) -> None:
    driver.send(STIFF)
    bus.fails = 10**6
    with pytest.raises(UserError, match=SAID):
        driver.close()
    assert bus.ended == ["motors given back", "bus closed"]


def test_the_bus_is_closed_though_nobody_takes_the_motors(
    bus: FakeBus, driver: Go2Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: FakeSwitcher) -> None:
        raise UserError("motion_switcher: no answer to call 1002 for 2 s")

    monkeypatch.setattr(FakeSwitcher, "give_back", refuse)
    with pytest.raises(UserError, match="motion_switcher"):
        driver.close()
    assert bus.ended == ["bus closed"]


def test_what_failed_before_the_motors_were_taken_again_is_no_fault(
    bus: FakeBus, driver: Go2Driver
) -> None:
    driver.send(STIFF)
    bus.fails = 1
    wait_for(lambda: not bus.fails)
    driver.acquire()
    driver.take()
    driver.close()
