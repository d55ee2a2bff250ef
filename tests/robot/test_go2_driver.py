"""The Go2 driver on a fake DDS with errors on demand."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cyclonedds.core import DDSException

from pixelgait.robot.control.gait import lying_pose
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import JointCommand
from pixelgait.robot.safety.supervisor import SENSOR_TIMEOUTS
from pixelgait.robot.spec import GO2
from pixelgait.robot.unitree import driver as driver_module
from pixelgait.robot.unitree import messages as go2
from pixelgait.robot.unitree import sender, services
from pixelgait.robot.unitree.address import Go2
from pixelgait.robot.unitree.dds import Sample
from pixelgait.robot.unitree.driver import Go2Driver
from pixelgait.robot.unitree.remote import Remote
from pixelgait.robot.unitree.services import MotorHandover
from tests.conftest import wait_for

STIFF = JointCommand(0.0, GO2.default_pose_rad, GO2.kp_nm_per_rad, GO2.kd_nms_per_rad, np.zeros(12))
SAID = r"a command on rt/lowcmd could not be sent: \[DDS_RETCODE_TIMEOUT\] A timeout has .*again"


ROBOT, SIMULATOR = Go2("eth0", 0), Go2("lo", 1)


class FakeBus:
    """Receives commands; the next `fails` writes fail, of all threads or of the repeating one."""

    def __init__(self, address: Go2 = ROBOT) -> None:
        self.address = address
        self.sent: list[tuple[float, bool]] = []  # monotonic [s], stiff
        self.fails = 0
        self.repeated_alone = False
        self.ended: list[str] = []  # what was done to leave
        self.others: list[str] = []  # other writers of commands

    def reader(self, *_: Any) -> None: ...

    def writer(self, *_: Any) -> FakeBus:
        return self

    def writers(self, _: Any) -> list[str]:
        return self.others

    def write(self, record: Any) -> None:
        repeated = threading.current_thread().name == "lowcmd"
        if self.fails and (repeated or not self.repeated_alone):
            self.fails -= 1
            raise DDSException(DDSException.DDS_RETCODE_TIMEOUT, "again\nand again")
        self.sent.append((time.monotonic(), bool(record["motor_cmd"]["kp"].any())))

    def close(self) -> None:
        self.ended.append("bus closed")


class FakeSwitcher:
    """A motion switcher whose programs are released."""

    def __init__(self, bus: FakeBus) -> None:
        self._bus = bus

    def mode(self, stop: threading.Event) -> str:
        return ""

    def give_back(self) -> None:
        self._bus.ended.append("motors given back")


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


@pytest.fixture
def driver(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> Go2Driver:
    """A driver that has the motors and receives no states."""
    monkeypatch.setattr(services, "MotionSwitcher", FakeSwitcher)
    monkeypatch.setattr(driver_module, "DISCOVERY_S", 0.0)
    monkeypatch.setattr(driver_module, "arrived", lambda _: [])
    driver = Go2Driver(bus, GO2, time.time, Remote({}))  # type: ignore[arg-type]
    driver.take_motors(threading.Event())
    return driver


def answer(request: Any, code: int, data: str) -> Sample:
    record = services.RESPONSE.new()
    record["id"], record["api"], record["code"] = request["id"], request["api"], code
    return Sample(record, {"data": data}, 0.0)


class AnsweringBus:
    """A service that accepts every request and answers `data`."""

    address = ROBOT

    def __init__(self, data: str) -> None:
        self.data = data
        self.asked: list[Any] = []

    def writer(self, *_: Any) -> AnsweringBus:
        return self

    def write(self, request: Any, **_: str) -> None:
        self.asked.append(request)

    def reader(self, *_: Any) -> AnsweringBus:
        return self

    def take(self, **_: Any) -> list[Any]:
        asked, self.asked = self.asked, []
        return [answer(request, 0, self.data) for request in asked]


@pytest.mark.parametrize("data", ["", "ok", "null", "7", "[]", '"ai"'])
def test_data_of_a_positive_answer_are_ignored(data: str) -> None:
    """Except for the program in charge: invalid data must not mean none."""
    switcher = services.MotionSwitcher(AnsweringBus(data))  # type: ignore[arg-type]
    switcher.released = "ai"
    switcher.give_back()
    with pytest.raises(UserError, match="motion_switcher: call 1001 failed, "):
        switcher.mode()


def test_an_error_of_repeating_is_raised_once_and_damps(bus: FakeBus, driver: Go2Driver) -> None:
    """Without new commands, as when the control thread hangs."""
    bus.repeated_alone = True
    driver.send(STIFF)
    driver.take()
    bus.fails = 3
    wait_for(lambda: not bus.fails)
    failed_s = time.monotonic()
    wait_for(lambda: bus.sent[-1][0] > failed_s + sender.HOLD_S)
    assert not bus.sent[-1][1]  # it damps by now
    with pytest.raises(UserError, match=SAID) as told:
        driver.take()
    assert "\n" not in str(told.value)
    driver.take()
    driver.close()
    assert bus.ended == ["motors given back", "bus closed"]


def test_a_command_that_cannot_be_sent_is_repeated(bus: FakeBus, driver: Go2Driver) -> None:
    """A fault; the following damping is sent as soon as writing works again."""
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


def test_the_bus_is_closed_if_no_program_takes_the_motors(
    bus: FakeBus, driver: Go2Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: FakeSwitcher) -> None:
        raise UserError("motion_switcher: no answer to call 1002 for 2 s")

    monkeypatch.setattr(FakeSwitcher, "give_back", refuse)
    with pytest.raises(UserError, match="motion_switcher"):
        driver.close()
    assert bus.ended == ["bus closed"]


def test_an_error_before_the_motors_are_taken_again_is_no_fault(
    bus: FakeBus, driver: Go2Driver
) -> None:
    driver.send(STIFF)
    bus.fails = 1
    wait_for(lambda: not bus.fails)
    driver.acquire(threading.Event())
    driver.forget()
    driver.take()
    driver.take_motors(threading.Event())
    driver.close()


class HeardRobot:
    """A Go2 driver that receives a state every 10 ms, on fake clocks [s since the start]."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, rate: float = 1.0, address: Go2 = ROBOT
    ) -> None:
        self.counts, self.signs = True, True  # ticks, checksums
        self.simulated_s = 1.0  # a second
        self.true_s = self.delay_s = 0.0
        self.set_s = 1.7e9  # of the wall clock, whose `rate` the monotonic clock shares
        self.rate = rate
        self.stopped_s = 0.0  # so long the robot's own clock stood still
        self.oldest_s = 0.0  # the greatest age that there was
        self._state = go2.LOW_STATE.new()
        monkeypatch.setattr(driver_module, "arrived", lambda _: [self._state])
        fake = SimpleNamespace(monotonic=lambda: 900.0 + self.rate * self.true_s)
        monkeypatch.setattr(driver_module, "time", fake)
        raw_s = lambda: 800.0 + self.true_s  # noqa: E731
        now_s = lambda: self.set_s + self.rate * self.true_s  # noqa: E731
        bus: Any = FakeBus(address)
        self.driver = Go2Driver(bus, GO2, now_s, Remote({}), raw_s)

    def run(self, seconds: float) -> None:
        for _ in range(round(100 * seconds)):
            self.true_s += 0.01
            measured_s = self.true_s - self.delay_s - self.stopped_s
            tick = 50_000 + round(1e3 * self.simulated_s * measured_s)
            self._state["tick"] = tick if self.counts else 0
            self._state["crc"] = go2.checksum(self._state) if self.signs else 0
            self.driver.take()
            self.oldest_s = max(self.oldest_s, self.driver.ages()["lowstate"])


