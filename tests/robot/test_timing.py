"""Sensor synchronisation of a loop with robots of many rates, on a simulated clock."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from pixelgait.robot.control.controller import Controller, Decision
from pixelgait.robot.control.low_level import LOW_LEVEL_WEIGHTS, LinearLowLevel
from pixelgait.robot.interface import Image, JointCommand, Reading
from pixelgait.robot.ros.links.decoder import Decoder
from pixelgait.robot.runtime import realtime, timing
from pixelgait.robot.runtime.control_loop import ControlLoop, LoopOptions
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.state_machine import Operator
from pixelgait.robot.runtime.timing import RateKeeper, SensorSync
from pixelgait.robot.safety.supervisor import Supervisor
from pixelgait.robot.spec import A1, Array

PERIOD_S = 0.01
TAKE_S = 30e-6  # duration of a poll
COMPUTE_S = 0.5e-3
TRAVEL_S = 0.3e-3  # from a stamp to its arrival
WAKE_S = 50e-6  # a sleep ends late by this
SETTLE = 2400  # steps, half of them before an event, half after


class Robot:
    """A robot that sends joints and, a little later, IMU data; it is also the clock."""

    sensors = ("joints", "imu")
    synchronised_sensors: tuple[str, ...] = sensors

    def __init__(self, rate_hz: float, jitter_s: float = 0.0, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.now = 100.0
        self.spacing_s, self.jitter_s, self.imu_later_s = 1 / rate_hz, jitter_s, 60e-6
        self.clock_s = 0.0  # the loop's clock minus the robot's
        self.imu_every = 1  # one IMU reading in so many of the joints
        self.meanwhile_s = 0.3e-3  # other work of the loop
        self.stuck = False  # repeats its last stamps
        self.profiler = LatencyProfiler(PERIOD_S, self.sensors)  # of the loop
        self.then: Callable[[], None] = lambda: None  # the event
        self.takes = self._sent = 0
        self._sent_s = self.now + self._random.uniform() * self.spacing_s  # newest stamp
        self._due: list[tuple[float, str, float]] = []
        self._stamps = dict.fromkeys(self.sensors, self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds + WAKE_S

    def take(self) -> None:
        self.takes += 1
        self.now += TAKE_S
        while self._sent_s + self.spacing_s <= self.now:
            self._sent_s += self.spacing_s
            arrives_s = self._sent_s + TRAVEL_S + self._random.uniform() * self.jitter_s
            self._due.append((arrives_s, "joints", self._sent_s))
            if self._sent % self.imu_every == 0:
                self._due.append((arrives_s + self.imu_later_s, "imu", self._sent_s))
            self._sent += 1
        for due in [due for due in self._due if due[0] <= self.now]:
            self._due.remove(due)
            if not self.stuck:
                self._stamps[due[1]] = due[2]

    def stamps(self) -> Mapping[str, float]:
        return self._stamps

    def now_s(self) -> float:
        return self.now + self.clock_s

    def forget(self) -> None: ...

    def read(self) -> Reading:
        raise NotImplementedError

    def ages(self) -> Mapping[str, float]:
        raise NotImplementedError

    def warnings(self) -> Mapping[str, str]:
        raise NotImplementedError

    def send(self, command: JointCommand) -> None:
        raise NotImplementedError


class Sender(Robot):
    """A robot in real time that sends at 500 Hz and follows commands at once."""

    sensors = ("joints", "imu", "camera")
    synchronised_sensors = ("joints", "imu")

    def __init__(self) -> None:
        super().__init__(500)
        self.angles, self.velocities = A1.default_pose_rad, np.zeros(12)
        self._moved_s = 0.0

    def take(self) -> None:
        self.takes += 1

    def now_s(self) -> float:
        return time.monotonic()

    def stamps(self) -> Mapping[str, float]:
        sent_s = self.spacing_s * math.floor((time.monotonic() - TRAVEL_S) / self.spacing_s)
        return dict.fromkeys(self.sensors, sent_s)

    def read(self) -> Reading:
        sent_s = self.stamps()["joints"]
        image = Image(np.zeros((32, 32, 3), np.uint8), sent_s)
        swaying = np.array((0.01 * math.sin(10.0 * sent_s), 0.0, 0.0))
        joints, upright = (self.angles, self.velocities), np.array((0.0, 0.0, 0.0, 1.0))
        return Reading(sent_s, *joints, upright, swaying, lambda: image)

    def ages(self) -> Mapping[str, float]:
        return dict.fromkeys(self.sensors, 0.0)

    def warnings(self) -> Mapping[str, str]:
        return {}

    def send(self, command: JointCommand) -> None:
        wanted, now_s = command.targets if command.kp.any() else self.angles, time.monotonic()
        took_s = max(PERIOD_S, now_s - self._moved_s)  # a slow computer's steps take longer
        self.velocities = (wanted - self.angles) / took_s
        self.angles, self._moved_s = wanted, now_s


class Steps(NamedTuple):
    """Measurements of n steps after the first `SETTLE`, each (n,)."""

    ages_s: Array  # of the joints' data, when read
    imu_ages_s: Array
    begins_s: Array
    waits_s: Array
    missed: Array  # missed deadlines


Walk = Callable[..., Steps]


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Walk:
    """Runs steps with a robot and measures them."""

    def take_steps(robot: Robot, steps: int = 200) -> Steps:
        clock = SimpleNamespace(
            monotonic=lambda: robot.now,
            monotonic_ns=lambda: round(robot.now * 1e9),
            sleep=robot.sleep,
        )
        monkeypatch.setattr(timing, "time", clock)
        rate, rows = RateKeeper(PERIOD_S), []
        keeper = SensorSync(robot, rate, robot.profiler)
        for step in range(SETTLE + steps):
            if step == SETTLE // 2:
                robot.then()
            if step == SETTLE:
                robot.profiler.reset()
            began_s = robot.now
            taken_s = keeper.wait(lambda: robot.sleep(robot.meanwhile_s))
            ages_s = [robot.now - robot.stamps()[sensor] for sensor in robot.sensors]
            robot.now += COMPUTE_S
            rows.append((*ages_s, began_s, taken_s - began_s, rate.wait()))
        return Steps(*np.array(rows[SETTLE:]).T)

    return take_steps


def fresh(steps: Steps, jitter_s: float = 0.0) -> bool:
    """Whether every reading was read within two polls of its arrival."""
    return bool(steps.ages_s.max() < TRAVEL_S + jitter_s + 2 * (timing.POLL_S + WAKE_S + TAKE_S))


def rate_kept(steps: Steps) -> bool:
    """Whether steps begin nearly at the loop's own rate."""
    off = np.diff(steps.begins_s) - PERIOD_S
    return bool(np.abs(off).max() <= timing.MAX_SHIFT_S + 1e-9 and not steps.missed.any())


