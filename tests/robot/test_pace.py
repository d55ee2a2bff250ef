"""When a step takes its readings: robots of many rates, and trouble, on a clock of the test's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from pixelgait.robot.interface import JointCommand, Reading
from pixelgait.robot.runtime import pace, realtime
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.pace import Pace
from pixelgait.robot.runtime.realtime import RateKeeper
from pixelgait.robot.spec import Array

PERIOD_S = 0.01
TAKE_S = 30e-6  # what a look costs
COMPUTE_S = 0.5e-3
TRAVEL_S = 0.3e-3  # from a stamp to its arrival
WAKE_S = 50e-6  # a sleep is so much longer
SETTLE = 600  # steps; half of them before something happens, half after


class Robot:
    """Sends joints and, a little later, imu; also the clock of all."""

    sensors = ("joints", "imu")
    pulse: tuple[str, ...] = sensors

    def __init__(self, rate_hz: float, jitter_s: float = 0.0, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self.now = 100.0
        self.spacing_s, self.jitter_s, self.imu_later_s = 1 / rate_hz, jitter_s, 60e-6
        self.clock_s = 0.0  # the loop's is ahead of the robot's
        self.imu_every = 1  # readings of the joints
        self.meanwhile_s = 0.3e-3  # what the loop does besides
        self.then: Callable[[], None] = lambda: None  # what happens to it in the end
        self.takes = self._sent = 0
        self._sent_s = self.now + self._random.uniform() * self.spacing_s  # the newest's stamp
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
            self._stamps[due[1]] = due[2]
            self._due.remove(due)

    def stamps(self) -> Mapping[str, float]:
        return self._stamps

    def now_s(self) -> float:
        return self.now + self.clock_s

    def forget(self) -> None: ...

    def read(self) -> Reading:
        raise NotImplementedError

    def ages(self) -> Mapping[str, float]:
        raise NotImplementedError

    def doubts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def send(self, command: JointCommand) -> None:
        raise NotImplementedError


class Steps(NamedTuple):
    """Of n steps, after those in which their pace is found: each (n,)."""

    ages_s: Array  # of the joints, as taken
    imu_ages_s: Array
    begins_s: Array
    waits_s: Array
    missed: Array  # deadlines


Walk = Callable[..., Steps]


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Walk:
    """Takes steps with a robot, and tells of them."""

    def take_steps(robot: Robot, steps: int = 200) -> Steps:
        clock = SimpleNamespace(
            monotonic=lambda: robot.now,
            monotonic_ns=lambda: round(robot.now * 1e9),
            sleep=robot.sleep,
        )
        monkeypatch.setattr(pace, "time", clock)
        monkeypatch.setattr(realtime, "time", clock)
        rate, profiler = RateKeeper(PERIOD_S), LatencyProfiler(PERIOD_S, robot.sensors)
        keeper, rows = Pace(robot, rate), []
        for step in range(SETTLE + steps):
            if step == SETTLE // 2:
                robot.then()
            began_s = robot.now
            taken_s = keeper.take(profiler, lambda: robot.sleep(robot.meanwhile_s))
            ages_s = [robot.now - robot.stamps()[sensor] for sensor in robot.sensors]
            robot.now += COMPUTE_S
            rows.append((*ages_s, began_s, taken_s - began_s, rate.wait()))
        return Steps(*np.array(rows[SETTLE:]).T)

    return take_steps


def fresh(steps: Steps, jitter_s: float = 0.0) -> bool:
    """Whether every reading was taken within two looks of its arrival."""
    return bool(steps.ages_s.max() < TRAVEL_S + jitter_s + 2 * (pace.POLL_S + WAKE_S + TAKE_S))


@pytest.mark.parametrize("jitter_s", [0.0, 0.3e-3])
@pytest.mark.parametrize("rate_hz", [100, 200, 300, 400, 500, 1000])
def test_readings_are_as_young_as_they_can_be(walk: Walk, rate_hz: float, jitter_s: float) -> None:
    """Whatever the rate of a robot with the loop's clock, and whenever it began to send."""
    for seed in range(5):
        steps = walk(Robot(rate_hz, jitter_s, seed))
        assert fresh(steps, jitter_s)
        assert steps.imu_ages_s.max() < steps.ages_s.max() + TAKE_S
        assert not steps.missed.any()
        np.testing.assert_allclose(np.diff(steps.begins_s), PERIOD_S, atol=0.05e-3)
        assert np.median(steps.waits_s) < 2 * pace.AHEAD_S  # it has moved to where they come


