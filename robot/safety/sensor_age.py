"""Sensor age and health: by stamp and by arrival, whichever is worse; frozen images."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.sensor_checks import STUCK_RAD
from pixelgait.robot.safety.supervisor import SensorHealth, SensorTimeouts
from pixelgait.robot.spec import Array

FUTURE_S = 0.05  # assumption: largest offset between the clocks of two computers
OLD_S = 0.05  # assumption: a message of this age is worth a warning
RECOVERED_S = 0.5  # assumption: a sensor must be healthier for so long before that is reported
EFFECTS = {
    SensorHealth.FRESH: "is fresh",
    SensorHealth.AGEING: "is ageing, the last decision holds",
    SensorHealth.STALE: "is stale, the robot slows to a stand",
    SensorHealth.DEAD: "is dead, the robot is damped",
}


class Freshness:
    """Tracks the age of one sensor's data. Repeated and future stamps do not count as new data.

    `warning` says what is wrong with the last message, or is None.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.forget()

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self.warning: str | None = None
        self._measured_s = -math.inf  # on the monotonic clock, of the newest data
        self._stamp_s = math.nan

    def arrived(
        self, stamp_s: float, now_s: float, monotonic_s: float, warning: str | None = None
    ) -> bool:
        """A message has arrived; returns whether it counts as new data.

        When the sensor's clock or this computer's is set, one message looks old or early: earlier
        data stays the newest until the next message.

        Args:
            stamp_s: the message's stamp [s].
            now_s: present time on the same clock [s].
            monotonic_s: present time on the monotonic clock [s].
            warning: what else is wrong with the message; it is not new data then.

        Raises:
            UserError: if the message has no stamp.
        """
        if stamp_s == 0.0:
            raise UserError(f"{self.name} is not stamped: its driver leaves header.stamp at 0")
        age_s, repeated = now_s - stamp_s, stamp_s == self._stamp_s
        self._stamp_s = stamp_s
        if repeated:
            self.warning = "messages repeat their stamp"
            return False
        if warning is not None:
            self.warning = warning
            return False
        if not age_s >= -FUTURE_S:
            self.warning = f"messages are stamped {-age_s:.2f} s in the future"
            return False
        self.warning = f"messages arrive {age_s:.2f} s late" if age_s > OLD_S else None
        self._measured_s = max(self._measured_s, monotonic_s - max(0.0, age_s))
        return True

    def age_s(self, monotonic_s: float) -> float:
        """Time since the newest data was measured [s]; inf if there never was any."""
        return monotonic_s - self._measured_s


class SensorReport(NamedTuple):
    """Status of a sensor for operators."""

    sensor_health: SensorHealth
    age_s: float
    warning: str | None
    received: int  # messages


class FrozenImageCheck:
    """Detects a camera that repeats its image, to the last bit, although the robot moves.

    A robot at rest may see the same for ever, where there is no noise.
    """

    def __init__(self) -> None:
        self._pixels = np.zeros(0, np.uint8)
        self._joints = np.zeros(0)  # angles when this image came first [rad]
        self._moved_rad = 0.0  # largest motion of a joint since

    def judge(self, data: Any, joints: Array) -> str | None:
        """Warning about an image's bytes, given the present joint angles [rad].

        None if the image is new, or if joints have moved by no more than `STUCK_RAD` since it came
        first. `joints` may be of any length.
        """
        pixels = np.frombuffer(data, np.uint8)
        comparable = joints.shape == self._joints.shape
        if not (comparable and np.array_equal(pixels, self._pixels)):
            self._pixels, self._joints, self._moved_rad = pixels, joints, 0.0
            return None
        self._moved_rad = max(self._moved_rad, float(np.abs(joints - self._joints).max(initial=0)))
        if self._moved_rad <= STUCK_RAD:
            return None
        return f"the image is frozen while joints move by {self._moved_rad:.2f} rad"


class SensorStatus:
    """Reports changes of sensor health; `changes` holds the newest lines, oldest first.

    The first update reports every sensor. A worse health is reported at once, a better one once it
    has lasted for `RECOVERED_S`. The supervisor does not wait for that.
    """

    def __init__(self, sensor_timeouts: Mapping[str, SensorTimeouts]) -> None:
        self._sensor_timeouts = sensor_timeouts
        self.reported: dict[str, SensorHealth] = {}
        self.changes: deque[tuple[SensorHealth, str]] = deque(maxlen=100)
        self._better_since_s: dict[str, float] = {}

    def update(self, ages: Mapping[str, float], warnings: Mapping[str, str], now_s: float) -> None:
        """Process ages [s] and warnings of a control step, at a time on any clock [s]."""
        for sensor, age_s in ages.items():
            health = self._sensor_timeouts[sensor].sensor_health(age_s)
            before = self.reported.get(sensor)
            if before is None:
                fresh = health is SensorHealth.FRESH
                self._report(
                    sensor, health, "it sends" if fresh else _cause(age_s, warnings.get(sensor))
                )
                continue
            if health >= before:
                self._better_since_s.pop(sensor, None)
            if health > before:
                self._report(sensor, health, _cause(age_s, warnings.get(sensor)))
            elif health < before:
                since_s = self._better_since_s.setdefault(sensor, now_s)
                if now_s - since_s > RECOVERED_S:
                    self._better_since_s.pop(sensor)
                    self._report(sensor, health, f"was {before.name.lower()}")

    def _report(self, sensor: str, health: SensorHealth, cause: str) -> None:
        self.reported[sensor] = health
        self.changes.append((health, f"{sensor} {EFFECTS[health]}: {cause}"))


def _cause(age_s: float, warning: str | None) -> str:
    silent = "never sent" if math.isinf(age_s) else f"nothing new for {age_s:.2f} s"
    return f"{silent}; {warning}" if warning else silent