@pytest.mark.parametrize("jitter_s", [0.0, 0.3e-3])
@pytest.mark.parametrize("rate_hz", [100, 200, 300, 400, 500, 1000])
def test_readings_are_read_as_they_arrive(walk: Walk, rate_hz: float, jitter_s: float) -> None:
    """At every rate that is a multiple of the loop's, and any phase."""
    for seed in range(3):
        steps = walk(Robot(rate_hz, jitter_s, seed))
        assert fresh(steps, jitter_s)
        assert steps.imu_ages_s.max() < steps.ages_s.max() + TAKE_S
        assert rate_kept(steps)
        assert np.median(steps.waits_s) < 3 * timing.MARGIN_S  # deadlines have shifted


@pytest.mark.parametrize("rate_hz", [20, 30, 60, 80, 98, 99, 101, 102, 125, 150, 250, 333, 617])
def test_a_robot_of_another_rate_does_not_change_the_loops_rate(walk: Walk, rate_hz: float) -> None:
    """Its readings arrive at another phase in every step: some are waited for."""
    steps = walk(Robot(rate_hz), 1000)
    assert rate_kept(steps)
    assert np.diff(steps.begins_s).mean() == pytest.approx(PERIOD_S, rel=2e-3)
    assert steps.waits_s.max() < PERIOD_S / 3
    by_chance_s = TRAVEL_S + TAKE_S + 0.5 / rate_hz
    assert np.mean(steps.ages_s) < 1.2 * by_chance_s


