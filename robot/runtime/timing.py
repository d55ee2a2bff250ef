"""Step timing: absolute deadlines, synchronised with the arrival of sensor data; cache warm-up.

A robot sends at a rate of its own. A loop that polls every 10 ms what arrives every 2 ms finds data
of up to 2 ms of age, by chance. So a step waits for a reading that is due in a moment, and the
deadlines shift a little in every step, until all steps begin shortly before a reading.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median

from pixelgait.robot.control.controller import Controller
from pixelgait.robot.interface import Link, Reading
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.spec import Array

# Assumptions, all of them.
WAIT_SHARE = 0.25  # of a period: the longest wait for a reading, from the step's begin
MARGIN_S = 0.4e-3  # waiting shall begin so long before a reading is due: it may be early
POLL_S = 0.1e-3  # between two polls
SHIFT = 1 / 16  # share of the missing shift that one step makes
# In a step: 0.2 % of 10 ms, so the loop's rate is never further off its nominal one.
MAX_SHIFT_S = 0.02e-3
REMEMBERED = 9  # readings
OUTDATED = 100  # steps in which no reading was seen to arrive
TOGETHER_S = 0.5e-3  # stamps of one reading's sensors differ by less


def elapsed_s() -> float:
    """Seconds since the computer booted, including those in which it was suspended.

    `time.monotonic` leaves those out: a robot that lay down meanwhile would seem unchanged.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RateKeeper:
    """Sleeps until the next deadline, one period after the last: absolute, without drift."""

    def __init__(self, period_s: float) -> None:
        self.period_ns = round(period_s * 1e9)
        self.restart()

    def restart(self) -> None:
        self._deadline_ns = time.monotonic_ns()

    def shift(self, later_ns: int) -> None:
        """Move the next deadline, and with it all others."""
        self._deadline_ns += later_ns

    def wait(self) -> int:
        """Sleep until the next deadline; returns how many had passed, which are skipped."""
        self._deadline_ns += self.period_ns
        ahead = self._deadline_ns - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
            return 0
        skipped = -ahead // self.period_ns
        self._deadline_ns += skipped * self.period_ns
        return skipped + 1


class ArrivalEstimator:
    """Estimates the readings' period, and their age at arrival: medians of the last few."""

    def __init__(self) -> None:
        self._arrivals: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    @property
    def known(self) -> bool:
        """Whether there were enough readings."""
        return len(self._arrivals) == REMEMBERED

    def add(self, spacing_s: float, age_s: float) -> None:
        """A reading has just arrived: the time between its stamp and the last one, and its age."""
        self._arrivals.append((spacing_s, age_s))

    def due_s(self, age_s: float) -> tuple[float, float]:
        """Time until the next reading if the newest has this age, and the readings' period [s]."""
        spacing_s, young_s = (median(each) for each in zip(*self._arrivals, strict=True))
        return spacing_s + young_s - age_s, spacing_s


class SensorSync:
    """Polls a link for a loop, and shifts its deadlines towards the arrival of readings."""

    def __init__(self, link: Link, rate: RateKeeper, profiler: LatencyProfiler) -> None:
        self._link, self._rate, self._profiler = link, rate, profiler
        self._period_s = rate.period_ns / 1e9
        self._arrivals = ArrivalEstimator()
        self._stamp_s = math.nan  # of the newest reading
        self._steps_without = 0  # steps since a reading was seen to arrive
        self._busy_s = 0.0  # from the last step's begin until it could wait

    def wait(self, meanwhile: Callable[[], None]) -> float:
        """Poll for a reading that has arrived, or is due in a moment; `meanwhile` is called first.

        Returns the monotonic time [s] of the last poll.
        """
        if not self._link.synchronised_sensors:
            meanwhile()
            return self._poll()
        began_s = self._poll()
        self._is_new()
        worth_waiting = self._worth_waiting()
        meanwhile()
        waits_s = time.monotonic()
        self._busy_s = min(waits_s - began_s, WAIT_SHARE * self._period_s)
        polled_s = self._poll()
        if worth_waiting:
            polled_s = self._wait_until(polled_s, began_s + WAIT_SHARE * self._period_s)
        if self._incomplete():  # the rest is on its way, or comes for another step
            time.sleep(POLL_S)
            polled_s = self._poll()
        self._profiler.stages["wait"].record(round((polled_s - waits_s) * 1e9))
        return polled_s

    def _poll(self) -> float:
        """Fetch what has arrived; returns when that began [s]."""
        self._profiler.start_lap()
        began_s = time.monotonic()
        self._link.take()
        return began_s

    def _worth_waiting(self) -> bool:
        """Whether the next reading may arrive soon; shifts the deadlines towards its arrival."""
        self._steps_without += 1
        if self._steps_without > OUTDATED:  # another rate, or a clock was set
            self._arrivals, self._steps_without = ArrivalEstimator(), 0
        if not self._arrivals.known:
            return True
        due_s, spacing_s = self._arrivals.due_s(self._link.now_s() - self._stamp_s)
        if due_s > self._period_s:  # for a later step
            return False
        # Towards the nearest reading, which may be one that was just missed.
        self._shift(SHIFT * math.remainder(due_s - self._busy_s - MARGIN_S, spacing_s))
        return due_s < WAIT_SHARE * self._period_s

    def _wait_until(self, polled_s: float, until_s: float) -> float:
        """Poll until the next reading, or for as long as allowed; returns the last poll's time."""
        before_s = self._stamp_s
        there = self._is_new()  # but its time of arrival is unknown
        while not there and polled_s < until_s:
            time.sleep(POLL_S)
            polled_s = self._poll()
            if self._is_new():
                self._arrivals.add(self._stamp_s - before_s, self._link.now_s() - self._stamp_s)
                self._steps_without = 0
                return polled_s
        if not self._arrivals.known:
            self._shift(MAX_SHIFT_S)  # search elsewhere
        return polled_s

    def _shift(self, later_s: float) -> None:
        self._rate.shift(round(max(-MAX_SHIFT_S, min(MAX_SHIFT_S, later_s)) * 1e9))

    def _is_new(self) -> bool:
        """Whether there is a new reading since the last call."""
        before_s = self._stamp_s
        self._stamp_s = self._link.stamps()[self._link.synchronised_sensors[0]]
        return self._stamp_s != before_s

    def _incomplete(self) -> bool:
        """Whether another sensor of the robot has not sent its part of the newest reading."""
        stamps = self._link.stamps()
        return any(
            stamps[sensor] < self._stamp_s - TOGETHER_S
            for sensor in self._link.synchronised_sensors[1:]
        )


class CacheWarmup:
    """Runs the last control step again on a shadow controller, to keep the processor's caches warm.

    Between two steps a busy computer evicts a step's code and data from the caches; a step then
    takes four times as long (p99 0.6 instead of 0.23 ms). Results are discarded.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller, self._shadow = controller, controller.shadow()

    def reset(self) -> None:
        """Forget all readings; call it when the controller starts anew."""
        self._shadow.reset()

    def run(self, reading: Reading, latent: Array) -> None:
        """Repeat the step that answered this reading with this latent command (2,)."""
        self._shadow.supervisor.motors_enabled = self._controller.supervisor.motors_enabled
        self._shadow.follow(latent, reading)
