"""Newest messages of several topics and their ages, taken in the control thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pixelgait.robot.safety.sensor_age import Freshness

NANOSECONDS = 1_000_000_000


def stamp_ns(message: Any) -> int:
    """Stamp of a message [ns]."""
    stamp = message.header.stamp
    return int(stamp.sec * NANOSECONDS + stamp.nanosec)


def stamp_s(message: Any) -> float:
    """Stamp of a message [s]."""
    return stamp_ns(message) / 1e9


class Newest:
    """The newest message of every topic and its age; a subclass fetches the messages.

    Messages need only the field `header.stamp`. `now_s` is the clock of stamps [s].
    """

    def __init__(self, topics: Iterable[str], now_s: Callable[[], float]) -> None:
        self.topics, self._now_s = tuple(topics), now_s
        self.freshness = {topic: Freshness(topic) for topic in self.topics}
        self.received = dict.fromkeys(self.topics, 0)  # number of messages that have arrived
        self.newest: dict[str, Any] = {}

    def fetch(self, topic: str) -> tuple[Any | None, str | None]:
        """The next message of a topic, or None, and why it cannot be read, or None.

        Counts those that have arrived.
        """
        raise NotImplementedError

    def take(
        self, problem: Callable[[str, Any], str | None] = lambda *_: None
    ) -> Iterator[tuple[str, Any]]:
        """Topics and messages that are new; `problem` says why a message does not count as new.

        Raises:
            UserError: a message has no stamp.
        """
        for topic in self.topics:
            message, warning = self.fetch(topic)
            if message is None:
                continue
            if warning is None:  # one damaged image is like one that is missing
                self.newest[topic], warning = message, problem(topic, message)
            now_s, freshness = self._now_s(), self.freshness[topic]
            if freshness.arrived(stamp_s(message), now_s, time.monotonic(), warning):
                yield topic, message

    def forget(self) -> None:
        """Treat what has arrived so far as never sent."""
        for freshness in self.freshness.values():
            freshness.forget()

    def ages(self) -> dict[str, float]:
        """Time since each topic's newest data was measured [s]."""
        now = time.monotonic()
        return {name: each.age_s(now) for name, each in self.freshness.items()}

    def warnings(self) -> dict[str, str]:
        """Warnings per topic, empty if all are healthy."""
        return {name: each.warning for name, each in self.freshness.items() if each.warning}

    def stamps(self) -> dict[str, float]:
        """Stamp of each topic's newest message [s]."""
        return {topic: stamp_s(message) for topic, message in self.newest.items()}
