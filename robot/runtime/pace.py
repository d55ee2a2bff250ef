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
PATIENCE = 0.25  # of a period: so long a step waits for a reading
AHEAD_S = 0.8e-3  # so long before a reading is due a step shall begin; half of it may be rehearsed
POLL_S = 0.1e-3  # between two looks
SHIFT = 1 / 16  # of what is missing to that, in every step
MOST_SHIFT_S = 0.25e-3  # in a step
REMEMBERED = 9  # readings
TOGETHER_S = 0.5e-3  # stamps of one reading's sensors differ by less


class Rhythm:
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


class Pace:
    """Takes the readings of a link for a loop, and moves its steps to when they come."""

    def __init__(self, link: Link, rate: RateKeeper) -> None:
        self._link, self._rate = link, rate
        self._period_s = rate.period_ns / 1e9
        self._rhythm = Rhythm()
        self._stamp_s = math.nan  # of the newest reading
        self._in_vain = 0  # steps that waited, since the last that saw a reading come

    def take(self, profiler: LatencyProfiler, meanwhile: Callable[[], None]) -> float:
        """Fetch what has arrived, or what will in a moment; when that began [s], monotonic.

        Before that there is time for something else, `meanwhile`, that takes up to `AHEAD_S` / 2.
        """
        if not self._link.pulse:
            meanwhile()
            return self._take(profiler)
        until_s = self._take(profiler) + PATIENCE * self._period_s
        self._news()
        worth_waiting = self._worth_waiting()
        meanwhile()
        began_s = time.monotonic()
        taken_s = self._wait(until_s, profiler) if worth_waiting else self._take(profiler)
        if self._incomplete():  # the rest is on its way, or comes for another step
            time.sleep(POLL_S)
            taken_s = self._take(profiler)
        profiler.stages["wait"].record(round((taken_s - began_s) * 1e9))
        return taken_s

    def _take(self, profiler: LatencyProfiler) -> float:
        profiler.start_lap()
        began_s = time.monotonic()
        self._link.take()
        return began_s

    def _worth_waiting(self) -> bool:
        """Whether the next reading may come soon; moves the steps to come to when it does."""
        if not self._rhythm.known:
            return True
        due_s, spacing_s = self._rhythm.due_s(self._link.now_s() - self._stamp_s)
        if due_s > self._period_s:  # for a later step
            return False
        # To the nearest: a reading that was missed by a little is not the next one's business.
        self._shift(SHIFT * math.remainder(due_s - AHEAD_S, spacing_s))
        return due_s < PATIENCE * self._period_s

    def _wait(self, until_s: float, profiler: LatencyProfiler) -> float:
        """For the next reading, as long as that is worth it; when it was looked for last [s]."""
        before_s, taken_s = self._stamp_s, self._take(profiler)
        if self._news():  # it may have been there for a while
            self._learn_nothing(0.0)
            return taken_s
        while taken_s < until_s:
            time.sleep(POLL_S)
            taken_s = self._take(profiler)
            if self._news():
                self._rhythm.heard(self._stamp_s - before_s, self._link.now_s() - self._stamp_s)
                self._in_vain = 0
                return taken_s
        self._learn_nothing(MOST_SHIFT_S)  # look for it elsewhere
        return taken_s

    def _learn_nothing(self, shift_s: float) -> None:
        """Go on so much later while the rhythm is not known; forget it if that goes on and on."""
        if not self._rhythm.known:
            self._shift(shift_s)
            return
        self._in_vain += 1
        if self._in_vain >= REMEMBERED:  # another rhythm, or another clock
            self._rhythm, self._in_vain = Rhythm(), 0

    def _shift(self, later_s: float) -> None:
        self._rate.shift(round(max(-MOST_SHIFT_S, min(MOST_SHIFT_S, later_s)) * 1e9))

    def _news(self) -> bool:
        """Whether there is a new reading."""
        before_s, self._stamp_s = self._stamp_s, self._link.stamps()[self._link.pulse[0]]
        return self._stamp_s != before_s

    def _incomplete(self) -> bool:
        """Whether another of the robot's sensors has not said anything since."""
        stamps = self._link.stamps()
        return any(stamps[sensor] < self._stamp_s - TOGETHER_S for sensor in self._link.pulse[1:])
