"""How old what a sensor says is: by its stamps and by its arrival, whichever is worse."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pixelgait.robot.errors import UserError
from pixelgait.robot.safety.sensor_checks import STUCK_RAD
from pixelgait.robot.safety.supervisor import SensorHealth
from pixelgait.robot.spec import Array

FUTURE_S = 0.05  # clocks of two computers may differ by so much; ours
OLD_S = 0.05  # from here on an age by stamp is worth a word; ours


class Freshness:
    """Of one sensor. What repeats a stamp, or is stamped in the future, is no news.

    `doubt` says what is odd about the last message, or is None.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.forget()

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        self.warning: str | None = None
        self._measured_s = -math.inf  # on the monotonic clock, of the newest news
        self._stamp_s = math.nan

    def arrived(
        self, stamp_s: float, now_s: float, monotonic_s: float, odd: str | None = None
    ) -> bool:
        """A message has arrived that is stamped so, at this time on both clocks [s]; is it news?

        It is none if something else about it is `odd`.

        A clock that is set, ours and the sensor's, makes one message look old or early: what
        arrived before stays the newest until the next.

        Raises:
            UserError: it has no stamp.
        """
        if stamp_s == 0.0:
            raise UserError(f"{self.name} is not stamped: its driver leaves header.stamp at 0")
        age_s, repeated = now_s - stamp_s, stamp_s == self._stamp_s
        self._stamp_s = stamp_s
        if repeated:
            self.warning = "what arrives repeats its stamp"
            return False
        if odd is not None:
            self.warning = odd
            return False
        if not age_s >= -FUTURE_S:
            self.warning = f"what arrives is stamped {-age_s:.2f} s in the future"
            return False
        self.warning = f"what arrives was stamped {age_s:.2f} s before" if age_s > OLD_S else None
        self._measured_s = max(self._measured_s, monotonic_s - max(0.0, age_s))
        return True

    def age_s(self, monotonic_s: float) -> float:
        """Since the newest news were measured [s]; inf if there never were any."""
        return monotonic_s - self._measured_s


class Seen(NamedTuple):
    """What people are told of a sensor."""

    sensor_health: SensorHealth
    age_s: float
    warning: str | None
    received: int  # messages taken


class PictureWatch:
    """Of one camera: no two pictures of a robot that moves are the same in every bit.

    A robot that stands may see the same for ever, where nothing is noisy.
    """

    def __init__(self) -> None:
        self._pixels = np.zeros(0, np.uint8)
        self._joints = np.zeros(0)  # angles when this picture came first [rad]
        self._moved_rad = 0.0  # how far any has been from there since

    def frozen(self, data: Any, joints: Array) -> str | None:
        """A picture's bytes and the joints' angles with it: what is odd about it, or None."""
        pixels = np.frombuffer(data, np.uint8)
        comparable = joints.shape == self._joints.shape
        if not (comparable and np.array_equal(pixels, self._pixels)):
            self._pixels, self._joints, self._moved_rad = pixels, joints, 0.0
            return None
        self._moved_rad = max(self._moved_rad, float(np.abs(joints - self._joints).max(initial=0)))
        if self._moved_rad <= STUCK_RAD:
            return None
        return f"the same picture again and again, while joints move by {self._moved_rad:.2f} rad"