@pytest.mark.parametrize("rate", [1.0, 1.0 + 5e-4, 1.0 + 1 / 12, 1.0 - 1 / 12])
@pytest.mark.parametrize("set_s", [0.0, 0.2, 10.0, -10.0])
def test_a_set_or_slewed_clock_does_not_age_the_robot(
    monkeypatch: pytest.MonkeyPatch, rate: float, set_s: float
) -> None:
    """By ntpd (5e-4 s/s) or chrony (1/12 s/s)."""
    robot = HeardRobot(monkeypatch, rate)
    robot.run(1.0)
    robot.set_s += set_s
    robot.run(20.0)
    assert robot.oldest_s < 0.005 < SENSOR_TIMEOUTS["joints"].ageing_s
    assert robot.driver.warnings() == {}
    now_s = robot.set_s + rate * robot.true_s
    assert robot.driver.stamps()["lowstate"] == pytest.approx(now_s, abs=0.005)


def test_a_reading_has_the_mean_of_what_the_accelerometer_said_since_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = HeardRobot(monkeypatch)
    states = []
    for upwards in (9.0, 10.0, 14.0):
        state = robot._state.copy()
        state["imu_state"]["accelerometer"] = 1.0, -2.0, upwards
        state["crc"] = go2.checksum(state)
        states.append(state)
    monkeypatch.setattr(driver_module, "arrived", lambda _: [states.pop(0)] if states else [])
    for expected in ((1.0, -2.0, 9.5), (1.0, -2.0, 14.0), (1.0, -2.0, 14.0)):
        robot.driver.take()
        if expected[2] == 9.5:
            robot.driver.take()
        reading = robot.driver.read(lambda: None, None)  # type: ignore[arg-type, return-value]
        assert reading.specific_force is not None
        assert reading.specific_force.tolist() == pytest.approx(expected)


