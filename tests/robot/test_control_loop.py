"""Control loop over the link of a simulated robot, in the loop's own time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.control.blocked import TRIES
from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.errors import UserError
from pixelgait.robot.interface import DRIVER_TIMEOUT_S, Image, JointCommand, Link, Reading
from pixelgait.robot.runtime import control_loop, state_machine
from pixelgait.robot.runtime.control_loop import ControlLoop, ControlStep, LoopOptions
from pixelgait.robot.runtime.latency import COMPUTE, LatencyProfiler
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.supervisor import SENSOR_TIMEOUTS, SensorTimeouts, Supervisor
from pixelgait.robot.spec import A1
from pixelgait.sim.engines.pybullet_body import PyBulletBody
from pixelgait.sim.scenes.flat import FlatGround
from tests.conftest import wait_for

PERIOD_S = 0.01
SENSORS = ("joints", "imu", "camera")
ATTENTION = np.zeros((8, 8), np.float32)


class SimulatedLink:
    """PyBullet behind the `Link` interface: every command is one control step of physics."""

    sensors = SENSORS
    synchronised_sensors: tuple[str, ...] = ()  # time passes only with commands

    def __init__(self) -> None:
        self.body = PyBulletBody(A1, FlatGround())
        self.body.reset(0)
        self.sent: list[JointCommand] = []
        self.silent_since: dict[str, float] = {}
        self.broken = False
        self.take_s = 0.0  # duration of `take`
        self.blocks_s = 0.0  # duration of the next `send`
        self.sending: Callable[[], object] = lambda: None  # called with every command
        self.lags_s = dict.fromkeys(SENSORS, 0.0)  # of the readings

    def take(self) -> None:
        time.sleep(self.take_s)

    def forget(self) -> None: ...

    def read(self) -> Reading:
        if self.broken:
            raise UserError("joint states lack FR_hip_joint")
        return self.body.read()

    def ages(self) -> Mapping[str, float]:
        now = self.body.time_s
        return {name: now - self.silent_since.get(name, now) for name in SENSORS}

    def warnings(self) -> Mapping[str, str]:
        return {"imu": "messages repeat their stamp"}

    def stamps(self) -> Mapping[str, float]:
        return {name: self.body.time_s - lag_s for name, lag_s in self.lags_s.items()}

    def send(self, command: JointCommand) -> None:
        if self.blocks_s:
            blocks_s, self.blocks_s = self.blocks_s, 0.0
            time.sleep(blocks_s)
        self.sending()
        self.sent.append(command)
        self.body.apply(command)

    def now_s(self) -> float:
        return self.body.time_s


def start(link: Link, auto: bool = True, **options: Any) -> ControlLoop:
    low_level = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))
    profiler = LatencyProfiler(PERIOD_S, SENSORS)
    controller = Controller(
        lambda *_: Decision(np.zeros(2), 20, ATTENTION), low_level, Supervisor(A1), profiler
    )
    options.setdefault("driver_timeout_s", 2.0)  # a test machine may stall
    loop = ControlLoop(link, controller, profiler, PERIOD_S, Operator(auto), LoopOptions(**options))
    loop.start()
    return loop


def damped(command: JointCommand) -> bool:
    return not command.kp.any() and bool((command.kd == A1.damping_nms_per_rad).all())


def test_the_loop_stands_up_walks_and_damps_at_the_end() -> None:
    link = SimulatedLink()
    loop = start(link)
    wait_for(lambda: len(loop.decisions) >= 3)
    loop.stop()
    assert loop.fault is None
    standing = round(state_machine.STAND_S / PERIOD_S)
    first = link.sent[0].targets
    np.testing.assert_allclose(first, A1.default_pose_rad, atol=0.05)  # from the joint angles
    np.testing.assert_allclose(link.sent[standing - 1].targets, A1.default_pose_rad, atol=1e-9)
    walking = [command.targets for command in link.sent[standing : -control_loop.DAMP_MESSAGES]]
    assert np.ptp(walking, axis=0).max() > 0.1
    assert all(damped(command) for command in link.sent[-control_loop.DAMP_MESSAGES :])
    report = loop.profiler.report({"name": "iap", "sha256": ""})
    assert report["stages"]["publish"]["count"] == report["ticks"]
    assert report["stages"]["cache_warmup"]["count"] == report["stages"]["compute"]["count"]
    assert all(report["sensor_age_us"][name]["count"] >= report["ticks"] - 1 for name in SENSORS)


def test_the_latency_report_has_the_sensors_ages() -> None:
    """On the link's clock a command is sent 10 ms after the reading's stamp."""
    link = SimulatedLink()
    link.lags_s = {"joints": 0.002, "imu": 0.005, "camera": 0.03}
    loop = start(link)
    wait_for(lambda: len(loop.decisions) >= 3)
    loop.stop()
    report = loop.profiler.report({"name": "iap", "sha256": ""})
    for percentile in ("p50_us", "p99_us"):
        ages = {name: row[percentile] for name, row in report["sensor_age_us"].items()}
        lags_us = {name: 1e6 * lag_s for name, lag_s in link.lags_s.items()}
        assert ages == pytest.approx(lags_us, rel=0.01)
        answered_us = report["stages"]["sensor_to_command"][percentile]
        assert answered_us == pytest.approx(1e6 * PERIOD_S, rel=0.01)


@pytest.mark.parametrize("keep_bytes", [0, 10_000])
def test_the_decision_log_keeps_its_memory_limit(keep_bytes: int) -> None:
    """Three images at most here, and always the newest."""
    link = SimulatedLink()
    images: list[Image] = []
    loop = start(link, keep_bytes=keep_bytes, record=lambda s: s.image and images.append(s.image))
    wait_for(lambda: len(images) > 5)
    loop.stop()
    kept = [image for image, _ in loop.decisions]
    each = kept[0].pixels.nbytes + ATTENTION.nbytes
    assert len(kept) == max(1, keep_bytes // each)
    assert kept[-1] is images[-1]


@pytest.mark.parametrize(("sensor", "allowed"), [("joints", 0.1), ("camera", 2.0)])
def test_a_silent_sensor_damps_by_name(sensor: str, allowed: float) -> None:
    link = SimulatedLink()
    loop = start(link)
    wait_for(lambda: loop.decisions)
    since = link.silent_since[sensor] = link.body.time_s
    wait_for(lambda: loop.fault)
    loop.stop()
    assert str(loop.fault).startswith(f"{sensor} is silent for {allowed}")
    late = [c for c in link.sent if c.time_s > since + allowed + 2 * PERIOD_S]
    assert late
    assert all(damped(command) for command in late)


def test_nothing_gets_stiff_after_the_computer_was_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`time.monotonic` does not show it: for the process it is a step like any other."""
    link = SimulatedLink()
    loop = start(link)
    wait_for(lambda: loop.operation.state is RobotState.WALKING)
    clocks = {time.CLOCK_BOOTTIME: 600.0}  # a jump by ten minutes
    true = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: true(clock) + clocks.get(clock, 0.0))
    wait_for(lambda: loop.fault)
    after = len(link.sent)
    loop.stop()
    assert loop.fault == "stalled for 600 s: people may be near the robot"
    assert all(damped(command) for command in link.sent[after - 1 :])


