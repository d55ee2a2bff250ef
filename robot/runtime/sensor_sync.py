"""When a control step takes its readings: as soon as they arrive, not whenever its clock says so.

A robot sends at a rate of its own. Who looks every 10 ms at what comes every 2 ms finds a reading
that is up to 2 ms old, by nothing but chance. So a step waits for a reading that is due in a
moment, and steps are moved, a little each, until they all begin shortly before one.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median

from pixelgait.robot.interface import Link
from pixelgait.robot.runtime.latency import LatencyProfiler
from pixelgait.robot.runtime.realtime import RateKeeper

# All of these are ours.
WAIT_SHARE = 0.25  # of a period: so long a step waits for a reading, from its begin
MARGIN_S = 0.4e-3  # so long before a reading is due waiting shall begin: it may be early
POLL_S = 0.1e-3  # between two looks
SHIFT = 1 / 16  # of what is missing to that, in every step
# In a step: 0.2 % of 10 ms. Whatever the robot's rhythm, the loop's is no further off its own.
MOST_SHIFT_S = 0.02e-3
REMEMBERED = 9  # readings
OUTDATED = 100  # steps in which no reading was seen to come
TOGETHER_S = 0.5e-3  # stamps of one reading's sensors differ by less


class ArrivalEstimator:
    """How often readings come, and how old they are then: medians of the last few."""

    def __init__(self) -> None:
        self._heard: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    @property
    def known(self) -> bool:
        """Whether enough was heard."""
        return len(self._heard) == REMEMBERED

    def heard(self, spacing_s: float, age_s: float) -> None:
        """A reading has just come, stamped so long after the one before, and is so old."""
        self._heard.append((spacing_s, age_s))

    def due_s(self, age_s: float) -> tuple[float, float]:
        """In how long the next comes if the newest is so old, and how often they come [s]."""
        spacing_s, young_s = (median(each) for each in zip(*self._heard, strict=True))
        return spacing_s + young_s - age_s, spacing_s


class SensorSync:
    """Takes the readings of a link for a loop, and moves its steps to when they come."""

    def __init__(self, link: Link, rate: RateKeeper, profiler: LatencyProfiler) -> None:
        self._link, self._rate, self._profiler = link, rate, profiler
        self._period_s = rate.period_ns / 1e9
        self._arrivals = ArrivalEstimator()
        self._stamp_s = math.nan  # of the newest reading
        self._unheard = 0  # steps since a reading was seen to come
        self._busy_s = 0.0  # from the last step's begin until it could wait

    def take(self, meanwhile: Callable[[], None]) -> float:
        """Fetch what has arrived, or what will in a moment; when that began [s], monotonic.

        While it is still to come there is time for something else, `meanwhile`.
        """
        if not self._link.synchronised_sensors:
            meanwhile()
            return self._look()
        began_s = self._look()
        self._news()
        worth_waiting = self._worth_waiting()
        meanwhile()
        waits_s = time.monotonic()
        self._busy_s = min(waits_s - began_s, WAIT_SHARE * self._period_s)
        taken_s = self._look()
        if worth_waiting:
            taken_s = self._wait(taken_s, began_s + WAIT_SHARE * self._period_s)
        if self._incomplete():  # the rest is on its way, or comes for another step
            time.sleep(POLL_S)
            taken_s = self._look()
        self._profiler.stages["wait"].record(round((taken_s - waits_s) * 1e9))
        return taken_s

    def _look(self) -> float:
        """Fetch what has arrived; when that began [s]."""
        self._profiler.start_lap()
        began_s = time.monotonic()
        self._link.take()
        return began_s

    def _worth_waiting(self) -> bool:
        """Whether the next reading may come soon; moves the steps to come to when it does."""
        self._unheard += 1
        if self._unheard > OUTDATED:  # another rhythm, or another clock
            self._arrivals, self._unheard = ArrivalEstimator(), 0
        if not self._arrivals.known:
            return True
        due_s, spacing_s = self._arrivals.due_s(self._link.now_s() - self._stamp_s)
        if due_s > self._period_s:  # for a later step
            return False
        # To the nearest: a reading that was missed by a little is not the next one's business.
        self._shift(SHIFT * math.remainder(due_s - self._busy_s - MARGIN_S, spacing_s))
        return due_s < WAIT_SHARE * self._period_s

    def _wait(self, looked_s: float, until_s: float) -> float:
        """For the next reading, as long as that is worth it; when it was looked for last [s]."""
        before_s = self._stamp_s
        there = self._news()  # maybe for a while: when it came nobody knows
        while not there and looked_s < until_s:
            time.sleep(POLL_S)
            looked_s = self._look()
            if self._news():
                self._arrivals.heard(self._stamp_s - before_s, self._link.now_s() - self._stamp_s)
                self._unheard = 0
                return looked_s
        if not self._arrivals.known:
            self._shift(MOST_SHIFT_S)  # look for it elsewhere
        return looked_s

    def _shift(self, later_s: float) -> None:
        self._rate.shift(round(max(-MOST_SHIFT_S, min(MOST_SHIFT_S, later_s)) * 1e9))

    def _news(self) -> bool:
        """Whether there is a new reading."""
        before_s, self._stamp_s = (
            self._stamp_s,
            self._link.stamps()[self._link.synchronised_sensors[0]],
        )
        return self._stamp_s != before_s

    def _incomplete(self) -> bool:
        """Whether another of the robot's sensors has not said anything since."""
        stamps = self._link.stamps()
        return any(
            stamps[sensor] < self._stamp_s - TOGETHER_S
            for sensor in self._link.synchronised_sensors[1:]
        )