def test_delayed_states_have_the_age_of_their_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a queue that grows by 2 ms a second; on a clock that is slewed meanwhile."""
    robot = HeardRobot(monkeypatch, 1.0 + 1 / 12)
    robot.run(1.0)
    robot.delay_s = 0.3
    robot.run(0.4)
    assert robot.driver.ages()["lowstate"] == pytest.approx(0.3, abs=0.002)
    assert robot.driver.warnings() == {"lowstate": "messages arrive 0.30 s late"}
    robot.delay_s = 0.0
    robot.run(0.1)
    assert robot.driver.ages()["lowstate"] < 0.002
    for _ in range(100):
        robot.delay_s += 0.002
        robot.run(1.0)
    assert robot.driver.ages()["lowstate"] == pytest.approx(0.2, rel=0.12)


def test_states_without_tick_and_checksum_are_taken_from_a_simulator_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of unitree_mujoco's Python bridge, which fills neither."""
    for address, age_s in ((SIMULATOR, 0.0), (ROBOT, math.inf), (Go2("lo", 0), math.inf)):
        robot = HeardRobot(monkeypatch, address=address)
        robot.counts = robot.signs = False
        robot.run(1.0)
        assert robot.driver.ages() == {"lowstate": pytest.approx(age_s)}
        notes = [
            "lowstate has no checksum: taken from a simulator on lo",
            "lowstate has no tick: its age is counted from its arrival",
        ]
        assert robot.driver.notes() == (notes if address == SIMULATOR else [])
    robot = HeardRobot(monkeypatch, address=SIMULATOR)
    robot.signs = False
    robot.run(1.0)
    robot.true_s += 0.2  # silent since
    assert robot.driver.ages()["lowstate"] == pytest.approx(0.2)


def test_simulated_time_may_pass_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy computer: a robot's tick would count as more and more late."""
    for address, oldest_s in ((SIMULATOR, 0.01), (ROBOT, 2.0)):
        robot = HeardRobot(monkeypatch, address=address)
        robot.simulated_s = 0.6
        robot.run(10.0)
        assert (robot.oldest_s < oldest_s) == (address == SIMULATOR)


def test_activation_resets_the_tick_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = HeardRobot(monkeypatch)
    robot.run(1.0)
    robot.stopped_s = 0.5
    robot.run(1.0)
    assert robot.driver.ages()["lowstate"] == pytest.approx(0.5, abs=0.002)
    robot.driver.forget()
    robot.oldest_s = 0.0
    robot.run(1.0)
    assert robot.oldest_s < 0.002


class SwitcherBus(AnsweringBus):
    """A motion switcher that releases; `lost` answers to a release never arrive.

    So often it answers that it is `busy`. Its program lays the robot down when told to.
    """

    address = ROBOT

    def __init__(self, lost: bool = False, busy: int = 0) -> None:
        super().__init__("")
        self.lost, self.busy, self.program, self.told = lost, busy, "normal", list[int]()
        self.angles = GO2.default_pose_rad
        self.obeys = True  # whether the program lies down

    def write(self, request: Any, **_: str) -> None:
        super().write(request)
        self.told.append(int(request["api"]))

    def take(self, **_: Any) -> list[Any]:
        asked, self.asked = self.asked, []
        answers = []
        for request in asked:
            code = 0
            if request["api"] == services.RELEASE_MODE:
                code = services.BUSY if self.busy else 0
                self.busy = max(0, self.busy - 1)
                self.program = "normal" if code else ""
                if self.lost:
                    continue
            if request["api"] == services.STAND_DOWN and self.obeys:
                self.angles = lying_pose(GO2)
            if request["api"] == services.SELECT_MODE and self.program:
                code = services.THERE_ALREADY
            answers.append(answer(request, code, f'{{"name": "{self.program}"}}'))
        return answers