def test_a_link_that_fails_leaves_the_robot_damped() -> None:
    link = SimulatedLink()
    loop = start(link)
    wait_for(lambda: loop.walking_since)
    link.broken = True
    wait_for(lambda: loop.fault)
    loop.stop()
    assert loop.fault == "joint states lack FR_hip_joint"
    assert damped(link.sent[-1])


def test_a_link_that_blocks_is_a_stall_after_which_the_robot_stands_up() -> None:
    """The driver times out before the blocked command arrives, or right after."""
    link = SimulatedLink()
    loop = start(link, driver_timeout_s=DRIVER_TIMEOUT_S)
    wait_for(lambda: loop.walking_since)
    before, link.blocks_s = loop.operation.stalls, 0.35
    wait_for(lambda: not link.blocks_s)
    blocked = len(link.sent)
    wait_for(lambda: len(link.sent) > blocked + 200 and loop.operator.state is RobotState.WALKING)
    loop.stop()
    assert loop.operation.stalls > before
    first = next(i for i, c in enumerate(link.sent) if i >= blocked - 1 and damped(c))
    assert first <= blocked + 1  # no other stiff command was sent
    resting = link.sent[first : first + round(0.9 * state_machine.REST_S / PERIOD_S)]
    assert all(damped(command) for command in resting)
    assert any("no command for 0." in cause for _, cause in loop.changes)


