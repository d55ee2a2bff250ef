"""Battery and motor temperatures: warnings, and when a robot must lie down or not stand up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from pixelgait.robot.runtime.state_machine import STIFF, Operator

# Charge of the battery [%]: a warning, too little to stand up, lie down. Assumptions: below the
# last one voltage may collapse under load, and a robot without power falls.
LOW_PERCENT, LITTLE_PERCENT, EMPTY_PERCENT = 20, 10, 5
# Temperature of a motor [deg C]: a warning, too hot to stand up, lie down. Motors of a standing Go2
# have 30 to 50. The last is where the vendor's G1 warns of high temperature
# (NVlabs/GR00T-WholeBodyControl, issue 174); the others are assumptions.
WARM_DEG_C, HOT_DEG_C, OVERHEATED_DEG_C = 70, 80, 90
PERIOD_S = 0.1  # between two checks
LASTING_S = 1.0  # a standing robot lies down after that: single values may be wrong; assumption
LONE_S = 10.0  # after that also if there was one value alone: a battery may report rarely


@dataclass(frozen=True, slots=True)
class PowerState:
    """Battery and motors, as far as a robot reports them."""

    charge_percent: float | None = None
    voltage_v: float | None = None
    hottest_motor: str = ""
    motor_deg_c: float | None = None

    def beyond(self, percent: float, deg_c: float) -> str | None:
        """Which of both is below this charge [%] or at this temperature; None if neither."""
        found = []
        if self.charge_percent is not None and self.charge_percent < percent:
            found.append(f"battery at {self.charge_percent:.0f} %")
        if self.motor_deg_c is not None and self.motor_deg_c >= deg_c:
            found.append(f"{self.hottest_motor} has {self.motor_deg_c:.0f} deg C")
        return ", ".join(found) or None


class PowerWatch:
    """Lays a robot down whose battery is empty or whose motors are too hot, and keeps it down.

    Called in the control thread; any thread may use `newest`, `unfit` and `warning`.

    Args:
        power: returns the newest state, the same object until there is a new one; None if the robot
            reports none.
        enabled: whether the robot is to be laid down.
    """

    def __init__(
        self,
        operator: Operator,
        power: Callable[[], PowerState | None],
        enabled: Callable[[], bool],
    ) -> None:
        self._operator, self._power, self._enabled = operator, power, enabled
        self.newest: PowerState | None = None
        self._checked_s, self._well_s = -math.inf, time.monotonic()
        self._values = 0  # beyond the limits, in a row

    def update(self) -> None:
        """Check battery and motors; called in every control step."""
        now_s = time.monotonic()
        if now_s - self._checked_s >= PERIOD_S:
            self._checked_s = now_s
            self.check(now_s)

    def check(self, now_s: float) -> None:
        """Check at this time [s] (monotonic)."""
        before, self.newest = self.newest, self._power()
        stands = self._operator.state in STIFF
        reason = self._reason(stands)
        if reason is None:
            self._well_s, self._values = now_s, 0
        elif self.newest is not before:
            self._values += 1
        lasting_s = LASTING_S if self._values > 1 else LONE_S
        if reason is None or not stands or now_s - self._well_s >= lasting_s:
            self._operator.keep_down(reason)

    def _reason(self, stands: bool) -> str | None:
        """Why the robot must not stand, or None."""
        if self.newest is None or not self._enabled():
            return None
        limits = (EMPTY_PERCENT, OVERHEATED_DEG_C) if stands else (LITTLE_PERCENT, HOT_DEG_C)
        found = self.newest.beyond(*limits)
        return found and f"{found}: the robot must not stand"

    @property
    def unfit(self) -> str | None:
        """Why the robot must not stand, or None."""
        return self._operator.unfit

    def warning(self) -> str | None:
        """A warning about a low battery, a warm motor, or both; None if all is well."""
        if self.unfit is not None:
            return self.unfit
        newest = self.newest
        return None if newest is None else newest.beyond(LOW_PERCENT, WARM_DEG_C)