def test_a_robot_that_never_sends_is_described_by_what_is_on_the_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an Air or a Pro, which has no DDS on its Ethernet port."""
    monkeypatch.setattr(driver_module, "arrived", lambda _: [])
    said = {
        (ROBOT, 0): "no other DDS participants on eth0, none writes rt/lowstate: "
        "cable, 192.168.123.x, or no Go2 EDU",
        (ROBOT, 2): "2 DDS participants on eth0, none writes rt/lowstate: "
        "cable, 192.168.123.x, or no Go2 EDU",
        (SIMULATOR, 0): "no other DDS participants on lo, none is a simulated Go2",
    }
    for (address, others), words in said.items():
        bus: Any = FakeBus(address)
        bus.other_participants = lambda others=others: others
        driver = Go2Driver(bus, GO2, time.time, Remote({}))
        driver.take()
        assert driver.warnings() == {"lowstate": words}


def test_a_robot_whose_motion_switcher_is_silent_is_not_commanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As old firmware, or states that another program repeats; a simulator needs none."""

    def silent(*_: Any) -> str:
        raise UserError("motion_switcher: no answer to call 1001 for 10 s")

    monkeypatch.setattr(services.MotionSwitcher, "mode", silent)
    monkeypatch.setattr(services, "SWITCHER_S", 0.1)
    for address in (ROBOT, Go2("lo", 0), SIMULATOR):
        bus: Any = AnsweringBus("")
        bus.address = address
        bus.take, bus.writers = lambda **_: [], lambda _: []
        handover = MotorHandover(bus, GO2, lambda: lying_pose(GO2), lambda: "")
        if address == SIMULATOR:
            handover.take(threading.Event())
            assert handover.notes == [
                "there is no motion_switcher: the motors of a simulator are free"
            ]
            continue
        words = "motion_switcher: .* motor commands need a Go2 EDU with firmware 1.0.24 or newer"
        with pytest.raises(UserError, match=words):
            handover.take(threading.Event())