@pytest.mark.parametrize("rate_hz", [125, 250, 333, 617])
def test_a_robot_with_another_clock_does_not_change_the_loops_rate(
    walk: Walk, rate_hz: float
) -> None:
    """Its readings come anew in every step: some are waited for, no step goes with them."""
    steps = walk(Robot(rate_hz), 500)
    assert np.diff(steps.begins_s).mean() == pytest.approx(PERIOD_S, rel=2e-3)
    assert np.abs(np.diff(steps.begins_s) - PERIOD_S).max() <= pace.MOST_SHIFT_S + WAKE_S
    assert steps.waits_s.max() < PERIOD_S / 3
    assert not steps.missed.any()
    by_chance_s = TRAVEL_S + 0.5 / rate_hz
    assert np.median(steps.ages_s) < by_chance_s


def test_a_robot_slower_than_the_loop_is_waited_for_where_it_sends(walk: Walk) -> None:
    steps = walk(Robot(50))
    ages_s = np.sort(steps.ages_s)
    assert fresh(steps._replace(ages_s=ages_s[: len(ages_s) // 2]))
    assert np.median(steps.waits_s) < pace.AHEAD_S
    np.testing.assert_allclose(np.diff(steps.begins_s), PERIOD_S, atol=0.05e-3)


def test_drifting_clocks_are_followed(walk: Walk) -> None:
    """50 ppm: in a minute a robot's clock is 3 ms off."""
    steps = walk(Robot(500 * (1 + 50e-6)), 6000)
    assert fresh(steps)
    assert np.median(steps.waits_s) < 2 * pace.AHEAD_S
    assert np.diff(steps.begins_s).mean() == pytest.approx(PERIOD_S / (1 + 50e-6), rel=5e-6)


def slows_down(robot: Robot) -> None:
    robot.spacing_s = 0.01


def sets_its_clock(robot: Robot) -> None:
    robot.clock_s = 5.0


@pytest.mark.parametrize("happens", [slows_down, sets_its_clock])
def test_another_rhythm_is_found(walk: Walk, happens: Callable[[Robot], None]) -> None:
    robot = Robot(500)
    robot.then = lambda: happens(robot)
    assert fresh(walk(robot))


def test_silence_costs_no_more_than_the_patience(walk: Walk) -> None:
    """The supervisor's business: the loop goes on at its rate."""
    robot = Robot(500)
    robot.then = lambda: setattr(robot, "spacing_s", 1e9)
    steps = walk(robot)
    assert steps.waits_s.max() < 1.2 * pace.PATIENCE * PERIOD_S
    assert not steps.missed.any()


def test_an_imu_of_its_own_rate_costs_one_look_more(walk: Walk) -> None:
    robot = Robot(500)
    robot.imu_every = 5
    steps = walk(robot)
    assert fresh(steps)
    assert np.median(steps.waits_s) < 2 * pace.AHEAD_S + pace.POLL_S + WAKE_S


def test_a_link_without_a_pulse_is_taken_from_once(walk: Walk) -> None:
    """As a recording, of which every take is a step."""
    robot = Robot(500)
    robot.pulse = ()
    steps = walk(robot, 100)
    assert robot.takes == SETTLE + 100
    np.testing.assert_allclose(steps.waits_s, robot.meanwhile_s + WAKE_S)
