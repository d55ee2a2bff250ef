"""Tells people how far every sensor can be relied on, whenever that changes, and why."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from pixelgait.robot.safety.supervisor import SensorHealth, SensorTimeouts

RECOVERED_S = 0.5  # so long it must be better before that is told: a limit case says little; ours
FOLLOWS = {
    SensorHealth.FRESH: "is fresh",
    SensorHealth.AGEING: "is ageing, the last decision holds",
    SensorHealth.STALE: "is stale, the robot slows to a stand",
    SensorHealth.DEAD: "is dead, the robot is damped",
}


class SensorStatus:
    """Follows the ages of all sensors; `changes` are lines for people, oldest first.

    The first look tells of every sensor. What gets worse is told at once, what gets better when it
    has been so for `RECOVERED_S`. For control the ages count as they are.
    """

    def __init__(self, sensor_timeouts: Mapping[str, SensorTimeouts]) -> None:
        self._sensor_timeouts = sensor_timeouts
        self.stages: dict[str, SensorHealth] = {}  # as told
        self.changes: deque[tuple[SensorHealth, str]] = deque(maxlen=100)
        self._better_since_s: dict[str, float] = {}

    def look(self, ages: Mapping[str, float], warnings: Mapping[str, str], now_s: float) -> None:
        """Ages [s] of this step, what is odd about them, and the time on any clock [s]."""
        for sensor, age_s in ages.items():
            sensor_health, told = (
                self._sensor_timeouts[sensor].sensor_health(age_s),
                self.stages.get(sensor),
            )
            if told is None:
                cause = (
                    "it sends"
                    if sensor_health is SensorHealth.FRESH
                    else _cause(age_s, warnings.get(sensor))
                )
                self._tell(sensor, sensor_health, cause)
                continue
            if sensor_health >= told:
                self._better_since_s.pop(sensor, None)
            if sensor_health > told:
                self._tell(sensor, sensor_health, _cause(age_s, warnings.get(sensor)))
            elif sensor_health < told:
                since_s = self._better_since_s.setdefault(sensor, now_s)
                if now_s - since_s > RECOVERED_S:
                    self._better_since_s.pop(sensor)
                    self._tell(sensor, sensor_health, f"was {told.name.lower()}")

    def _tell(self, sensor: str, sensor_health: SensorHealth, cause: str) -> None:
        self.stages[sensor] = sensor_health
        self.changes.append((sensor_health, f"{sensor} {FOLLOWS[sensor_health]}: {cause}"))


def _cause(age_s: float, warning: str | None) -> str:
    silent = "never sent" if math.isinf(age_s) else f"nothing new for {age_s:.2f} s"
    return f"{silent}; {warning}" if warning else silent