@pytest.mark.parametrize("lost", [False, True])
def test_a_program_that_was_released_gets_the_motors_back(
    lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if only the answer to the release was lost."""
    bus = SwitcherBus(lost)
    switcher = services.MotionSwitcher(bus)  # type: ignore[arg-type]
    if lost:
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(UserError, match="stopped before it answered call 1003"):
            switcher.release(stop)
    else:
        switcher.release(threading.Event())
    switcher.give_back()
    assert bus.told[-1] == services.SELECT_MODE


def test_a_stop_prevents_the_release_of_the_motors() -> None:
    bus, stop = SwitcherBus(lost=False), threading.Event()
    bus.take = lambda **_: []  # type: ignore[method-assign]
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(UserError, match="stopped before it answered call 1001"):
        services.MotionSwitcher(bus).release(stop)  # type: ignore[arg-type]
    assert services.RELEASE_MODE not in bus.told


def handed_over(bus: SwitcherBus) -> MotorHandover:
    return MotorHandover(bus, GO2, lambda: bus.angles, lambda: "")  # type: ignore[arg-type]


@pytest.mark.parametrize("stands", [True, False])
def test_a_standing_robot_lies_down_before_its_motors_are_released(stands: bool) -> None:
    """It would fall; a lying robot is not moved."""
    bus = SwitcherBus()
    bus.angles = GO2.default_pose_rad if stands else lying_pose(GO2)
    handed_over(bus).take(threading.Event())
    down = [services.STAND_DOWN] if stands else []
    asked = [api for api in bus.told if api != services.CHECK_MODE]
    assert asked == [*down, services.RELEASE_MODE]


def test_a_robot_that_does_not_lie_down_keeps_its_motors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DOWN_S", 0.2)
    bus = SwitcherBus()
    bus.obeys = False
    said = r"the robot stands, and 'normal' does not lay it down \(.*not folded.*\): do so by its"
    with pytest.raises(UserError, match=said):
        handed_over(bus).take(threading.Event())
    assert services.RELEASE_MODE not in bus.told
    assert bus.program == "normal"


def test_a_switcher_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PAUSE_S", 0.01)
    bus = SwitcherBus(busy=2)
    handed_over(bus).take(threading.Event())
    assert bus.told.count(services.RELEASE_MODE) == 3
    assert not bus.program


def test_a_request_with_an_effect_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that takes its time is not begun anew while it does."""
    monkeypatch.setattr(services, "AGAIN_S", 0.01)
    bus, stop = SwitcherBus(lost=True), threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(UserError, match="'normal' keeps the motors"):
        services.MotionSwitcher(bus).release(stop)  # type: ignore[arg-type]
    assert bus.told.count(services.RELEASE_MODE) == 1


def test_a_program_that_already_has_the_motors_is_accepted() -> None:
    bus = SwitcherBus()
    switcher = services.MotionSwitcher(bus)  # type: ignore[arg-type]
    switcher.released = "normal"
    switcher.give_back()
    switcher.released = "ai"  # another one has them
    with pytest.raises(UserError, match="call 1002 failed, 7004"):
        switcher.give_back()


def test_nothing_is_written_to_a_robot_that_another_program_commands(
    bus: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another controller would see a conflict, and damp the robot."""
    monkeypatch.setattr(services, "MotionSwitcher", FakeSwitcher)
    monkeypatch.setattr(services, "ALONE_S", 0.3)
    monkeypatch.setattr(services, "POLL_S", 0.05)
    monkeypatch.setattr(driver_module, "arrived", lambda _: [])
    made: list[str] = []
    bus.others = ["pixelgait-run (process 7 on host)"]
    monkeypatch.setattr(bus, "writer", lambda topic, _: made.append(topic))
    driver = Go2Driver(bus, GO2, time.time, Remote({}))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"another program commands the motors .*process 7 on host"):
        driver.take_motors(threading.Event())
    assert driver.conflicting_publisher(commanding=True) is None  # without a conflict
    assert not made


def test_a_restarted_robot_is_not_commanded(
    bus: FakeBus, driver: Go2Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own program has the motors by then; and one may take them from it anew."""
    monkeypatch.setattr(sender, "DAMP_S", 0.2)
    driver.send(STIFF)
    for tick in (800_000, 800_010, 5000):
        assert driver.conflicting_publisher(commanding=True) is None
        state = go2.LOW_STATE.new()
        state["tick"] = tick
        state["crc"] = go2.checksum(state)
        monkeypatch.setattr(driver_module, "arrived", lambda _, state=state: [state])
        driver.take()
    assert driver.conflicting_publisher(commanding=False) is None
    told = "the robot was started again: its own program has the motors"
    assert driver.conflicting_publisher(commanding=True) == told
    left_s = time.monotonic()
    driver.settle()
    damped = [stiff for sent_s, stiff in bus.sent if sent_s > left_s + sender.HOLD_S]
    assert damped
    assert not any(damped)
    bus.others, sent = ["sport (process 7 on host)"], len(bus.sent)
    time.sleep(0.1)
    assert driver.conflicting_publisher(commanding=True) is None  # it has as much right to be there
    assert len(bus.sent) == sent
    bus.others = []
    driver.take_motors(threading.Event())
    assert driver.conflicting_publisher(commanding=True) is None
    time.sleep(0.1)
    assert len(bus.sent) == sent  # not before it shall stand up
    driver.send(STIFF)
    assert bus.sent[-1][1]
    driver.close()
    driver.close()


def test_another_writer_may_stay_as_long_after_the_release_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Laying the robot down takes its time, and one that has left is seen for 10 s."""
    clock = SimpleNamespace(now_s=0.0)
    clock.monotonic = lambda: clock.now_s
    clock.monotonic_ns = lambda: round(clock.now_s * 1e9)
    monkeypatch.setattr(services, "time", clock)
    monkeypatch.setattr(services, "POLL_S", 0.0)
    bus = SwitcherBus()
    seen_s = list[float]()

    def others() -> str:
        seen_s.append(clock.now_s)
        clock.now_s += 1.0
        return "sport" if clock.now_s < seen_s[0] + 10.0 else ""

    def settle() -> None:
        clock.now_s += services.ALONE_S + 1.0
        bus.angles = lying_pose(GO2)

    hands = MotorHandover(bus, GO2, lambda: bus.angles, others)  # type: ignore[arg-type]
    monkeypatch.setattr(hands, "_lay_down", lambda *_: settle())
    hands.take(threading.Event())
    assert not bus.program
