"""How old what a sensor says is: by its stamps and by its arrival, whichever is worse."""

from __future__ import annotations

import math

from pixelgait.robot.errors import UserError

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
        self.doubt: str | None = None
        self._measured_s = -math.inf  # on the monotonic clock, of the newest news
        self._stamp_s = math.nan

    def arrived(self, stamp_s: float, now_s: float, monotonic_s: float) -> bool:
        """A message has arrived that is stamped so, at this time on both clocks [s]; is it news?

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
            self.doubt = "what arrives repeats its stamp"
            return False
        if not age_s >= -FUTURE_S:
            self.doubt = f"what arrives is stamped {-age_s:.2f} s in the future"
            return False
        self.doubt = f"what arrives was stamped {age_s:.2f} s before" if age_s > OLD_S else None
        self._measured_s = max(self._measured_s, monotonic_s - max(0.0, age_s))
        return True

    def age_s(self, monotonic_s: float) -> float:
        """Since the newest news were measured [s]; inf if there never were any."""
        return monotonic_s - self._measured_s