def test_a_robot_slower_than_the_loop_is_waited_for_when_it_sends(walk: Walk) -> None:
    steps = walk(Robot(50))
    ages_s = np.sort(steps.ages_s)
    assert fresh(steps._replace(ages_s=ages_s[: len(ages_s) // 2]))
    assert rate_kept(steps)


@pytest.mark.parametrize("faster", [-50e-6, 50e-6])
def test_drifting_clocks_are_followed(walk: Walk, faster: float) -> None:
    """At 50 ppm a robot's clock drifts by 3 ms in a minute."""
    steps = walk(Robot(500 * (1 + faster)), 6000)
    assert fresh(steps)
    assert np.diff(steps.begins_s).mean() == pytest.approx(PERIOD_S / (1 + faster), rel=5e-6)


@pytest.mark.parametrize("busy_s", [0.0, 0.7e-3, 1.5e-3])
def test_other_work_is_done_before_the_reading_arrives(walk: Walk, busy_s: float) -> None:
    """For work of up to the longest wait."""
    robot = Robot(500)
    robot.meanwhile_s = busy_s
    steps = walk(robot)
    assert fresh(steps)
    assert np.median(steps.waits_s) < busy_s + WAKE_S + 3 * timing.MARGIN_S


@pytest.mark.parametrize("busy_s", [0.3e-3, 1.5e-3])
def test_the_wait_stage_begins_after_other_work(walk: Walk, busy_s: float) -> None:
    """With a robot of another rate most steps wait for nothing, some for long."""
    robot = Robot(99)
    robot.meanwhile_s = busy_s
    waits_s = walk(robot, 1000).waits_s - TAKE_S - busy_s - WAKE_S
    waits = robot.profiler.stages["wait"]
    assert waits.count == 1000
    assert waits.max_ns == pytest.approx(1e9 * waits_s.max(), abs=2)
    for share in (0.5, 0.8, 0.95):
        waited_ns = 1e9 * np.quantile(waits_s, share, method="inverted_cdf")
        assert waits.percentile_ns(share) == pytest.approx(waited_ns, rel=0.01, abs=2)


def test_a_loop_busy_for_longer_does_not_wait(walk: Walk) -> None:
    robot = Robot(500)
    robot.meanwhile_s = 4e-3
    steps = walk(robot)
    assert steps.waits_s.max() < 5e-3
    assert rate_kept(steps)


@pytest.mark.parametrize("clock_s", [-0.049, -0.02, -0.0037, 0.0037, 0.02, 5.0])
@pytest.mark.parametrize("rate_hz", [100, 500])
def test_arrivals_are_estimated_anew_after_a_clock_was_set(
    walk: Walk, rate_hz: float, clock_s: float
) -> None:
    """The loop's clock, or the robot's."""
    robot = Robot(rate_hz)
    robot.then = lambda: setattr(robot, "clock_s", clock_s)
    assert fresh(walk(robot))


@pytest.mark.parametrize(("before_hz", "after_hz"), [(500, 100), (50, 500), (100, 200), (200, 500)])
def test_arrivals_are_estimated_anew_after_the_rate_has_changed(
    walk: Walk, before_hz: float, after_hz: float
) -> None:
    robot = Robot(before_hz)
    robot.then = lambda: setattr(robot, "spacing_s", 1 / after_hz)
    assert fresh(walk(robot))


@pytest.mark.parametrize("rate_hz", [100, 500])
def test_silence_costs_no_more_than_the_longest_wait(walk: Walk, rate_hz: float) -> None:
    """The loop goes on at its rate; the supervisor judges the silence."""
    robot = Robot(rate_hz)
    robot.then = lambda: setattr(robot, "spacing_s", 1e9)
    steps = walk(robot)
    assert steps.waits_s.max() < 1.2 * timing.WAIT_SHARE * PERIOD_S
    assert rate_kept(steps)


def test_a_repeated_stamp_is_not_a_new_reading(walk: Walk) -> None:
    robot = Robot(500)
    robot.then = lambda: setattr(robot, "stuck", True)
    steps = walk(robot)
    assert steps.waits_s.max() < 1.2 * timing.WAIT_SHARE * PERIOD_S
    assert rate_kept(steps)


def test_an_imu_of_another_rate_costs_one_more_poll(walk: Walk) -> None:
    together, apart = Robot(500), Robot(500)
    together.imu_later_s, apart.imu_every = 0.0, 1000
    walk(together)
    assert fresh(walk(apart))
    assert apart.takes - together.takes == pytest.approx(SETTLE + 200, rel=0.1)


def test_a_link_without_synchronised_sensors_is_polled_once_a_step(walk: Walk) -> None:
    """For instance a recording, where every poll is a step."""
    robot = Robot(500)
    robot.synchronised_sensors = ()
    steps = walk(robot, 100)
    assert robot.takes == SETTLE + 100
    np.testing.assert_allclose(steps.waits_s, robot.meanwhile_s + WAKE_S)


def test_the_loop_waits_and_warms_caches_before_it_reads() -> None:
    """In real time: every step answers the newest reading."""
    link = Sender()
    stands = LinearLowLevel.from_weights(A1, np.zeros(LOW_LEVEL_WEIGHTS))
    profiler = LatencyProfiler(PERIOD_S, link.sensors)
    asked: list[Array] = []

    def low_level(*inputs: Array) -> tuple[Array, Array]:
        asked.append(inputs[0])
        return stands(*inputs)

    controller = Controller(
        lambda *_: Decision(np.zeros(2), 20), low_level, Supervisor(A1), profiler
    )
    options = LoopOptions(driver_timeout_s=2.0)
    loop = ControlLoop(link, controller, profiler, PERIOD_S, Operator(auto=True), options)
    loop.start()
    deadline_s = time.monotonic() + 30.0
    while loop.fault is None and time.monotonic() < deadline_s:
        time.sleep(0.01)
        if profiler.stages["cache_warmup"].count > 100:
            break
    loop.stop()
    assert loop.fault is None
    stages = profiler.report({"name": "", "sha256": ""})["stages"]
    assert stages["wait"]["count"] >= stages["cache_warmup"]["count"] > 100
    assert stages["read"]["count"] == pytest.approx(stages["wait"]["count"], abs=1)
    twice = stages["low_level"]["count"] + stages["cache_warmup"]["count"]
    assert len(asked) == pytest.approx(twice, abs=1)


def test_threads_release_the_interpreter_lock_soon() -> None:
    before_s = sys.getswitchinterval()
    realtime.shorten_switch_interval()
    try:
        assert sys.getswitchinterval() == pytest.approx(realtime.SWITCH_INTERVAL_S)
    finally:
        sys.setswitchinterval(before_s)


@pytest.mark.parametrize(("policy", "sets"), [(os.SCHED_FIFO, [30]), (os.SCHED_OTHER, [])])
def test_a_helper_of_the_control_thread_is_one_priority_below_it(
    monkeypatch: pytest.MonkeyPatch, policy: int, sets: list[int]
) -> None:
    """With normal priority it would hold the interpreter's lock without a core."""
    found: list[int] = []
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: policy)
    monkeypatch.setattr(os, "sched_setparam", lambda _, to: found.append(to.sched_priority))
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: pytest.fail("gave priority up"))
    decoder = Decoder(abs)
    decoder.exchange(-1)
    while decoder.exchange(None)[0] is None:
        time.sleep(0.001)
    assert found == sets == [realtime.PRIORITY][: len(sets)]