def told_to_walk(loop: ControlLoop) -> None:
    """Command by command, and once more if a busy machine stalls the loop meanwhile."""
    assert any(walks_when_told(loop) for _ in range(4))


def walks_when_told(loop: ControlLoop) -> bool:
    """Whether it walks; false: the loop has stalled."""
    stalls, operator = loop.operation.stalls, loop.operator
    wait_for(lambda: operator.state is RobotState.LIMP)
    if operator.arm()[0] and operator.stand_up()[0]:
        wait_for(lambda: operator.state is RobotState.READY or loop.operation.stalls > stalls)
    if operator.walk()[0]:
        wait_for(lambda: operator.state is RobotState.WALKING or loop.operation.stalls > stalls)
    return operator.state is RobotState.WALKING


def test_a_stall_disarms_a_robot_that_an_operator_has_armed() -> None:
    """A person may be near the robot that fell."""
    link = SimulatedLink()
    loop = start(link, auto=False, driver_timeout_s=DRIVER_TIMEOUT_S)
    told_to_walk(loop)
    link.blocks_s = 0.35
    wait_for(lambda: loop.operator.state is RobotState.LIMP)
    fallen = len(link.sent)
    wait_for(lambda: len(link.sent) > fallen + 2 * state_machine.REST_S / PERIOD_S)
    assert all(damped(command) for command in link.sent[fallen:])
    assert (RobotState.LIMP, "disarmed, the driver has damped it") in loop.changes
    assert loop.operator.stand_up() == (False, "not armed")
    told_to_walk(loop)
    loop.stop()
    assert loop.fault is None


def test_a_blocked_robot_that_has_given_up_walks_when_ordered() -> None:
    loop = start(SimulatedLink(), auto=False)
    told_to_walk(loop)
    blocked = loop.operation.blocked
    blocked.tries = TRIES
    blocked._progress.stuck = lambda *_: True  # type: ignore[method-assign]
    wait_for(lambda: loop.operator.state is RobotState.READY)
    assert loop.changes[-1] == (RobotState.READY, blocked.cause)
    assert "given up" in blocked.cause
    blocked._progress.stuck = lambda *_: False  # type: ignore[method-assign]
    assert loop.operator.walk()[0]
    wait_for(lambda: loop.operator.state is RobotState.WALKING)
    assert not blocked.manoeuvres
    loop.stop()
    assert loop.fault is None


def test_a_limp_robot_without_sensor_data_is_disarmed() -> None:
    """It may have been switched off and on since it was armed."""
    link = SimulatedLink()
    loop = start(link, auto=False)
    wait_for(lambda: loop.operator.state is RobotState.LIMP)
    assert loop.operator.arm()[0]
    link.silent_since["joints"] = link.body.time_s - 1.0
    wait_for(lambda: not loop.operator.commands.armed)
    del link.silent_since["joints"]
    assert loop.operator.stand_up() == (False, "not armed")
    assert (RobotState.LIMP, "disarmed, joints is silent") in loop.changes
    link.silent_since["camera"] = -math.inf  # a limp robot needs none
    told_to_arm = loop.operator.arm()
    steps = loop.steps
    wait_for(lambda: loop.steps > steps + 20)
    loop.stop()
    assert told_to_arm[0]
    assert loop.operator.commands.armed
    assert loop.fault is None


def test_reading_the_link_is_a_latency_stage_of_its_own() -> None:
    """A slow link must count neither as computation nor as publishing."""
    link = SimulatedLink()
    link.take_s = 0.004
    loop = start(link)
    wait_for(lambda: len(loop.decisions) >= 3)
    loop.stop()
    rows = loop.profiler.report({"name": "iap", "sha256": ""})["stages"]
    assert rows["read"]["p50_us"] > 4000
    assert all(rows[stage]["p50_us"] < 3000 for stage in COMPUTE)
    assert rows["compute"]["count"] == rows["safety"]["count"] > 20
    assert rows["compute"]["max_us"] <= sum(rows[stage]["max_us"] for stage in COMPUTE) + 1e-6


def test_a_robot_without_sensors_never_stands_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_loop, "SENSOR_WAIT_S", 0.2)
    link = SimulatedLink()
    link.silent_since = {"imu": -math.inf}
    admitted: list[object] = []
    loop = start(link, admit=admitted.append)
    wait_for(lambda: loop.fault)
    loop.stop()
    assert loop.fault == "no message on imu for 0 s; imu: messages repeat their stamp"
    assert not admitted  # and its motors are not acquired
    assert all(damped(command) for command in link.sent)


def test_a_setting_that_changes_during_a_step_applies_from_the_next_on() -> None:
    """The recorded settings are those that applied: set while deciding, and while sending."""
    link, steps, sensor_timeouts = SimulatedLink(), list[ControlStep](), dict(SENSOR_TIMEOUTS)
    sensor, expired = "imu", SensorTimeouts(-3.0, -2.0, -1.0)

    def decide(*_: object) -> Decision:
        sensor_timeouts[sensor] = expired  # before the supervisor's review in this step
        return Decision(np.zeros(2), 20, ATTENTION)

    low_level = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))
    profiler = LatencyProfiler(PERIOD_S, SENSORS)
    controller = Controller(decide, low_level, Supervisor(A1, sensor_timeouts))
    options = LoopOptions(record=steps.append)
    loop = ControlLoop(link, controller, profiler, PERIOD_S, Operator(auto=True), options)
    link.sending = lambda: setattr(loop, "driver_timeout_s", loop.driver_timeout_s + 1.0)
    loop.start()
    wait_for(lambda: loop.fault)
    loop.stop()
    assert str(loop.fault).startswith("imu is silent for")
    assert [step.number for step in steps] == list(range(len(steps)))
    timeouts = [step.settings["driver_timeout_s"] for step in steps]
    assert timeouts == [state_machine.DRIVER_TIMEOUT_S + i for i in range(len(steps))]
    *before, decided, last = steps
    assert decided.decision is not None
    assert all(step.settings["sensor_timeouts"] == SENSOR_TIMEOUTS for step in (*before, decided))
    assert last.settings["sensor_timeouts"] == {**SENSOR_TIMEOUTS, sensor: expired}
    assert (decided.fault, last.fault is None) == (None, False)


def test_maps_are_recorded_also_after_the_clock_was_set_back() -> None:
    low_level = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))
    controller = Controller(lambda *_: Decision(np.zeros(2), 20), low_level, Supervisor(A1))
    maps = SimpleNamespace(around=SimpleNamespace(time_s=1000.0))
    options = LoopOptions(look_ahead=maps)
    profiler = LatencyProfiler(PERIOD_S, SENSORS)
    loop = ControlLoop(SimulatedLink(), controller, profiler, PERIOD_S, Operator(), options)
    recorded = []
    for time_s in (1000.0, 1000.1, 1000.3, 10.0, 10.1, 10.3):
        maps.around = SimpleNamespace(time_s=time_s)
        recorded += [time_s] if loop._new_map() is not None else []
    assert recorded == [1000.0, 1000.3, 10.0, 10.3]
